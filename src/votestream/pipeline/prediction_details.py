"""The details of predictions: label, confidence, probabilities and vote of each sample, as numbers and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.snapshot import Snapshot
from votestream.core.vote import Vote

TOP = 5  # probabilities, unless another number is given


class PredictionDetails:
    """The predictions on some rows of features; iterating gives numbers and text with the reasons for each row.

    Args:
        model: Predicts.
        features: One row a sample.
        top: How many of the most likely classes are listed.
        unknown: The share of known samples that may be reported as unknown.
        nearest: The label of the exemplar nearest to each row, if exemplars count in the vote.
    """

    def __init__(
        self,
        model: Snapshot,
        features: NDArray[np.float32],
        top: int | None = None,
        unknown: float = 0.0,
        nearest: list[Any] | None = None,
    ) -> None:
        self.top = top
        self.probabilities = model.predict_proba(features)
        self.confidence = model.confidence(features) if model.tracked else self.probabilities.max(1)
        self.unknown_scores = model.unknown_score(features) if model.tracked else None
        self.unknown = unknown
        self.classes: list[Any] = model.classes_.tolist()
        self.task_of_class = model.task_of_class_
        self.tasks = model.tasks_
        self.vote: Vote | None = model.vote(features) if model.votes else None  # others do not vote
        self.nearest = nearest

    def __iter__(self) -> Iterator[tuple[dict[str, Any], str]]:
        for row in range(len(self.probabilities)):
            yield self.numbers(row, self.top), self.words(row, self.top)

    def _ranked(self, row: int) -> NDArray[np.intp]:
        return np.argsort(-self.probabilities[row], kind="stable")

    def numbers(self, row: int, top: int | None = None) -> dict[str, Any]:
        """What `predict --json` prints: plain numbers, with the `top` most likely classes."""
        ranked, p = self._ranked(row)[: top or TOP], self.probabilities[row]
        numbers: dict[str, Any] = {
            "label": self.classes[ranked[0]],
            "confidence": None if np.isnan(self.confidence[row]) else round(float(self.confidence[row]), 6),
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

    def text(self, row: int, top: int | None = None) -> str:
        """The label and its confidence; with `top`, the most likely classes and their probabilities."""
        p, ranked = self.probabilities[row], self._ranked(row).tolist()
        likely = ", ".join(f"{self.classes[c]} {_percent(p[c])}" for c in ranked[:top])
        if self._is_unknown(row):
            return f"unknown  (nearest: {likely if top else self.classes[ranked[0]]})"
        if top:
            return likely
        sure = self.confidence[row]
        return str(self.classes[ranked[0]]) + ("" if np.isnan(sure) else f" {_percent(sure)}")

    def words(self, row: int, top: int | None = None) -> str:
        """The text, followed by the second most likely class and what decided between the two."""
        first, *others = self._ranked(row).tolist()
        answer, p = self.text(row, top), self.probabilities[row]
        if top or self._is_unknown(row):
            return answer
        if not others:
            return f"{answer}  (the only class that the model knows)"
        parts = [f"second: {self.classes[others[0]]} {_percent(p[others[0]])}"]
        if self.nearest is not None:
            parts += [self._why(row, first, others[0]), f"the nearest exemplar is of {self.nearest[row]}"]
        elif self.vote is not None and len(self.tasks) > 1:
            parts.append(self._how_likely(row, first))
        return f"{answer}  ({'; '.join(parts)})"

    def _why(self, row: int, first: int, second: int) -> str:
        """What decided between the two classes: the weights, the distances to exemplars, or both."""
        assert self.vote is not None
        mine, other = self.task_of_class[first], self.task_of_class[second]
        if mine == other:
            return "the weights decide between classes of one task"
        weights = self.vote.s_hat[row, mine] >= self.vote.s_hat[row, other]
        exemplars = self.vote.prior[row, mine] >= self.vote.prior[row, other]
        if weights and exemplars:
            return "weights and exemplars agree"
        return "the weights decide, against the exemplars" if weights else "the exemplars decide, against the weights"

    def _how_likely(self, row: int, first: int) -> str:
        """The two factors of the probability: that of the task, and that of the class within the task."""
        assert self.vote is not None
        mine, prior = self.task_of_class[first], self.vote.prior[row]
        within = f"{self.classes[first]} {_percent(self.vote.s_hat[row, mine])} within it"
        words = f"{self._task(mine)} is {_percent(prior[mine])} likely, and {within}"
        likeliest = int(prior.argmax())
        if likeliest != mine:
            words += f", although {self._task(likeliest)} is more likely, {_percent(prior[likeliest])}"
        return words

    def _task(self, number: int) -> str:
        name = task_name(self.tasks, number)
        return name if self.tasks[number] is None else f"task {name}"


def task_name(tasks: list[Any], number: int) -> str:
    """The name of a task; tasks that the model found by itself have none and are numbered."""
    return f"task {number + 1}" if tasks[number] is None else str(tasks[number])


def _plain(values: NDArray[np.float32]) -> list[float]:
    return [round(float(value), 6) for value in values]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
