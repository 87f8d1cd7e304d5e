"""How far a row is from all that was learned, and how many known samples were as far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from votestream.compute.linalg import whitening
from votestream.compute.place import one_thread
from votestream.io.array_checks import take
from votestream.memory.scatter import SharedScatter
from votestream.tracking.tables import grown, room_for
from votestream.tracking.unit_moments import unit_rows

SHRINK = 0.3  # of a covariance towards equal variances: the best of trials, for near unknowns and for far ones
MOST_RELATIVE = 0.9  # how much of the distance from the middle of everything is taken off,
FEW_SAMPLES = 4  # and samples a class at which it is half of that
NOTHING = np.float32(1e-3)  # least of a distance, before its logarithm
NO_VARIANCE = 1e-12
FEW = 4  # so many times fewer classes than features are few
NEWEST = 32  # distances kept of each class
SLICE = 1 << 22  # numbers of the largest table made at once
# What scores are usual, before anything was tested: 0 +- 0.35 for rows of known classes, and for look-alike unknowns as
# much more. They count as so many samples, for `unknown_score` and for the rule that tells known from unknown.
NORMAL = np.array([-1.28, -0.52, 0.0, 0.52, 1.28])
KNOWN, UNKNOWN = 0.35 * NORMAL, 0.35 + 0.35 * NORMAL
SPREAD = 0.2  # of the logistic distribution that has the standard deviation of KNOWN
USUAL, PRIOR = 10.0, 20.0
UNKNOWN_SHARE = 0.1  # of all rows that are asked about, for `confidence`
MOST = 200  # scores that the rule is fitted to, of each side
RANGE = (-2.0, 3.0)  # of scores, for the rule
START, STEPS, STEEPEST = (0.6, -3.5), 15, -0.2


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
    class, whose two distances are the same, and it takes classes of many samples. So a part of the second is taken off
    (`relative`), less of it where classes have few samples.
    """

    metric: Metric
    relative: float  # how much of the distance from the middle of everything is taken off
    typical: float  # what is left for rows of known classes
    share: NDArray[np.float64]  # (C,) of the samples
    whiten: NDArray[np.float32]  # (k, k) the metric's
    centre: NDArray[np.float32]  # (k,)
    means: NDArray[np.float32]  # (C, k) less the centre, whitened
    sizes: NDArray[np.float32]  # (C,) their squared lengths
    overall: NDArray[np.float32]  # (k, k) from whitened rows to where the covariance of all rows is the identity

    @classmethod
    def of(cls, metric: Metric, counts: NDArray[np.int64], means: NDArray[np.float32]) -> Distances:
        share, n = counts / counts.sum(), float(counts.mean())
        centre = share @ means.astype(np.float64)
        own = (means - centre) @ metric.whiten
        overall = _with_between(own * np.sqrt((1 - metric.shrink) * share)[:, None])
        parts = (metric.whiten, centre, own, np.square(own).sum(1), overall)
        relative = MOST_RELATIVE * n / (n + FEW_SAMPLES)
        return cls(metric, relative, metric.expected * _typical(n), share, *(part.astype(np.float32) for part in parts))

    def whitened(self, unit: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.matmul(unit - self.centre, self.whiten, dtype=np.float32)

    def to_classes(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, C), of whitened rows."""
        distances: NDArray[np.float32] = np.square(z).sum(1)[:, None] - 2 * (z @ self.means.T) + self.sizes
        return distances

    def ood_scores(self, z: NDArray[np.float32], to_classes: NDArray[np.float32]) -> NDArray[np.float32]:
        """How much farther away than is usual whitened rows are, as a logarithm, (n,); unknowns have more of it.

        Rows of known classes have about 0, however many classes and samples are known: so what was measured when
        fewer were known can be compared with what is measured now.
        """
        return self._compared(to_classes.min(1), np.square(z @ self.overall).sum(1))

    def left_out_scores(
        self, z: NDArray[np.float32], to_classes: NDArray[np.float32], own: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The scores that rows of the classes `own` would have if their class were unknown; of two classes or more.

        Without class c the middle moves to z + q m, q = share / (1 - share), and the covariance between the classes
        loses q m m^T: the distance from the middle follows by the formula of Sherman and Morrison.
        """
        rows, apart = np.arange(len(z)), to_classes.copy()
        apart[rows, own] = np.inf
        q = (self.share[own] / (1 - self.share[own])).astype(np.float32)
        moved, m = (z + q[:, None] * self.means[own]) @ self.overall, self.means[own] @ self.overall
        lost = np.float32(1 - self.metric.shrink) * q
        left = np.maximum(1 - lost * np.square(m).sum(1), np.float32(1e-3))
        from_middle = np.square(moved).sum(1) + lost * np.square((moved * m).sum(1)) / left
        return self._compared(apart.min(1), from_middle)

    def _compared(self, nearest: NDArray[np.float32], from_middle: NDArray[np.float32]) -> NDArray[np.float32]:
        apart = (nearest - np.float32(self.relative) * from_middle) / np.float32(self.typical)
        scores: NDArray[np.float32] = np.log(np.maximum(apart, NOTHING))
        return scores


def _typical(n: float) -> float:
    """What rows of known classes have of `Distances.ood_scores`, on average, after n samples a class, before its log.

    Fitted by eye, with the constants above, to flowers, hand signs and CIFAR-100: 2 to 10 classes, 2 to 80 samples a
    class, 240 and 432 features. `benchmarks/first_photos.py` shows how well unknown photos are told with it.
    """
    return (0.1 + 2.6 / n) * (1 + 2.2 / n**0.5)


def _with_between(M: NDArray[np.float64]) -> NDArray[np.float64]:
    """T with |z T|² = z (I + M^T M)^-1 z^T, (k, k) for M (C, k).

    With few classes T is I - M^T U diag(1 / (r + r²)) U^T M, where U and r² are the eigenvectors and values of
    I + M M^T, which is small.

    >>> _with_between(np.array([[3.0**0.5, 0.0, 0.0, 0.0, 0.0]])).diagonal().round(12).tolist()
    [0.5, 1.0, 1.0, 1.0, 1.0]
    """
    n_classes, width = M.shape
    if n_classes * FEW > width:
        inside = M.T @ M
        inside[np.diag_indices(width)] += 1
        return whitening(inside)
    with one_thread():
        inside = M @ M.T
        inside[np.diag_indices(n_classes)] += 1
        values, U = np.linalg.eigh(inside)
        half = (U / np.sqrt(values + np.sqrt(values))).T @ M
        T = half.T @ -half
    T[np.diag_indices(width)] += 1
    return T


@dataclass(frozen=True)
class Unknowns:
    """Immutable: what scores of rows mean, by those of known samples before they were learned."""

    distances: Distances
    seen: NDArray[np.float32]  # scores of samples of known classes, sorted
    left_out: NDArray[np.float32]  # scores of the same samples, had their class been unknown, sorted

    def ood_scores(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) see `Distances.ood_scores`."""
        step = max(1, SLICE // max(len(self.distances.means), X.shape[1]))
        parts = (self.distances.whitened(unit_rows(X[i : i + step])) for i in range(0, len(X), step))
        return np.concatenate([self.distances.ood_scores(z, self.distances.to_classes(z)) for z in parts])

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) in (0, 1): about a share p of known samples is above 1 - p."""
        return self.among(self.ood_scores(X))

    def among(self, ood: NDArray[np.float32]) -> NDArray[np.float64]:
        """One less the share of known samples that are as far; those that are usual count as some samples more.

        0 where nothing can be said yet: no class has two samples, or there is one class and fewer tests than USUAL.
        """
        if not self.can_score:
            return np.zeros(len(ood))
        above = len(self.seen) - np.searchsorted(self.seen, ood, side="left")
        usual = USUAL * expit(ood.astype(np.float64) / -SPREAD)
        return np.subtract(1, (above + usual) / (len(self.seen) + USUAL), dtype=np.float64)

    @property
    def has_spread(self) -> bool:
        """Whether any class has two samples, so that distances are compared with something."""
        return self.distances.metric.samples > len(self.distances.share)

    @property
    def can_score(self) -> bool:
        """Whether rows can be called unknown."""
        return self.has_spread and (len(self.distances.share) > 1 or len(self.seen) >= USUAL)

    @property
    def can_tell(self) -> bool:
        """Whether enough is known to tell how sure a prediction is: two classes, and two samples of one."""
        return len(self.distances.share) > 1 and self.has_spread

    @cached_property
    def rule(self) -> tuple[float, float]:
        """a, b: exp(a + b score) is how many times likelier rows of that score are known than unknown.

        A logistic regression of samples of known classes against the same samples with their class left out, which
        are unknowns that look alike; and of what is usual, which decides while there are few samples.
        """
        return _logistic(_quantiles(self.seen), _quantiles(self.left_out))

    def known(self, X: NDArray[np.float32], unknown_share: float) -> NDArray[np.float64]:
        """The probability that each row is of a known class, (n,), where such a share of all rows is not."""
        a, b = self.rule
        usual = np.log((1 - unknown_share) / unknown_share)
        known: NDArray[np.float64] = expit(a + b * self.ood_scores(X).astype(np.float64) + usual)
        return known


def _quantiles(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """At most MOST of the sorted values, evenly chosen."""
    places = np.linspace(0, len(values) - 1, min(len(values), MOST)).round().astype(int)
    return values[places].astype(np.float64)


def _logistic(known: NDArray[np.float64], unknown: NDArray[np.float64]) -> tuple[float, float]:
    """Intercept and slope, the two sides counting alike; the slope is never such that farther rows are likelier known.

    >>> a, b = _logistic(np.array([]), np.array([]))  # of what is usual alone
    >>> round(a, 1), round(b, 1)
    (0.6, -3.5)
    """
    x = np.concatenate((known, KNOWN, unknown, UNKNOWN)).clip(*RANGE)
    is_known = np.arange(len(x)) < len(known) + len(KNOWN)
    weights = np.ones(len(x))
    for usual, side in ((KNOWN, is_known), (UNKNOWN, ~is_known)):
        own = np.flatnonzero(side)
        weights[own[-len(usual) :]] = PRIOR / len(usual)
        weights[own] /= weights[own].sum()
    a, b = START
    for _ in range(STEPS):  # Newton's
        p = expit(a + b * x)
        off, curve = weights * (is_known - p), weights * p * (1 - p)
        s0, s1, s2 = curve.sum(), curve @ x, curve @ (x * x)
        g0, g1 = off.sum(), off @ x
        det = s0 * s2 - s1 * s1
        a += np.clip((s2 * g0 - s1 * g1) / det, -1, 1)
        b += np.clip((s0 * g1 - s1 * g0) / det, -2, 2)
    return float(a), min(float(b), STEEPEST)


class NewestScores:
    """Of each class the scores of its newest tested samples, so that every class counts alike."""

    def __init__(self) -> None:
        self.n_classes = 0
        self._table = np.zeros((0, NEWEST), np.float32)
        self._tested = np.zeros(0, np.int64)

    @staticmethod
    def bytes_for(n_classes: int) -> int:
        return room_for(n_classes) * (4 * NEWEST + 8)

    def add(self, classes: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        for number, value in zip(classes.tolist(), scores.tolist(), strict=True):
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

    def merge(self, other: NewestScores, numbers: NDArray[np.int64]) -> None:
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
