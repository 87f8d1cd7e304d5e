"""How far a row is from all that was learned, and how many known samples were as far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.compute.linalg import whitening
from votestream.io.array_checks import take
from votestream.life.tables import grown, room_for
from votestream.life.unit_moments import UnitMoments, unit_rows

SHRINK = 0.3  # of a covariance towards equal variances: the best of trials, for near unknowns and for far ones
RELATIVE = 0.9  # how much of the distance from the middle of everything is taken off
NEWEST = 32  # distances kept of each class
SLICE = 1 << 22  # numbers of the largest table made at once


class Distances(NamedTuple):
    """Immutable: Mahalanobis distances to the class means, and to the middle of all classes.

    The first are by the covariance within classes, the second by that of all rows (within plus between). Their
    difference, the relative distance of Ren et al. (2021), tells near unknowns best; it is blind where there is one
    class, whose two distances are the same. So only nine tenths of the second are taken off.
    """

    means: NDArray[np.float32]  # (C, k) whitened
    sizes: NDArray[np.float32]  # (C,) their squared lengths
    within: NDArray[np.float32]  # (k, k)
    centre: NDArray[np.float32]  # (k,)
    overall: NDArray[np.float32]  # (k, k)
    expected: float  # the mean squared distance, within classes, of the rows learned

    @classmethod
    def of(cls, moments: UnitMoments) -> Distances:
        counts, means = moments.counts, moments.means.astype(np.float64)
        share = counts / counts.sum()
        centre = share @ means
        within = moments.scatter.matrix() / counts.sum()
        apart = means - centre
        overall = within + (apart * share[:, None]).T @ apart
        spare = float(np.trace(overall)) / len(overall) or 1.0
        T = whitening(_shrunk(within, spare))
        S = whitening(_shrunk(overall, spare))
        whitened = (apart @ T).astype(np.float32)
        expected = float(((within @ T) * T).sum()) or 1.0
        T32, S32 = T.astype(np.float32), S.astype(np.float32)
        sizes = np.square(whitened).sum(1)
        return cls(whitened, sizes, T32, centre.astype(np.float32), S32, expected)

    def to_classes(self, unit: NDArray[np.float32]) -> NDArray[np.float32]:
        """Squared, (n, C), of unit rows."""
        z = (unit - self.centre) @ self.within
        return np.square(z).sum(1)[:, None] - 2 * (z @ self.means.T) + self.sizes

    def strangeness(self, unit: NDArray[np.float32], to_classes: NDArray[np.float32]) -> NDArray[np.float32]:
        """What unknowns have more of, (n,)."""
        z = (unit - self.centre) @ self.overall
        return to_classes.min(1) - np.float32(RELATIVE) * np.square(z).sum(1)


def _shrunk(A: NDArray[np.float64], spare: float) -> NDArray[np.float64]:
    """Towards its mean variance; where it has none, as with one sample a class, `spare`."""
    variance = float(np.trace(A)) / len(A)
    if variance <= 1e-12:
        return spare * np.eye(len(A))
    return (1 - SHRINK) * A + SHRINK * variance * np.eye(len(A))


class Unknowns(NamedTuple):
    """Immutable: scores of rows, by what known samples had before they were learned."""

    distances: Distances
    met: NDArray[np.float32]  # strangeness of known samples, sorted

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) in [0, 1): about a share p of known samples is above 1 - p."""
        step = max(1, SLICE // max(len(self.distances.means), X.shape[1]))
        parts = [unit_rows(X[i : i + step]) for i in range(0, len(X), step)]
        strange = [self.distances.strangeness(part, self.distances.to_classes(part)) for part in parts]
        return self.among(np.concatenate(strange))

    def among(self, strangeness: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of rows of that strangeness: one less the share of known samples, and itself, as strange."""
        above = len(self.met) - np.searchsorted(self.met, strangeness, side="left")
        scores: NDArray[np.float64] = 1 - (above + 1.0) / (len(self.met) + 1.0)
        return scores


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
