"""Means of the classes and the scatter within them, of rows made unit length: what unknowns are judged by."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import MANY, take, take_number
from votestream.io.model_files import joined, part_of
from votestream.memory.scatter import SharedScatter
from votestream.tracking.tables import grown, room_for, without

WIDEST = 384  # wider rows are projected to so many numbers: unknowns are told as well, and all becomes small and quick

REFRESH = 1.05


class UnitMoments:
    """Of each class the count and the mean (float32), and one scatter for all (float32, lower half).

    `held` is the scatter as it was at the last refresh, `held_samples` into the stream: what takes long to make of it
    is made once for every 5 % of the stream, and the same again by a model that was saved and loaded.

    >>> moments = UnitMoments(width=2)
    >>> moments.add(unit_rows(np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)), np.array([0, 0]))
    >>> moments.means.astype(float).round(2).tolist(), moments.scatter.matrix().round(2).tolist()
    ([[0.3, 0.9]], [[0.18, -0.06], [-0.06, 0.02]])
    """

    def __init__(self, width: int) -> None:
        self.width = min(width, WIDEST)
        self._largest = 1.001 * max(1.0, (width / WIDEST) ** 0.5)  # of a unit row's numbers, projected or not
        self.n_classes = 0
        self.scatter = SharedScatter(self.width)
        self.held, self.held_samples = SharedScatter(self.width), 0
        self._counts = np.zeros(0, np.int64)
        self._means = np.zeros((0, self.width), np.float32)

    @staticmethod
    def bytes_for(width: int, n_classes: int) -> int:
        width = min(width, WIDEST)
        return 2 * SharedScatter.bytes_for(width) + room_for(n_classes) * (8 + 4 * width)

    def add(self, unit: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Take in unit rows, one after the other (Welford, 1962)."""
        numbers = classes.tolist()
        self.n_classes = max(self.n_classes, max(numbers) + 1)
        self._counts, self._means = grown(self._counts, self.n_classes), grown(self._means, self.n_classes)
        apart = unit.copy()
        for row, number in zip(apart, numbers, strict=True):
            before = int(self._counts[number])
            row -= self._means[number]
            self._counts[number] = before + 1
            self._means[number] += row / np.float32(before + 1)
            row *= np.float32((before / (before + 1)) ** 0.5)
        self.scatter.add(apart)
        if self._counts.sum() >= REFRESH * self.held_samples:
            self._refresh()

    def forget(self, number: int) -> None:
        """Drop the class. What it added to the scatter cannot be told apart: its share of the rows is taken off."""
        samples, own = int(self._counts.sum()), int(self._counts[number])
        for strip in (*self.scatter.strips, *self.held.strips):
            strip *= np.float32(1 - own / samples)
        self.held_samples = max(1, min(samples - own, round(self.held_samples * (1 - own / samples))))
        self._drop(number)

    def join(self, number: int, into: int) -> None:
        """Make one class of two, with what lies between their means."""
        self._take_in(int(self._counts[number]), self._means[number], into)
        self._drop(number)
        self._refresh()

    def merge(self, other: UnitMoments, numbers: NDArray[np.int64]) -> None:
        """Add what the other has; its class i is class numbers[i] here."""
        self.n_classes = max(self.n_classes, int(numbers.max()) + 1)
        self._counts, self._means = grown(self._counts, self.n_classes), grown(self._means, self.n_classes)
        for count, mean, number in zip(other.counts.tolist(), other.means, numbers.tolist(), strict=True):
            self._take_in(count, mean, number)
        for mine, theirs in zip(self.scatter.strips, other.scatter.strips, strict=True):
            mine += theirs
        self._refresh()

    def _take_in(self, count: int, mean: NDArray[np.float32], into: int) -> None:
        before = int(self._counts[into])
        apart = mean - self._means[into]
        self.scatter.add((apart * np.float32((before * count / (before + count)) ** 0.5))[None])
        self._means[into] += apart * np.float32(count / (before + count))
        self._counts[into] = before + count

    def _drop(self, number: int) -> None:
        self._counts = without(self._counts, number, self.n_classes)
        self._means = without(self._means, number, self.n_classes)
        self.n_classes -= 1

    def _refresh(self) -> None:
        self.held, self.held_samples = self.scatter.copy(), int(self._counts.sum())

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[: self.n_classes]

    @property
    def means(self) -> NDArray[np.float32]:
        return self._means[: self.n_classes]

    def state(self) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {
            "counts": self.counts,
            "means": self.means,
            "held_samples": np.array(self.held_samples),
        }
        return {**own, **joined({"scatter": self.scatter.state(), "held": self.held.state()})}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        counts = take(state, "counts", np.int64, (n_classes,), 1, MANY)
        means = take(state, "means", np.float32, (n_classes, self.width), -self._largest, self._largest)
        samples = int(counts.sum())
        self.held_samples = take_number(state, "held_samples", 1, samples)
        for name, scatter in (("scatter", self.scatter), ("held", self.held)):
            scatter.restore(part_of(state, name), (2 * self._largest) ** 2 * samples)
        self.n_classes = n_classes
        self._counts, self._means = grown(self._counts, n_classes), grown(self._means, n_classes)
        self._counts[:n_classes], self._means[:n_classes] = counts, means


def unit_rows(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of unit length, projected where they are wide; a row of zeros stays so."""
    length = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    unit = np.divide(X, np.where(length > 0, length, 1)[:, None], dtype=np.float32, casting="same_kind")
    return unit if X.shape[1] <= WIDEST else unit @ signs(X.shape[1])


@lru_cache(maxsize=4)
def signs(width: int) -> NDArray[np.float32]:
    """A fixed random projection (width, WIDEST) of entries +-1 that keeps lengths, on average."""
    drawn = np.random.RandomState(0).randint(0, 2, size=(width, WIDEST))  # whose numbers NumPy never changes
    return ((2 * drawn - 1) * WIDEST**-0.5).astype(np.float32)
