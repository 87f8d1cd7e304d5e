"""How GaussianVoting answers: log densities of class Gaussians, prepared, and brought up to date class by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream import voting
from votestream.learners.linear import slices, softmax
from votestream.learners.vote import Vote
from votestream.place import Array, Place, library_of, small_product

FARTHEST = np.float32(1e15)  # standard deviations from the middle: farther rows are taken to be there


def to_power(X: NDArray[np.float32], power: np.float32) -> NDArray[np.float32]:
    """With its sign.

    >>> to_power(np.array([-4.0, 9.0], np.float32), np.float32(0.5)).tolist()
    [-2.0, 3.0]
    """
    if power == 1:
        return X
    size = np.abs(X)
    return np.copysign(np.sqrt(size) if power == 0.5 else size**power, X)


class Shared(NamedTuple):
    """What the classes share, as it was at the last refresh."""

    held: tuple[int, int]  # samples in the folded Gaussians, and up to the refresh
    rank: int  # most directions of a class
    strength: float
    few: float
    centre: NDArray[np.float64]  # (D,) float32 is exact enough around it, wherever features lie
    whiten: NDArray[np.float32]  # (D, D) to coordinates where the shared covariance is the identity


class Classes(NamedTuple):
    """k classes, r directions: the tables of one product that answers for them."""

    table: Array  # (D, k + r k) means over d, then the H of every class, direction by direction
    narrow: Array  # (k,) 1 / d
    bias: Array  # (k,)
    across: Array  # (r, k) H m

    def log_densities(self, Z: Array, size: Array) -> Array:
        """(n, k), up to a constant; `size` is |z|² of each row, (n, 1)."""
        n, k = len(Z), len(self.bias)
        product = Z @ self.table
        along = product[:, k:].reshape(n, len(self.across), k) - self.across
        along *= along
        distance = size * self.narrow - 2 * product[:, :k]
        return (library_of(Z).sum(along, axis=1) - distance - self.bias) * 0.5


class Entry(NamedTuple):
    """k classes, on the host."""

    means: NDArray[np.float32]  # (k, D) over d
    H: NDArray[np.float32]  # (k, r, D)
    narrow: NDArray[np.float32]  # (k,)
    bias: NDArray[np.float32]  # (k,)
    across: NDArray[np.float32]  # (k, r)

    def tables(self, place: Place) -> Classes:
        width = self.means.shape[1]
        table = np.concatenate((self.means, self.H.transpose(1, 0, 2).reshape(-1, width))).T
        parts = table, self.narrow, self.bias, self.across.T
        return Classes(*(place.put(np.ascontiguousarray(part)) for part in parts))


class Since(NamedTuple):
    """The same as `Classes`, laid out class by class: quick to make from single entries."""

    table: Array  # (k (1 + r), D) mean over d and H of every class
    narrow: Array
    bias: Array
    across: Array  # (k, r)

    @classmethod
    def of(cls, entries: Iterable[Entry], place: Place) -> Since:
        entries = list(entries)
        table = np.concatenate([part for each in entries for part in (each.means, each.H[0])])
        rest = (np.concatenate(parts) for parts in zip(*(each[2:] for each in entries), strict=True))
        return cls(place.put(table), *(place.put(part) for part in rest))

    def log_densities(self, Z: Array, size: Array) -> Array:
        k, r = self.across.shape
        product = (Z @ self.table.T).reshape(len(Z), k, 1 + r)
        along = product[:, :, 1:] - self.across
        along *= along
        distance = size * self.narrow - 2 * product[:, :, 0]
        return (library_of(Z).sum(along, axis=2) - distance - self.bias) * 0.5


def prepare(shared: Shared, counts: NDArray[Any], means: NDArray[np.float32], F: NDArray[np.float32]) -> Entry:
    """k classes of so many samples, their means (k, D), and F (k, r, D) with F^T F the scatter of each.

    In coordinates where the shared covariance is the identity, class c varies by d = 1 + 1/n in every direction, and
    by d + a(n) (s - 1) in those where its own variance s is more than 1. Its Mahalanobis distance is
    |x - m|² / d - |H (x - m)|², the rows of H being those directions, each times the root of
    1/d - 1/(d + a(n) (s - 1)).
    """
    n, (k, rank, width) = counts.astype(np.float64), F.shape
    flat = F.reshape(-1, width) / np.sqrt(n).astype(np.float32).repeat(rank)[:, None]
    F = small_product(flat, shared.whiten).reshape(k, rank, width)
    own, turn = np.linalg.eigh((F @ F.transpose(0, 2, 1)).astype(np.float64))  # s of each direction
    d = 1 + 1 / n
    a = shared.strength * n / (n + shared.few)
    along = d[:, None] + a[:, None] * np.maximum(own - 1, 0)
    size = np.sqrt((1 / d[:, None] - 1 / along) / np.maximum(own, 1))  # unit vectors, times what H asks
    H = (turn * size[:, None]).transpose(0, 2, 1).astype(np.float32) @ F
    m = small_product((means - shared.centre).astype(np.float32), shared.whiten)
    log_det = (width - rank) * np.log(d) + np.log(along).sum(1)
    bias = np.square(m, dtype=np.float64).sum(1) / d + log_det
    across = np.einsum("crd,cd->cr", H, m)
    return Entry((m / d[:, None]).astype(np.float32), H, (1 / d).astype(np.float32), bias.astype(np.float32), across)


@dataclass(frozen=True)
class Densities:
    """Log densities of every class: all of them as they were at the last refresh, and those learned since anew."""

    temperature: float
    power: np.float32
    task_of_class: NDArray[np.int64]
    place: Place
    shared: Shared
    centre: Array
    whiten: Array
    base: Classes
    entries: dict[int, Entry]  # of the classes learned since
    since: Since | None = None  # these, in one table

    def with_classes(self, entries: dict[int, Entry], task_of_class: NDArray[np.int64]) -> Densities:
        """With these classes as they are now."""
        entries = dict(sorted({**self.entries, **entries}.items()))
        if not entries:
            return replace(self, task_of_class=task_of_class)
        since = Since.of(entries.values(), self.place)
        return replace(self, task_of_class=task_of_class, entries=entries, since=since)

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self.place.get(part.argmax(1)) for part in self._slices(X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        log = np.concatenate([self.place.get(part) for part in self._slices(X)]).astype(np.float64)
        return softmax(log / self.temperature)

    def vote(self, X: NDArray[np.float32], labels: NDArray[Any]) -> Vote:
        P, table = self.probabilities(X), voting.task_table(self.task_of_class)
        score, candidates = voting.candidates(P, table)
        prior = np.stack([P[:, np.unique(row)].sum(1) for row in table], axis=1)
        s_hat = score / np.maximum(prior, np.finfo(prior.dtype).tiny)
        winner, named = score.argmax(1), labels[candidates]
        gamma = voting.confidence(prior)[:, 0]
        chosen = named[np.arange(len(winner)), winner]
        return Vote(named, s_hat.astype(np.float32), prior.astype(np.float32), gamma, score, chosen, winner)

    def _slices(self, X: NDArray[np.float32]) -> Iterator[Array]:
        for rows in slices(X, 8 * self.base.table.shape[1]):
            yield self.log_densities(self.place.put(to_power(rows, self.power)))

    def log_densities(self, X: Array) -> Array:
        """(n, C) of transformed rows, up to a constant."""
        Z = ((X - self.centre) @ self.whiten).clip(-FARTHEST, FARTHEST)
        size = library_of(Z).sum(Z * Z, axis=1, keepdims=True)
        log = self.base.log_densities(Z, size)
        if self.since is None:
            return log
        more = len(self.task_of_class) - log.shape[1]
        if more:
            empty = self.place.put(np.empty((len(X), more), np.float32))
            log = library_of(Z).concatenate((log, empty), 1)
        log[:, list(self.entries)] = self.since.log_densities(Z, size)
        return log
