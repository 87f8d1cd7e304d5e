"""How far a row is from all that was learned, and how many known samples were as far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.compute.linalg import whitening
from votestream.compute.place import one_thread
from votestream.io.array_checks import take
from votestream.memory.scatter import SharedScatter
from votestream.tracking.tables import grown, room_for
from votestream.tracking.unit_moments import unit_rows

SHRINK = 0.3  # of a covariance towards equal variances: the best of trials, for near unknowns and for far ones
RELATIVE = 0.9  # how much of the distance from the middle of everything is taken off
NO_VARIANCE = 1e-12
FEW = 4  # so many times fewer classes than features are few
NEWEST = 32  # distances kept of each class
SLICE = 1 << 22  # numbers of the largest table made at once


class Metric(NamedTuple):
    """Immutable: coordinates in which the covariance within classes, as it was at the last refresh, is the identity."""

    samples: int  # of the stream, up to the refresh
    whiten: NDArray[np.float64]  # (k, k)
    expected: float  # the mean squared distance of the rows learned
    shrink: float

    @classmethod
    def of(cls, scatter: SharedScatter, samples: int) -> Metric:
        within = scatter.matrix() / samples
        width = len(within)
        variance = float(np.trace(within)) / width
        if variance <= NO_VARIANCE:  # classes of one sample: as if rows filled the sphere
            return cls(samples, width**0.5 * np.eye(width), 1.0, 0.5)
        shrink = max(SHRINK, 2 * width / (2 * width + samples))
        shrunk = (1 - shrink) * within
        shrunk[np.diag_indices(width)] += shrink * variance
        whiten = whitening(shrunk)
        # The trace of within @ shrunk^-1, as shrunk is made of within and the identity.
        expected = (width - shrink * variance * float(np.square(whiten).sum())) / (1 - shrink)
        return cls(samples, whiten, expected, shrink)


class Distances(NamedTuple):
    """Immutable: squared Mahalanobis distances of unit rows to the class means, and to the middle of all classes.

    The first are by the covariance within classes, the second by that of all rows (within plus between). Their
    difference, the relative distance of Ren et al. (2021), tells near unknowns best; it is blind where there is one
    class, whose two distances are the same. So only nine tenths of the second are taken off.
    """

    metric: Metric
    usual: float  # what rows learned have, on average, of the difference that strangeness is
    whiten: NDArray[np.float32]  # (k, k) the metric's
    centre: NDArray[np.float32]  # (k,)
    means: NDArray[np.float32]  # (C, k) less the centre, whitened
    sizes: NDArray[np.float32]  # (C,) their squared lengths
    overall: NDArray[np.float32]  # (k, k) from whitened rows to where the covariance of all rows is the identity

    @classmethod
    def of(cls, metric: Metric, counts: NDArray[np.int64], means: NDArray[np.float32]) -> Distances:
        share = counts / counts.sum()
        centre = share @ means.astype(np.float64)
        own = (means - centre) @ metric.whiten
        overall, size = _with_between(own * np.sqrt((1 - metric.shrink) * share)[:, None])
        width = len(overall)
        from_centre = metric.expected / width * size + (width - size) / (1 - metric.shrink)
        parts = (metric.whiten, centre, own, np.square(own).sum(1), overall)
        usual = metric.expected - RELATIVE * from_centre
        return cls(metric, usual, *(part.astype(np.float32) for part in parts))

    def whitened(self, unit: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.matmul(unit - self.centre, self.whiten, dtype=np.float32)

    def to_classes(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, C), of whitened rows."""
        distances: NDArray[np.float32] = np.square(z).sum(1)[:, None] - 2 * (z @ self.means.T) + self.sizes
        return distances

    def strangeness(self, z: NDArray[np.float32], to_classes: NDArray[np.float32]) -> NDArray[np.float32]:
        """What unknowns have more of, (n,); 0 is usual, as a part of the mean distance of rows learned.

        So what was measured when fewer classes and samples were known can be compared with what is measured now.
        """
        apart = to_classes.min(1) - np.float32(RELATIVE) * np.square(z @ self.overall).sum(1)
        strangeness: NDArray[np.float32] = (apart - np.float32(self.usual)) / np.float32(self.metric.expected)
        return strangeness


