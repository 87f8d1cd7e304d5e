"""Running statistics per class: count, mean and spread, exact whatever the batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import LARGEST
from votestream.io.array_checks import MANY, ROUNDED, check_below, demand, take

FULL = float(np.finfo(np.float64).max)
AT_ONCE = 1 << 16  # rows for which room is taken at once


class ClassStatistics:
    """Sum, count and sum of squares of each class's features, in float64.

    Samples are added one after the other, so that how the stream was cut into batches leaves no trace,
    not even in the last bit.

    >>> statistics = ClassStatistics(width=1)
    >>> statistics.add(np.array([[1.0], [5.0], [3.0]], np.float32), np.array([0, 1, 0])).tolist()
    [[1.0], [5.0], [2.0]]
    >>> statistics.counts.tolist(), statistics.means.tolist()
    ([2, 1], [[2.0], [5.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.n_classes = 0
        self._table = np.zeros((0, 2 * width + 1))  # a row a class: sum, count, sum of squares
        self._spread = np.zeros((0, width), np.float32)
        self._stale: set[int] = set()  # classes whose row of _spread is behind the table

    def add(self, X: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Take in the rows; returns, for each, the mean of its class just after it (Eq. 1)."""
        n, width = len(X), self.width
        classes = labels.tolist()
        self._reserve(max(classes) + 1)
        rows = np.empty((n, 2 * width + 1))
        rows[:, :width] = X
        rows[:, width] = 1
        np.square(rows[:, :width], out=rows[:, width + 1 :])
        for row, label in zip(rows, classes, strict=True):
            row += self._table[label]
            self._table[label] = row
        self._stale.update(classes)
        return rows[:, :width] / rows[:, width : width + 1]

    def _reserve(self, n_classes: int) -> None:
        if n_classes > self.n_classes:
            self.n_classes = n_classes
            if n_classes > len(self._table):
                room = max(8, n_classes, 2 * len(self._table))
                self._table, self._spread = extended(self._table, room), extended(self._spread, room)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._table[: self.n_classes, self.width].astype(np.int64)

    @property
    def means(self) -> NDArray[np.float64]:
        table = self._table[: self.n_classes]
        return table[:, : self.width] / table[:, self.width : self.width + 1]

    def mean(self, label: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._table[label, : self.width] / self._table[label, self.width]
        return found

    def spread(self, first: int | None = None) -> NDArray[np.float32]:
        """Standard deviation per element of the `first` classes (all, if None), (C, D)."""
        n = self.n_classes if first is None else first
        stale = [label for label in self._stale if label < n]
        if stale:
            self._spread[stale] = self._deviation(self._table[stale])
            self._stale.difference_update(stale)
        return self._spread[:n]

    def spread_of_all(self) -> NDArray[np.float32]:
        """The same of all classes, without storing it: predicting changes nothing."""
        return self._deviation(self._table[: self.n_classes])

    def global_spread(self) -> NDArray[np.float32]:
        """Standard deviation per element over every sample seen, (1, D)."""
        return self._deviation(self._table[: self.n_classes].sum(0, keepdims=True))

    def _deviation(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        width = self.width
        moments = rows / rows[:, width : width + 1]
        variance = moments[:, width + 1 :] - moments[:, :width] ** 2
        return np.sqrt(np.maximum(variance, 0.0)).astype(np.float32)

    def forget(self, label: int) -> None:
        """The class is gone, and later ones count one less."""
        self._table, self._spread = np.delete(self._table, label, axis=0), np.delete(self._spread, label, axis=0)
        self.n_classes -= 1
        self._stale = {own - (own > label) for own in self._stale if own != label}

    def state(self) -> dict[str, NDArray[Any]]:
        return {"table": self._table[: self.n_classes]}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        table = take(state, "table", np.float64, (n_classes, 2 * self.width + 1), -FULL, FULL)
        sums, counts, squares = np.split(table, [self.width, self.width + 1], axis=1)
        demand(
            bool(((counts >= 1) & (counts <= MANY) & (counts % 1 == 0)).all()), "a class must have a count of samples"
        )
        check_below("table", sums, ROUNDED * LARGEST * counts)
        check_below("table", squares, ROUNDED * LARGEST**2 * counts)
        self._reserve(len(table))
        self._table[: len(table)] = table
        self._stale = set(range(len(table)))


def capacity(needed: int, now: int, most: int) -> int:
    """Rows to take room for: `most` at once if they are not too many, else twice as many as now.

    So a model that was loaded takes what its file holds, whatever its settings say it may grow to.

    >>> capacity(1, 0, most=2000), capacity(1, 0, most=10**9), capacity(31, 30, most=10**9)
    (2000, 65536, 60)
    """
    return min(most, max(needed, 2 * now or AT_ONCE))


def extended(table: NDArray[Any], capacity: int, fill: float = 0.0) -> NDArray[Any]:
    """The table with room for more rows."""
    shape = (capacity, *table.shape[1:])
    longer = np.full(shape, fill, table.dtype) if fill else np.zeros(shape, table.dtype)
    longer[: len(table)] = table
    return longer
