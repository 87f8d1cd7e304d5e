"""Predictions and evaluations as CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from votestream.io.partial_files import write_whole

if TYPE_CHECKING:
    from votestream.photos.evaluation import EvaluatedPhoto
    from votestream.photos.predictions import Prediction

Rows = Iterable[list[Any]]


def prediction_rows(predictions: list[Prediction]) -> Rows:
    """One row a photo: file, label and confidence, then the next most likely classes with their probabilities."""
    found = [(each.path, each.numbers) for each in predictions]
    most = max((len(numbers["probabilities"]) for _, numbers in found), default=1)
    others = [name for n in range(2, most + 1) for name in (f"label {n}", f"probability {n}")]
    tracked = any("unknown_score" in numbers for _, numbers in found)
    yield ["file", *(("unknown", "unknown score") if tracked else ()), "label", "confidence", *others]
    for path, numbers in found:
        unknown = ["yes" if numbers["unknown"] else "no", numbers["unknown_score"]] if tracked else []
        pairs = [(each["label"], each["probability"]) for each in numbers["probabilities"]]
        pairs[0] = numbers["label"], numbers["confidence"]
        yield [path, *unknown, *(value for pair in pairs for value in pair)]


def evaluation_rows(photos: list[EvaluatedPhoto]) -> Rows:
    """One row for each photo of an evaluation."""
    yield ["file", "label", "predicted", "confidence", "right"]
    for photo in photos:
        yield [photo.path, photo.label, photo.predicted, photo.confidence, "yes" if photo.right else "no"]


def write_csv(path: Path, rows: Rows) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> None:
    """Write the whole file, or leave the old one as it is."""
    write_whole(path, text.encode("utf-8", "surrogateescape"))
