"""A Gaussian for every class, streamed: mean, a few strongest directions, and one covariance they share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import ssyevd

from votestream.compute.place import converted, stacked
from votestream.io.array_checks import MANY, ROUNDED, check_below, demand, take
from votestream.memory.scatter import SharedScatter

SPARE = 4
TOGETHER = 1 << 18  # elements that are decomposed at once: a megabyte
FILLED = 4  # numbers of rows are brought to a multiple of this, as few large groups are faster than many small ones
SMALL, LARGE = 1e-20, 1e30  # inner products between these are exact enough in float32 without any scaling


class ClassGaussians:
    """Count, mean and a low-rank scatter of each class, and the scatter within the classes of all together.

    Block by block: a class's rows, less their mean and moved along the step that its mean takes (Chan, Golub and
    LeVeque, 1979), join its directions, and the strongest `rank` of the resulting ellipsoid stay. What falls away
    is positive semidefinite, and `dropped` adds up its trace: a class's scatter lies between that of
    its directions and that plus `dropped` in any one direction. Up to `rank` + 1 samples nothing falls away.
    Directions are unit vectors in float16 with their length beside them; the rest is float32.

    >>> X = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]], np.float32)
    >>> gaussians = ClassGaussians(width=2)
    >>> gaussians.add(X, np.array([0, 0, 1]), rank=1)
    >>> gaussians.counts.tolist(), gaussians.means.tolist()
    ([2, 1], [[2.0, 0.0], [2.0, 3.0]])
    >>> F = gaussians.factor(0)
    >>> (F.T @ F).round(3).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.counts = np.zeros(0, np.int64)
        self.dropped = np.zeros(0)
        self.means = np.zeros((0, width), np.float32)
        self.directions: list[NDArray[np.float16]] = []  # class by class, (k, D), the strongest first
        self.lengths: list[NDArray[np.float32]] = []
        self.scatter = SharedScatter(width)
        self._rank = 0  # the most directions that a class may have

    @staticmethod
    def bytes_for(width: int, n_classes: int) -> tuple[int, int]:
        """Bytes of `n_classes` classes without directions, and of one more direction of each."""
        return SharedScatter.bytes_for(width) + n_classes * (16 + 4 * width), n_classes * (4 + 2 * width)

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64], rank: int) -> None:
        """Take in a block of rows; from now on no class has more than `rank` directions."""
        if len(X) == 1:
            self._add_one(X[0], int(classes[0]), rank)
            return
        order = classes.argsort(kind="stable")
        classes = classes[order]
        starts = np.flatnonzero(np.diff(classes, prepend=-1))
        present, sizes = classes[starts], np.diff(starts, append=len(classes))
        self._reserve(int(present[-1]) + 1, rank)

        padded = np.zeros((len(X) + 1, self.width), np.float32)
        rows = padded[:-1]
        X.take(order, axis=0, out=rows)
        means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None].astype(np.float32)
        before = self.counts[present]
        total = before + sizes
        steps = means - self.means[present]
        self.counts[present] = total
        self.means[present] += steps * (sizes / total)[:, None].astype(np.float32)
        # Rows less their mean add up to zero, so a step added to each of them meets none of them in the products.
        steps *= np.sqrt(before / total)[:, None].astype(np.float32)
        rows -= (means - steps).repeat(sizes, axis=0)
        self.scatter.add(rows)
        self._widen_all(present, starts, sizes, padded, rank)

    def _add_one(self, x: NDArray[np.float32], label: int, rank: int) -> None:
        """What `add` does, in a third of the time."""
        self._reserve(label + 1, rank)
        before = int(self.counts[label])
        self.counts[label] = before + 1
        mean = self.means[label]
        step = x - mean
        mean += step * np.float32(1 / (before + 1))
        step *= np.float32((before / (before + 1)) ** 0.5)
        self.scatter.add_one(step)
        self._widen(label, step[None], rank)

    def _reserve(self, n_classes: int, rank: int) -> None:
        new = n_classes - len(self.counts)
        if new > 0:
            self.counts = np.concatenate((self.counts, np.zeros(new, np.int64)))
            self.dropped = np.concatenate((self.dropped, np.zeros(new)))
            self.means = np.concatenate((self.means, np.zeros((new, self.width), np.float32)))
            self.directions += [np.zeros((0, self.width), np.float16)] * new
            self.lengths += [np.zeros(0, np.float32)] * new
        self.trim(rank)

    def trim(self, rank: int) -> None:
        """From now on no class has more than `rank` directions."""
        if rank < self._rank:
            for label, lengths in enumerate(self.lengths):
                if len(lengths) > rank:
                    self.dropped[label] += float(np.square(lengths[rank:], dtype=np.float64).sum())
                    self.lengths[label] = lengths[:rank].copy()
                    self.directions[label] = self.directions[label][:rank].copy()
        self._rank = rank

    def _widen_all(
        self,
        labels: NDArray[np.int64],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rows: NDArray[np.float32],
        rank: int,
    ) -> None:
        """Each class takes in its rows, many classes at once; the last of all rows is zero and fills up."""
        alike: dict[tuple[int, int], list[int]] = {}  # places of classes with as many directions and about as many rows
        for place, (label, size) in enumerate(zip(labels.tolist(), sizes.tolist(), strict=True)):
            held = len(self.lengths[label])
            alike.setdefault((held, size if held < rank else -(-size // FILLED) * FILLED), []).append(place)
        for (held, size), places in alike.items():
            at_once = TOGETHER // ((held + size) * self.width)
            if at_once < 2 or len(places) == 1 or held + size > 2 * rank + SPARE:
                for place in places:
                    self._widen(int(labels[place]), rows[starts[place] : starts[place] + sizes[place]], rank)
                continue
            for first in range(0, len(places), at_once):
                some, numbers = places[first : first + at_once], np.arange(size)
                own = np.where(numbers < sizes[some][:, None], starts[some][:, None] + numbers, -1)
                self._widen_together(labels[some].tolist(), rows[own], rank)

    def _widen(self, label: int, rows: NDArray[np.float32], rank: int) -> None:
        lengths, directions, dropped = strongest(np.concatenate((self.factor(label), rows)), rank)
        self.lengths[label] = lengths
        self.directions[label] = directions.astype(np.float16)
        self.dropped[label] += dropped

    def _widen_together(self, labels: list[int], rows: NDArray[np.float32], rank: int) -> None:
        """`_widen` for classes with equally many directions; their rows are (g, n, D)."""
        lengths = np.array([self.lengths[label] for label in labels])
        factors = converted(np.array([self.directions[label] for label in labels]), np.float32) * lengths[..., None]
        found = strongest_of_each(np.concatenate((factors, rows), axis=1), rank)
        if found is None:
            for label, own in zip(labels, rows, strict=True):
                self._widen(label, own, rank)
            return
        lengths, directions, dropped = found
        self.dropped[labels] += dropped
        for label, size, table in zip(labels, lengths, converted(directions, np.float16), strict=True):
            self.lengths[label], self.directions[label] = size.copy(), table.copy()  # views would hold all the others

    def factor(self, label: int) -> NDArray[np.float32]:
        """F (k, D): F^T F is the scatter of the class in its strongest directions."""
        return self.directions[label] * self.lengths[label][:, None]

    def factors(self, classes: range, rank: int) -> NDArray[np.float32]:
        """The factors of these classes, (k, rank, D), filled up with zeros."""
        F = stacked([self.directions[label][:rank] for label in classes], rank)
        F *= stacked([self.lengths[label][:rank] for label in classes], rank)[..., None]
        return F

    def class_with(
        self, label: int, rows: NDArray[np.float32], rank: int
    ) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
        """Count, mean and factor of one class as they would be with these rows of it; nothing is changed."""
        before, mean, factor = 0, np.zeros(self.width, np.float32), np.zeros((0, self.width), np.float32)
        if label < len(self.counts):
            before, mean, factor = int(self.counts[label]), self.means[label], self.factor(label)
        count, n = before + len(rows), len(rows)
        if not n:
            return count, mean, factor[:rank]
        own = rows.mean(0)
        step = (own - mean)[None]
        lengths, directions, _ = strongest(
            np.concatenate((factor, rows - own, np.float32((before * n / count) ** 0.5) * step)), rank
        )
        return count, mean + np.float32(n / count) * step[0], directions * lengths[:, None]

    def forget(self, label: int) -> None:
        """The class is gone, and later ones count one less.

        Of the shared scatter its directions are taken out, and of what it had beyond them (`dropped`) as much as if
        that lay like the rest: the trace is exact, where it lies is not.
        """
        whole = self.scatter.matrix()
        F = self.factor(label).astype(np.float64)
        rest = whole - F.T @ F
        rest *= 1 - min(1.0, self.dropped[label] / max(float(np.trace(rest)), np.finfo(np.float64).tiny))
        self.scatter.set(_semidefinite(rest, whole))
        self._remove(label)

    def join(self, label: int, into: int, rank: int) -> None:
        """Two classes are one, with the scatter between their means; classes above `label` count one less."""
        self._take_in(self, [label], [into], rank)
        self._remove(label)

    def merge(self, other: ClassGaussians, numbers: NDArray[np.int64], rank: int) -> None:
        """Add the Gaussians of another stream; its class i is class numbers[i] here.

        Counts, means and the shared scatter are exact up to rounding. Of the directions of both the strongest stay.
        """
        self._reserve(int(numbers.max(initial=-1)) + 1, rank)
        for strip, theirs in zip(self.scatter.strips, other.scatter.strips, strict=True):
            strip += theirs
        numbers = numbers[: len(other.counts)]
        known = self.counts[numbers] > 0
        for i in np.flatnonzero(~known).tolist():
            label, lengths = int(numbers[i]), other.lengths[i]
            self.counts[label], self.means[label] = other.counts[i], other.means[i]
            self.lengths[label], self.directions[label] = lengths[:rank].copy(), other.directions[i][:rank].copy()
            self.dropped[label] = other.dropped[i] + float(np.square(lengths[rank:], dtype=np.float64).sum())
        both, at_once = np.flatnonzero(known), TOGETHER // self.width + 1
        for first in range(0, len(both), at_once):
            some = both[first : first + at_once]
            self._take_in(other, some.tolist(), numbers[some].tolist(), rank)

    def _take_in(self, other: ClassGaussians, theirs: list[int], ours: list[int], rank: int) -> None:
        """Classes take in the samples of the other's classes, whose scatter within is in the shared one already."""
        before, counts = self.counts[ours], other.counts[theirs]
        total = before + counts
        steps = other.means[theirs] - self.means[ours]
        self.means[ours] += steps * (counts / total)[:, None].astype(np.float32)
        self.counts[ours] = total
        steps *= np.sqrt(before * (counts / total))[:, None].astype(np.float32)
        self.scatter.add(steps)
        self.dropped[ours] += other.dropped[theirs]
        parts = [np.concatenate((other.factor(i), step[None])) for i, step in zip(theirs, steps, strict=True)]
        sizes = np.array([len(part) for part in parts])
        rows = np.concatenate((*parts, np.zeros((1, self.width), np.float32)))
        self._widen_all(np.array(ours), sizes.cumsum() - sizes, sizes, rows, rank)

    def _remove(self, label: int) -> None:
        self.counts, self.dropped = np.delete(self.counts, label), np.delete(self.dropped, label)
        self.means = np.delete(self.means, label, axis=0)
        del self.directions[label], self.lengths[label]

    def copy(self) -> ClassGaussians:
        twin = ClassGaussians(self.width)
        twin.counts, twin.dropped, twin.means = self.counts.copy(), self.dropped.copy(), self.means.copy()
        twin.directions, twin.lengths = list(self.directions), list(self.lengths)  # replaced, never written to
        twin.scatter, twin._rank = self.scatter.copy(), self._rank
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        ranks = np.array([len(lengths) for lengths in self.lengths], np.int64)
        return {
            "counts": self.counts,
            "dropped": self.dropped,
            "means": self.means,
            "ranks": ranks,
            "lengths": np.concatenate((np.zeros(0, np.float32), *self.lengths)),
            "directions": np.concatenate((np.zeros((0, self.width), np.float16), *self.directions)),
            **{f"scatter{name}": strip for name, strip in self.scatter.state().items()},
        }

    def restore(self, state: dict[str, NDArray[Any]], most: int, largest: float) -> None:
        """At most `most` classes; `largest` is what the rows' elements are at most."""
        counts = take(state, "counts", np.int64, (None,), 1, MANY)
        n, full = len(counts), float(np.finfo(np.float64).max)
        demand(n <= most, f"there are Gaussians of {n} classes, but only {most} classes")
        dropped = take(state, "dropped", np.float64, (n,), 0, full)
        energy = 4 * largest**2 * counts.astype(np.float64)  # of a class's rows about their mean, in any direction
        check_below("dropped", dropped, self.width * energy)
        self.means = take(state, "means", np.float32, (n, self.width), -ROUNDED * largest, ROUNDED * largest)
        lengths = take(state, "lengths", np.float32, (None,), 0, full)
        directions = take(state, "directions", np.float16, (len(lengths), self.width), -1.1, 1.1)
        ranks = take(state, "ranks", np.int64, (n,), high=len(lengths))
        demand(int(ranks.sum()) == len(lengths), "the array 'ranks' counts other directions than there are")
        check_below("lengths", lengths, np.sqrt(self.width * energy).repeat(ranks))
        self._rank = int(ranks.max(initial=0))
        ends = ranks.cumsum().tolist()
        spans = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self.lengths = [lengths[span].copy() for span in spans]
        self.directions = [directions[span].copy() for span in spans]
        self.counts, self.dropped = counts, dropped
        strips = {name[7:]: strip for name, strip in state.items() if name.startswith("scatter")}
        self.scatter.restore(strips, self.width * float(energy.sum()))


def _semidefinite(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """A part of a scatter, without the negative variance that directions in float16 leave behind."""
    values, vectors = np.linalg.eigh(part)
    if values[0] < 0:
        part = (vectors * np.maximum(values, 0)) @ vectors.T
    diagonal = np.minimum(part.diagonal(), whole.diagonal())  # no feature varies more than before
    part[np.diag_indices(len(part))] = np.maximum(diagonal, 0)
    return part


def strongest(rows: NDArray[np.float32], rank: int) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """At most `rank` orthogonal directions of the ellipsoid rows^T rows: lengths, unit vectors, the trace that is lost.

    Many rows are first brought down to a few more than `rank` by subspace iteration (Halko, Martinsson and
    Tropp, 2011) from the first ones, which had better be the strongest: several times as fast as all eigenvectors.

    >>> lengths, directions, lost = strongest(np.array([[2.0, 0.0], [0.0, 1.0], [1.5, 0.0]], np.float32), rank=1)
    >>> lengths.tolist(), abs(directions).round(3).tolist(), lost
    ([2.5], [[1.0, 0.0]], 1.0)
    """
    energy = float(np.vdot(rows, rows))
    few = len(rows) <= 2 * rank + SPARE
    if few and rank and SMALL < energy < LARGE:
        lengths, directions, kept = _decomposed(rows, rank)
        return lengths, directions, max(0.0, energy - kept)
    # A power of two changes no digit, and keeps the squares and the cubes below inside float32.
    unit = np.float32(2.0 ** np.floor(np.log2(max(float(np.abs(rows).max()), 1e-30))))
    rows = rows / unit
    energy = float(np.vdot(rows, rows))
    if rank == 0:
        return np.zeros(0, np.float32), rows[:0], energy * float(unit) ** 2
    if not few:
        start = np.concatenate((rows[:rank], _spare(rows.shape[1])))
        basis = (rows @ (rows.T @ (rows @ start.T))).astype(np.float64)
        gram = basis.T @ basis
        gram[np.diag_indices(len(gram))] += 1e-12 * gram.trace() + 1e-30  # rows may span less than was asked for
        rows = (np.linalg.inv(np.linalg.cholesky(gram)) @ basis.T).astype(np.float32) @ rows
    lengths, directions, kept = _decomposed(rows, rank)
    return lengths * unit, directions, max(0.0, energy - kept) * float(unit) ** 2


def _decomposed(rows: NDArray[np.float32], rank: int) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """By all eigenvectors of the rows' inner products: lengths, unit vectors, the trace that they have."""
    values, vectors = _eigen(rows @ rows.T)
    values, vectors = values[: -rank - 1 : -1], vectors[:, : -rank - 1 : -1]
    least = 1e-7 * values[0]
    if not values[-1] > least:
        there = values > least
        values, vectors = values[there], vectors[:, there]
    lengths = np.sqrt(values)
    return lengths, (vectors / lengths).T @ rows, float(values.sum())


def _eigen(gram: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eigenvalues, the smallest first, and eigenvectors in columns; NumPy's way to LAPACK takes half as long again."""
    values, vectors, failed = ssyevd(gram.T, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError("the eigenvalues of a class's scatter did not converge")
    return values, vectors


def strongest_of_each(
    rows: NDArray[np.float32], rank: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]] | None:
    """`strongest` of g ellipsoids of few rows each, (g, m, D), at once.

    None where one of them needs the care that `strongest` takes: rows that span less than `rank` directions, or whose
    products float32 does not hold.
    """
    gram = rows @ rows.swapaxes(1, 2)
    energy = np.einsum("gmm->g", gram)
    if rank == 0 or not SMALL < energy.min() <= energy.max() < LARGE:
        return None
    solved = [_eigen(own) for own in gram]
    values = np.array([own[: -rank - 1 : -1] for own, _ in solved])
    vectors = np.array([own.T[: -rank - 1 : -1] for _, own in solved])  # in rows
    if not (values[:, -1] > 1e-7 * values[:, 0]).all():
        return None
    lengths = np.sqrt(values)
    lost = np.maximum(energy.astype(np.float64) - values.sum(1), 0)
    return lengths, (vectors / lengths[..., None]) @ rows, lost


@cache
def _spare(width: int) -> NDArray[np.float32]:
    """Directions that subspace iteration carries beyond those wanted: any, and always the same."""
    return np.random.default_rng(0).standard_normal((SPARE, width), dtype=np.float32)
