"""Linear rules: what many learners decide by, once they have solved for their weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import LARGEST
from votestream.compute.place import Array, Place
from votestream.core.modules import log_softmax
from votestream.core.state import State
from votestream.learners.statistics import modules
from votestream.memory import ClassMoments, Moments
from votestream.memory.refresh import held_samples

STEEPEST = 1e20  # the largest weight: times a feature of LARGEST it stays well inside float32
SLICE = 1 << 22  # numbers of the widest array that answering makes at once


class LinearRule:
    """A predictor: scores W (x - centre) + bias, and the class of the largest; `link` makes them probabilities.

    The centre keeps float32 exact enough where features share a large mean.

    >>> rule = LinearRule(np.eye(2), np.zeros(2), np.array([5.0, 5.0]), Place("cpu"))
    >>> rule.decide(np.array([[6.0, 5.0], [5.0, 6.0]], np.float32)).tolist()
    [0, 1]
    >>> rule.probabilities(np.array([[6.0, 6.0]], np.float32)).tolist()
    [[0.5, 0.5]]
    """

    def __init__(
        self,
        weights: NDArray[Any],
        bias: NDArray[Any],
        centre: NDArray[Any],
        place: Place,
        link: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> None:
        self._place = place
        self._link = link or softmax
        self.n_iter = 1  # steps it took to find, where it was found in steps
        self._table = place.put(np.ascontiguousarray(_weights(weights).T))
        self._bias = place.put(_bias(bias))
        self._centre = place.put(centre.astype(np.float32))

    @property
    def weights(self) -> NDArray[np.float32]:
        """(C, D), on the host."""
        return self._place.get(self._table).T

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self._place.get(scores.argmax(1)) for scores in self._slices(X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return self._link(self.scores(X))

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n, C), on the host."""
        return np.concatenate([self._place.get(scores) for scores in self._slices(X)]).astype(np.float64)

    def as_module(self) -> modules.LinearModule:
        links = {softmax: log_softmax, onto_simplex: modules.log_onto_simplex}
        if self._link not in links:
            raise ValueError("this model cannot be exported: its probabilities are neither softmax nor onto_simplex")
        arrays = {"table": self._table, "bias": self._bias, "centre": self._centre}
        return modules.LinearModule(
            links[self._link], **{name: self._place.get(array) for name, array in arrays.items()}
        )

    def _slices(self, X: NDArray[np.float32]) -> Iterator[Array]:
        for rows in slices(X, max(self._table.shape)):
            yield (self._place.put(rows) - self._centre) @ self._table + self._bias


# Of class moments, what every class's row is made with, the centre of the rule first. Of that, and of the counts (k,)
# and means (k, D) of k classes, their weights (k, D) and biases (k,).
SharedPart = Callable[[ClassMoments], tuple[Any, ...]]
ClassRows = Callable[[Any, NDArray[np.int64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


class MomentRule(LinearRule):
    """A linear rule made from class moments, which can be brought up to date class by class.

    A class's own row is always up to date. What is shared, such as a covariance, is as it was at the last refresh, less
    than 1 % of the samples ago: after a sample, only the row of its class is made anew.
    """

    _rows_of: ClassRows
    _shared: tuple[Any, ...]
    _held: tuple[int, int]

    @classmethod
    def of(
        cls,
        memory: Moments,
        shared_part: SharedPart,
        class_rows: ClassRows,
        place: Place,
        link: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> MomentRule:
        """Make each class's row by `class_rows`, from its count and mean and from the `shared_part`."""
        merged, held = _held(memory)
        moments = memory.now(held - merged)
        shared = shared_part(moments)
        rule = cls(*class_rows(shared, moments.counts, moments.means), shared[0], place, link)
        rule._rows_of, rule._shared, rule._held = class_rows, shared, (merged, held)
        return rule._with(memory, set(memory.pending.classes[held - merged :].tolist()))

    def updated(self, state: State[Moments], changed: set[int]) -> MomentRule | None:
        """The rule with the rows of these classes as they are now; None where what is shared has moved on."""
        return self._with(state.memory, changed) if self._held == _held(state.memory) else None

    def _with(self, memory: Moments, classes: set[int]) -> MomentRule:
        if not classes:
            return self
        (width, before), after = self._table.shape, max(self._table.shape[1], max(classes) + 1)
        weights, bias = np.empty((width, after), np.float32), np.empty(after, np.float32)
        weights[:, :before], bias[:before] = self._place.get(self._table), self._place.get(self._bias)
        for number in sorted(classes):
            count, mean = memory.of_class(number)
            row, offset = self._rows_of(self._shared, np.array([count]), mean[None])
            weights[:, number], bias[number] = _weights(row[0]), _bias(offset)[0]
        twin = copy.copy(self)
        twin._table, twin._bias = self._place.put(weights), self._place.put(bias)
        return twin


def _held(memory: Moments) -> tuple[int, int]:
    """Samples that are merged, and those that what is shared is made of."""
    return held_samples(int(memory.merged.counts.sum()), len(memory.pending))


def _weights(weights: NDArray[Any]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.clip(weights, -STEEPEST, STEEPEST).astype(np.float32)
    return found


def _bias(bias: NDArray[Any]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.clip(bias, -LARGEST * STEEPEST, LARGEST * STEEPEST).astype(np.float32)
    return found


def slices(X: NDArray[Any], width: int) -> Iterator[NDArray[Any]]:
    """The rows a slice at a time, so that arrays of `width` columns stay small."""
    step = max(1, SLICE // width)
    return (X[i : i + step] for i in range(0, len(X), step))


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row; where scores differ by less than float64 can tell in a probability, the largest still leads.

    >>> softmax(np.array([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    >>> int(softmax(np.array([[0.0, 1e-30]])).argmax())
    1
    """
    largest = scores.max(1, keepdims=True)
    shares = np.exp(scores - largest)
    found: NDArray[np.float64] = _behind(shares, scores < largest) / shares.sum(1, keepdims=True)
    return found


def onto_simplex(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest probabilities, row by row: all less what makes the positive ones sum to 1 (Held et al., 1974).

    >>> onto_simplex(np.array([[1.2, 0.4, -0.6]])).round(6).tolist()
    [[0.9, 0.1, 0.0]]
    """
    scores = scores - scores.max(1, keepdims=True)  # the same shares, exact where scores are large
    high = -np.sort(-scores, axis=1)
    excess = (high.cumsum(1) - 1) / np.arange(1, scores.shape[1] + 1)
    last = (high > excess).sum(1, keepdims=True) - 1
    shares = np.maximum(scores - np.take_along_axis(excess, last, 1), 0)
    found: NDArray[np.float64] = _behind(shares, scores < 0) / shares.sum(1, keepdims=True)
    return found


def _behind(shares: NDArray[np.float64], lower: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares of lower scores that rounding made equal to the largest, a few units of the last place below it."""
    shares[lower & (shares >= shares.max(1, keepdims=True))] *= 1 - 8 * np.finfo(np.float64).eps
    return shares
