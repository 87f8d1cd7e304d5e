"""What a model decides about samples: the label, how sure it is, and how the vote fell, as numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.snapshot import Snapshot
from votestream.core.vote import Vote
from votestream.photos.report import task_name

TOP = 5  # probabilities given, unless another number is asked for


class Decisions:
    """The decisions on some rows of features, one after another: numbers and words.

    `top` is the number of likeliest classes that are told. `unknown` is the share of known samples that may be called
    unknown by mistake. `nearest` is the label of the exemplar nearest to each row, where exemplars vote.
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
        self.unknown_scores = model.unknown_score(features) if model.tracked else None
        self.unknown = unknown
        self.classes: list[Any] = model.classes_.tolist()
        self.task_of_class = model.task_of_class_
        self.tasks = model.tasks_
        self.vote: Vote | None = model.vote(features) if model.votes else None  # else it would be misquoted
        self.nearest = nearest

    def __iter__(self) -> Iterator[tuple[dict[str, Any], str]]:
        for row in range(len(self.probabilities)):
            yield self.numbers(row, self.top), self.words(row, self.top)

    def _ranked(self, row: int) -> NDArray[np.intp]:
        return np.argsort(-self.probabilities[row], kind="stable")

    def numbers(self, row: int, top: int | None = None) -> dict[str, Any]:
        """Fit for JSON, with the so many likeliest classes."""
        ranked, p = self._ranked(row)[: top or TOP], self.probabilities[row]
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

    def words(self, row: int, top: int | None = None) -> str:
        """The label and what decided; with `top`, the so many likeliest classes."""
        first, *others = self._ranked(row).tolist()
        p = self.probabilities[row]
        if self._is_unknown(row):
            nearest = (first, *others)[: top or 1]
            return f"unknown  (nearest: {', '.join(f'{self.classes[c]} {_percent(p[c])}' for c in nearest)})"
        if top:
            return ", ".join(f"{self.classes[c]} {_percent(p[c])}" for c in (first, *others)[:top])
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


def _plain(values: NDArray[np.float32]) -> list[float]:
    return [round(float(value), 6) for value in values]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
