"""Predictions on photos: the label, its confidence and the vote, as numbers and as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.images.class_folders import walk
from votestream.learners import CandidatesVoting, Learner
from votestream.photos.decode import DecodedPhoto, decode_photos, without_labels
from votestream.photos.features import Features, extract_features, parallel_batches
from votestream.pipeline import ImageClassifier
from votestream.pipeline.prediction_details import PredictionDetails


@dataclass(frozen=True)
class Prediction:
    """The prediction on one photo, or the problem that prevented it.

    `text` is one line for people, `why` the same with what decided, `numbers` all of it for programs.
    """

    path: Path
    problem: str | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    why: str = ""


def photo_files(paths: list[Path]) -> tuple[list[Path], list[str]]:
    """The files given, those in the folders given, in order; and a message for each folder without photos."""
    files: list[Path] = []
    problems: list[str] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        before = len(problems)
        inside = list(walk(path, problems))
        files += inside
        if not inside and len(problems) == before:
            problems.append(f"{path} holds no photo.")
    return files, problems


def is_below(path: Path, folder: Path) -> bool:
    """Whether a file lies in a folder or in folders inside it; links to files are not followed.

    >>> [is_below(Path(name), Path("photos/sorted")) for name in ("photos/sorted/oak/1.jpg", "photos/1.jpg")]
    [True, False]
    """
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path.parent), path.name).parents


def predict_photos(
    model: ImageClassifier, files: list[Path], top: int | None = None, unknown: float = 0.0
) -> Iterator[Prediction]:
    """A prediction for each file, in order; with `top`, the text lists the N most likely classes.

    `unknown` is the share of known photos that may be reported as unknown.
    """
    backbone = model.backbone_
    # Even a few photos are divided, so that every core has some.
    size = min(backbone.batch_size, max(1, -(-len(files) // parallel_batches(backbone))))
    batches = _batches(decode_photos(without_labels(files), backbone), size)
    for batch, features in extract_features(batches, backbone):
        yield from _predict_batch(model, batch, features, top, unknown)


def _batches(photos: Iterable[DecodedPhoto], size: int) -> Iterator[list[DecodedPhoto]]:
    rest = iter(photos)
    while batch := list(islice(rest, size)):
        yield batch


def _predict_batch(
    model: ImageClassifier, batch: list[DecodedPhoto], features: Features, top: int | None, unknown: float
) -> Iterator[Prediction]:
    details = None
    if len(features):
        nearest = nearest_exemplars(model.learner_, features)
        details = PredictionDetails(model.learner_.snapshot(), features, top, unknown, nearest)
    row = 0
    for photo in batch:
        path = Path(photo.photo.path)
        if photo.problem or details is None:
            yield Prediction(path, photo.problem)
            continue
        yield Prediction(path, None, details.numbers(row, top), details.text(row, top), details.words(row, top))
        row += 1


def nearest_exemplars(learner: Learner, features: NDArray[np.float32]) -> list[Any] | None:
    """The label of the exemplar nearest to each row; None if exemplars do not count in the vote."""
    if not isinstance(learner, CandidatesVoting) or learner.decide != "vote":
        return None
    exemplars = learner.exemplars_
    distances = torch.cdist(torch.from_numpy(features), torch.from_numpy(exemplars.features))
    labels: list[Any] = exemplars.labels[distances.argmin(1).numpy()].tolist()
    return labels
