"""Asking a model about photos: the label, how sure it is, and how the vote fell, as numbers or in words."""

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
from votestream.photos.decisions import Decisions
from votestream.photos.looking import Features, looked_at, lookers_of
from votestream.photos.reading import Reading, as_photos, readings
from votestream.pipeline import ImageClassifier


@dataclass(frozen=True)
class Answer:
    """What the model says about one photo, or why it says nothing."""

    path: Path
    problem: str | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    words: str = ""


def files_in(given: list[Path]) -> tuple[list[Path], list[str]]:
    """The files named, and those below the folders named, in order; and folders without any."""
    files: list[Path] = []
    problems: list[str] = []
    for path in given:
        if not path.is_dir():
            files.append(path)
            continue
        before = len(problems)
        inside = list(walk(path, problems))
        files += inside
        if not inside and len(problems) == before:
            problems.append(f"{path} holds no photo.")
    return files, problems


def below(path: Path, folder: Path) -> bool:
    """Whether a file lies in a folder or in folders of it, the file itself and not what a link leads to.

    >>> [below(Path(name), Path("photos/sorted")) for name in ("photos/sorted/oak/1.jpg", "photos/1.jpg")]
    [True, False]
    """
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path.parent), path.name).parents


def answers(
    model: ImageClassifier, files: list[Path], top: int | None = None, unknown: float = 0.0
) -> Iterator[Answer]:
    """An answer for each file in its order, a batch at a time; with `top`, in words the so many likeliest classes.

    `unknown` is the share of known photos that may be called unknown by mistake.
    """
    backbone = model.backbone_
    # A few photos are shared among those who look, too.
    size = min(backbone.batch_size, max(1, -(-len(files) // lookers_of(backbone))))
    for batch, features in looked_at(_batches(readings(as_photos(files), backbone), size), backbone):
        yield from _answer(model, batch, features, top, unknown)


def _batches(found: Iterable[Reading], size: int) -> Iterator[list[Reading]]:
    rest = iter(found)
    while batch := list(islice(rest, size)):
        yield batch


def _answer(
    model: ImageClassifier, batch: list[Reading], features: Features, top: int | None, unknown: float
) -> Iterator[Answer]:
    decisions: Iterator[tuple[dict[str, Any], str]] = iter(())
    if len(features):
        nearest = nearest_exemplars(model.learner_, features)
        decisions = iter(Decisions(model.learner_.snapshot(), features, top, unknown, nearest))
    for reading in batch:
        if reading.problem:
            yield Answer(Path(reading.photo.path), reading.problem)
        else:
            numbers, words = next(decisions)
            yield Answer(Path(reading.photo.path), None, numbers, words)


def nearest_exemplars(learner: Learner, features: NDArray[np.float32]) -> list[Any] | None:
    """The label of the exemplar nearest to each row, where these count in the vote."""
    if not isinstance(learner, CandidatesVoting) or learner.decide != "vote":
        return None
    exemplars = learner.exemplars_
    distances = torch.cdist(torch.from_numpy(features), torch.from_numpy(exemplars.features))
    labels: list[Any] = exemplars.labels[distances.argmin(1).numpy()].tolist()
    return labels
