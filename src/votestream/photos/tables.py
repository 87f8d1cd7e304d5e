"""Predictions and evaluations as CSV files, written whole."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from votestream.io.partial_files import write_whole

if TYPE_CHECKING:
    from votestream.photos.answering import Answer
    from votestream.photos.evaluating import Judged

Rows = Iterable[list[Any]]


def predictions(answers: list[Answer]) -> Rows:
    """A row a photo: its file, label and confidence, then the next likeliest classes with their probabilities."""
    most = max((len(answer.numbers["probabilities"]) for answer in answers), default=1)
    others = [name for n in range(2, most + 1) for name in (f"label {n}", f"probability {n}")]
    tracked = any("unknown_score" in answer.numbers for answer in answers)
    yield ["file", *(("unknown", "unknown score") if tracked else ()), "label", "confidence", *others]
    for answer in answers:
        unknown = ["yes" if answer.numbers["unknown"] else "no", answer.numbers["unknown_score"]] if tracked else []
        pairs = [(entry["label"], entry["probability"]) for entry in answer.numbers["probabilities"]]
        yield [answer.path, *unknown, *(value for pair in pairs for value in pair)]


def judgements(photos: list[Judged]) -> Rows:
    """A row a photo of an evaluation."""
    yield ["file", "label", "predicted", "confidence", "right"]
    for photo in photos:
        yield [photo.path, photo.label, photo.predicted, photo.confidence, "yes" if photo.right else "no"]


def write_csv(path: Path, rows: Rows) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> None:
    """Write a text file, or leave what was there."""
    write_whole(path, text.encode("utf-8", "surrogateescape"))