def _with_between(M: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """T with |z T|² = z (I + M^T M)^-1 z^T, (k, k) for M (C, k), and the trace of that inverse.

    With few classes T is I - M^T U diag(1 / (r + r²)) U^T M, where U and r² are the eigenvectors and values of
    I + M M^T, which is small.

    >>> T, trace = _with_between(np.array([[3.0**0.5, 0.0, 0.0, 0.0, 0.0]]))
    >>> T.diagonal().round(12).tolist(), round(trace, 12)
    ([0.5, 1.0, 1.0, 1.0, 1.0], 4.25)
    """
    n_classes, width = M.shape
    if n_classes * FEW > width:
        inside = M.T @ M
        inside[np.diag_indices(width)] += 1
        T = whitening(inside)
        return T, float(np.square(T).sum())
    with one_thread():
        inside = M @ M.T
        inside[np.diag_indices(n_classes)] += 1
        values, U = np.linalg.eigh(inside)
        half = (U / np.sqrt(values + np.sqrt(values))).T @ M
        T = half.T @ -half
    T[np.diag_indices(width)] += 1
    return T, width - n_classes + float((1 / values).sum())


class Unknowns(NamedTuple):
    """Immutable: scores of rows, by what known samples had before they were learned."""

    distances: Distances
    met: NDArray[np.float32]  # strangeness of known samples, sorted

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) in [0, 1): about a share p of known samples is above 1 - p."""
        step = max(1, SLICE // max(len(self.distances.means), X.shape[1]))
        parts = (self.distances.whitened(unit_rows(X[i : i + step])) for i in range(0, len(X), step))
        strange = [self.distances.strangeness(z, self.distances.to_classes(z)) for z in parts]
        return self.among(np.concatenate(strange))

    def among(self, strangeness: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of rows of that strangeness: one less the share of known samples, and itself, as strange."""
        above = len(self.met) - np.searchsorted(self.met, strangeness, side="left")
        return np.subtract(1, (above + 1) / (len(self.met) + 1), dtype=np.float64)


class NewestStrangeness:
    """Of each class the strangeness of its newest tested samples, so that every class counts alike."""

    def __init__(self) -> None:
        self.n_classes = 0
        self._table = np.zeros((0, NEWEST), np.float32)
        self._tested = np.zeros(0, np.int64)

    @staticmethod
    def bytes_for(n_classes: int) -> int:
        return room_for(n_classes) * (4 * NEWEST + 8)

    def add(self, classes: NDArray[np.int64], strangeness: NDArray[np.float32]) -> None:
        for number, value in zip(classes.tolist(), strangeness.tolist(), strict=True):
            self._table[number, self._tested[number] % NEWEST] = value
            self._tested[number] += 1

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self._table, self._tested = grown(self._table, n_classes), grown(self._tested, n_classes)

    def forget(self, number: int) -> None:
        self._set([self._of(own) for own in range(self.n_classes) if own != number])

    def join(self, number: int, into: int) -> None:
        own = [self._of(known) for known in range(self.n_classes)]
        own[into] = np.concatenate((own[into], own[number]))
        self._set(own[:number] + own[number + 1 :])

    def merge(self, other: NewestStrangeness, numbers: NDArray[np.int64]) -> None:
        self.grow(max(self.n_classes, int(numbers.max()) + 1))
        for theirs, number in enumerate(numbers.tolist()):
            values = other._of(theirs)
            self.add(np.full(len(values), number), values)

    def _of(self, number: int) -> NDArray[np.float32]:
        """Those of a class, the oldest first."""
        tested = int(self._tested[number])
        if tested < NEWEST:
            return self._table[number, :tested]
        return np.roll(self._table[number], -(tested % NEWEST))

    def _set(self, by_class: list[NDArray[np.float32]]) -> None:
        self._table, self._tested = np.zeros((0, NEWEST), np.float32), np.zeros(0, np.int64)
        self.grow(len(by_class))
        for number, values in enumerate(by_class):
            self.add(np.full(len(values), number), values)

    def sorted(self) -> NDArray[np.float32]:
        there = np.arange(NEWEST) < self._tested[: self.n_classes, None]
        return np.sort(self._table[: self.n_classes][there])

    def state(self) -> dict[str, NDArray[Any]]:
        return {"table": self._table[: self.n_classes], "tested": self._tested[: self.n_classes]}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        table = take(state, "table", np.float32, (n_classes, NEWEST), -1e12, 1e12)
        tested = take(state, "tested", np.int64, (n_classes,))
        self.grow(n_classes)
        self._table[:n_classes], self._tested[:n_classes] = table, tested
