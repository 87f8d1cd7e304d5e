"""Asking a model about photos: the label, how sure it is, and how the vote fell, as numbers or in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.images.class_folders import walk
from votestream.learners import CandidatesVoting, GaussianVoting, Learner, Vote
from votestream.photos.reading import Reading, as_photos, readings
from votestream.photos.report import task_name
from votestream.pipeline import ImageClassifier

TOP = 5  # probabilities given, unless another number is asked for


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
    size = model.backbone_.batch_size
    batch: list[Reading] = []
    for reading in readings(as_photos(files), model.backbone_):
        batch.append(reading)
        if len(batch) == size:
            yield from _answer(model, batch, top, unknown)
            batch = []
    yield from _answer(model, batch, top, unknown)


def _answer(model: ImageClassifier, batch: list[Reading], top: int | None, unknown: float) -> Iterator[Answer]:
    pixels = [reading.pixels for reading in batch if reading.pixels is not None]
    decisions: Iterator[tuple[dict[str, Any], str]] = iter(())
    if pixels:
        decisions = iter(_Decisions(model.learner_, model.backbone_.of_prepared(np.stack(pixels)), top, unknown))
    for reading in batch:
        if reading.problem:
            yield Answer(Path(reading.photo.path), reading.problem)
        else:
            numbers, words = next(decisions)
            yield Answer(Path(reading.photo.path), None, numbers, words)


class _Decisions:
    """The decisions on some rows of features, one after another: numbers and words."""

    def __init__(
        self, learner: Learner, features: NDArray[np.float32], top: int | None = None, unknown: float = 0.0
    ) -> None:
        self.top = top
        self.probabilities = learner.predict_proba(features)
        self.unknown_scores = learner.unknown_score(features) if getattr(learner, "track", False) else None
        self.unknown = unknown
        self.classes: list[Any] = learner.classes_.tolist()
        self.task_of_class = learner.task_of_class_
        self.tasks = learner.tasks_
        self.vote: Vote | None = None
        self.nearest: list[Any] | None = None
        if isinstance(learner, GaussianVoting):
            self.vote = learner.vote(features)
        elif isinstance(learner, CandidatesVoting) and learner.decide == "vote":  # else it would be misquoted
            self.vote, self.nearest = learner.vote(features), nearest_exemplars(learner, features)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], str]]:
        for row in range(len(self.probabilities)):
            yield self._numbers(row), self._words(row)

    def _ranked(self, row: int) -> NDArray[np.intp]:
        return np.argsort(-self.probabilities[row], kind="stable")

    def _numbers(self, row: int) -> dict[str, Any]:
        ranked, p = self._ranked(row)[: self.top or TOP], self.probabilities[row]
        numbers: dict[str, Any] = {
            "label": self.classes[ranked[0]],
            "confidence": round(float(p[ranked[0]]), 6),
            "probabilities": [{"label": self.classes[c], "probability": round(float(p[c]), 6)} for c in ranked],
        }
        if self.unknown_scores is not None:
            numbers["unknown_score"] = round(float(self.unknown_scores[row]), 6)
            numbers["unknown"] = self._is_unknown(row)
        if self.vote is not None:
            numbers["vote"] = {
                "tasks": self.tasks,
                "candidates": self.vote.candidates[row].tolist(),
                "s_hat": _plain(self.vote.s_hat[row]),
                "prior": _plain(self.vote.prior[row]),
                "gamma": round(float(self.vote.gamma[row]), 6),
                "score": _plain(self.vote.score[row]),
                "winner_task": int(self.vote.winner_task[row]),
            }
            if self.nearest is not None:
                numbers["vote"]["nearest_exemplar"] = self.nearest[row]
        return numbers

    def _is_unknown(self, row: int) -> bool:
        return self.unknown_scores is not None and bool(self.unknown_scores[row] > 1 - self.unknown)

    def _words(self, row: int) -> str:
        first, *others = self._ranked(row).tolist()
        p = self.probabilities[row]
        if self._is_unknown(row):
            nearest = (first, *others)[: self.top or 1]
            return f"unknown  (nearest: {', '.join(f'{self.classes[c]} {_percent(p[c])}' for c in nearest)})"
        if self.top:
            return ", ".join(f"{self.classes[c]} {_percent(p[c])}" for c in (first, *others)[: self.top])
        answer = f"{self.classes[first]} {_percent(p[first])}"
        if not others:
            return f"{answer}  (the only class it knows)"
        parts = [f"second: {self.classes[others[0]]} {_percent(p[others[0]])}"]
        if self.nearest is not None:
            parts += [self._why(row, first, others[0]), f"the nearest exemplar is of {self.nearest[row]}"]
        elif self.vote is not None and len(self.tasks) > 1:
            parts.append(self._how_likely(row, first))
        return f"{answer}  ({'; '.join(parts)})"

    def _why(self, row: int, first: int, second: int) -> str:
        """What decided between the two: the head's weights, how near their tasks' exemplars are, or both."""
        assert self.vote is not None
        mine, other = self.task_of_class[first], self.task_of_class[second]
        if mine == other:
            return "both of one task, where the weights decide"
        weights = self.vote.s_hat[row, mine] >= self.vote.s_hat[row, other]
        exemplars = self.vote.prior[row, mine] >= self.vote.prior[row, other]
        if weights and exemplars:
            return "weights and exemplars agree"
        return (
            "by its weights, though the other's exemplars are nearer"
            if weights
            else "by its exemplars, against the weights"
        )

    def _how_likely(self, row: int, first: int) -> str:
        """The two factors of the probability: the task's, and that of the class within it."""
        assert self.vote is not None
        mine, prior = self.task_of_class[first], self.vote.prior[row]
        within = f"{self.classes[first]} {_percent(self.vote.s_hat[row, mine])} within it"
        words = f"{self._task(mine)} is {_percent(prior[mine])} likely, and {within}"
        likeliest = int(prior.argmax())
        if likeliest != mine:
            words += f", though {self._task(likeliest)} is likelier, {_percent(prior[likeliest])}"
        return words

    def _task(self, number: int) -> str:
        name = task_name(self.tasks, number)
        return name if self.tasks[number] is None else f"task {name}"


def nearest_exemplars(learner: CandidatesVoting, features: NDArray[np.float32]) -> list[Any]:
    """The label of the exemplar nearest to each row."""
    exemplars = learner.exemplars_
    distances = torch.cdist(torch.from_numpy(features), torch.from_numpy(exemplars.features))
    return exemplars.labels[distances.argmin(1).numpy()].tolist()


def _plain(values: NDArray[np.float32]) -> list[float]:
    return [round(float(value), 6) for value in values]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
