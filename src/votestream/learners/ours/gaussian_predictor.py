"""How GaussianVoting answers: log densities of class Gaussians, prepared, and brought up to date class by class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dsyevd

from votestream import voting
from votestream.compute.place import Array, Place, library_of, small_product
from votestream.core.predictor import leading
from votestream.core.state import State
from votestream.core.vote import Vote
from votestream.learners.ours.modules import DensitiesModule
from votestream.learners.statistics.linear_rule import slices, softmax
from votestream.memory import GaussianMemory
from votestream.memory.power import to_power
from votestream.tracking.calibration import Calibration

MANY = 2048  # classes; beyond, a shortlist is the faster way, but on a GPU
CHUNK = 512  # classes that answer by one product, and are copied together
WIDE = 64  # directions beyond which classes are prepared one by one, each by as many as it has
FARTHEST = np.float32(1e15)  # standard deviations from the middle: farther rows are taken to be there


class Shared(NamedTuple):
    """What the classes share, as it was at the last refresh."""

    held: tuple[int, int]  # samples in the folded Gaussians, and up to the refresh
    freedom: int  # of the covariance they share: its samples less its classes
    rank: int  # most directions of a class
    strength: float
    few: float
    centre: NDArray[np.float64]  # (D,) float32 is exact enough around it, wherever features lie
    whiten: NDArray[np.float32]  # (D, D) to coordinates where the shared covariance is the identity


class Entry(NamedTuple):
    """k classes with r directions each, prepared, on the host."""

    means: NDArray[np.float32]  # (k, D) over d
    H: NDArray[np.float32]  # (k, r, D)
    narrow: NDArray[np.float32]  # (k,) 1 / d
    bias: NDArray[np.float32]  # (k,)
    across: NDArray[np.float32]  # (k, r) H m
    used: NDArray[np.bool_]  # (k, r) False where H is zero


class Chunk(NamedTuple):
    """Up to CHUNK classes in the tables of one product that answers for them."""

    table: Array  # (D, 1 + r, k) means over d, then H, direction by direction
    narrow: Array  # (k,)
    bias: Array  # (k,)
    across: Array  # (r, k)

    @classmethod
    def of(cls, entry: Entry, place: Place) -> Chunk:
        table = np.concatenate((entry.means[:, None], entry.H), axis=1).transpose(2, 1, 0)
        parts = table, entry.narrow, entry.bias, entry.across.T
        return cls(*(place.put(np.ascontiguousarray(part)) for part in parts))

    def with_entries(self, entries: dict[int, Entry], place: Place) -> Chunk:
        """A copy with other classes at these places, new ones at the end among them."""
        table, narrow, bias, across = (place.get(part) for part in self)
        size = max(len(narrow), max(entries) + 1)
        table, narrow, bias, across = (_wider(part, size) for part in (table, narrow, bias, across))
        for i, entry in entries.items():
            table[:, 0, i], table[:, 1:, i] = entry.means[0], entry.H[0].T
            narrow[i], bias[i], across[:, i] = entry.narrow[0], entry.bias[0], entry.across[0]
        return Chunk(*(place.put(part) for part in (table, narrow, bias, across)))

    def log_densities(self, Z: Array, size: Array) -> Array:
        """(n, k), up to a constant; `size` is |z|² of each row, (n, 1)."""
        n, k = len(Z), len(self.bias)
        product = Z @ self.table.reshape(len(self.table), -1)
        along = product[:, k:].reshape(n, len(self.across), k) - self.across
        along *= along
        distance = size * self.narrow - 2 * product[:, :k]
        return (library_of(Z).sum(along, axis=1) - distance - self.bias) * 0.5


def _wider(table: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """A copy whose last axis is so long."""
    wider = np.empty((*table.shape[:-1], size), table.dtype)
    wider[..., : table.shape[-1]] = table
    return wider


def prepare(
    shared: Shared, counts: NDArray[Any], means: NDArray[np.float32], F: NDArray[np.float32], batch: bool = False
) -> Entry:
    """k classes of so many samples, their means (k, D), and F (k, r, D) with F^T F the scatter of each.

    Of many directions most may be zeros that fill up, as in a young model: then only the others cost time.
    """
    if F.shape[1] <= WIDE:
        return _prepare(shared, counts, means, F, batch)
    made = []
    for i, table in enumerate(F):
        own, one = max(1, int(table.any(axis=1).sum())), slice(i, i + 1)
        made.append(_filled(_prepare(shared, counts[one], means[one], table[None, :own], batch), len(table)))
    return Entry(*(np.concatenate(parts) for parts in zip(*made, strict=True)))


def _filled(entry: Entry, rank: int) -> Entry:
    """With directions of zeros up to so many."""
    H, across, used = (
        np.concatenate((part, np.zeros((len(part), rank - part.shape[1], *part.shape[2:]), part.dtype)), axis=1)
        for part in (entry.H, entry.across, entry.used)
    )
    return entry._replace(H=H, across=across, used=used)


def _prepare(
    shared: Shared, counts: NDArray[Any], means: NDArray[np.float32], F: NDArray[np.float32], batch: bool
) -> Entry:
    """The same, by all directions.

    In coordinates where the shared covariance is the identity, class c varies by d = 1 + 1/n in every direction, and
    by d + a(n) (s - 1) in those where its own variance s is more than 1. Its Mahalanobis distance is
    |x - m|² / d - |H (x - m)|², the rows of H being those directions, each times the root of
    1/d - 1/(d + a(n) (s - 1)).
    """
    n, (k, rank, width) = counts.astype(np.float64), F.shape
    flat = F.reshape(-1, width) / np.sqrt(n).astype(np.float32).repeat(rank)[:, None]
    F = small_product(flat, shared.whiten).reshape(k, rank, width)
    own, turn = _eigen((F @ F.transpose(0, 2, 1)).astype(np.float64), batch)  # s of each direction
    d = 1 + 1 / n
    a = shared.strength * n / (n + shared.few)
    along = d[:, None] + a[:, None] * np.maximum(own - 1, 0)
    size = np.sqrt((1 / d[:, None] - 1 / along) / np.maximum(own, 1))  # unit vectors, times what H asks
    H = (turn * size[:, None]).transpose(0, 2, 1).astype(np.float32) @ F
    m = small_product((means - shared.centre).astype(np.float32), shared.whiten)
    log_det = (width - rank) * np.log(d) + np.log(along).sum(1)
    bias = np.square(m, dtype=np.float64).sum(1) / d + log_det
    across = np.einsum("crd,cd->cr", H, m)
    means, narrow = (m / d[:, None]).astype(np.float32), (1 / d).astype(np.float32)
    return Entry(means, H, narrow, bias.astype(np.float32), across, own > 1)


def _eigen(grams: NDArray[np.float64], batch: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues (k, r) and eigenvectors in columns (k, r, r).

    By LAPACK itself, which for one class takes the least time; as a batch by torch, which lets other threads go on.
    """
    if not grams.shape[1]:
        return np.zeros((len(grams), 0)), grams
    if batch:
        found = torch.linalg.eigh(torch.from_numpy(grams))
        return found.eigenvalues.numpy(), found.eigenvectors.numpy()
    values, vectors = np.empty(grams.shape[:2]), np.empty(grams.shape)
    for i, gram in enumerate(grams):
        values[i], vectors[i], failed = dsyevd(gram.T, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError("the eigenvalues of a class's scatter did not converge")
    return values, vectors


def runs(n: int, length: int) -> list[range]:
    """The numbers below n in runs of this length.

    >>> runs(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + length, n)) for start in range(0, n, length)]


class Temperature(NamedTuple):
    """What log densities are divided by for probabilities, row by row.

    Gaussians in D dimensions are surer than they should be: sqrt(D) / 4 brings them down where much is known. Where
    less is known they are surer still, as their means are of few samples, and the covariance of few degrees of freedom:

        T = sqrt(D) / 4 (1 + BY_MEAN sqrt(D) / n + BY_COVARIANCE D / freedom)

    1 / n is the mean of the two classes in front. The last term is raised where freedom is below LEAST_FREEDOM. Its
    constant and BY_MEAN were fitted once, on features of half of CIFAR-100's classes, training part, so that the mean
    probability is the accuracy; `benchmarks/first_photos.py` shows how they do. `fixed` is one temperature for all.
    """

    width: int
    freedom: int
    fixed: float | None

    def of(self, log: NDArray[np.float64], spare: NDArray[np.float32]) -> Any:
        """Of rows with these log densities (n, C); `spare` is 1 / n of each class. A number, or (n, 1)."""
        if self.fixed is not None:
            return self.fixed
        base, slope = self.terms()
        if log.shape[1] == 1:
            return base
        front = np.argpartition(log, -2, axis=1)[:, -2:]
        return base + slope * spare[front].mean(1, keepdims=True)

    def terms(self) -> tuple[float, float]:
        """The temperature of rows of well-known classes, and what is added for each 1 / n."""
        base, freedom = self.width**0.5 / 4, max(1, self.freedom)
        unsure = BY_COVARIANCE * self.width / freedom * (1 + (LEAST_FREEDOM / freedom) ** 4)
        return base * (1 + unsure), base * BY_MEAN * self.width**0.5


BY_MEAN, BY_COVARIANCE = 0.32, 0.11
LEAST_FREEDOM = 3.0  # below which a covariance says next to nothing


@dataclass(frozen=True)
class GaussianPredictor:
    """What both ways to predict share: by the densities of all classes, here, or of a shortlist."""

    temperature: Temperature
    power: np.float32
    task_of_class: NDArray[np.int64]
    place: Place
    shared: Shared
    centre: Array
    whiten: Array

    @staticmethod
    def suits(n_classes: int, place: Place) -> bool:
        """Whether this is the way to predict among so many classes."""
        raise NotImplementedError

    def updated(self, state: State[GaussianMemory], changed: set[int]) -> GaussianPredictor | None:
        """With these classes as they are now; None where what is shared has moved on, or the way to predict."""
        lasting = self.shared.held == state.memory.held() and self.suits(len(state.numbers), self.place)
        return self.with_newest(state, changed) if lasting else None

    def with_newest(self, state: State[GaussianMemory], classes: set[int]) -> GaussianPredictor:
        """With these classes as they are now: their waiting rows are in their directions."""
        return self.with_classes(
            {number: self._entry(state.memory, number) for number in classes}, state.task_numbers()
        )

    def _entry(self, memory: GaussianMemory, number: int) -> Entry:
        count, mean, factor = memory.class_now(number, self.shared.rank)
        return prepare(self.shared, np.array([count]), mean[None], factor[None])

    def with_classes(self, entries: dict[int, Entry], task_of_class: NDArray[np.int64]) -> GaussianPredictor:
        """With these classes in the place of those before."""
        raise NotImplementedError

    def log_densities(self, X: Array) -> Array:
        """(n, C) of transformed rows, up to a constant."""
        raise NotImplementedError

    def _tables(self) -> dict[str, NDArray[Any]]:
        """What `DensitiesModule` holds of the classes."""
        raise NotImplementedError

    def as_module(self) -> DensitiesModule:
        get, terms = self.place.get, self.temperature.fixed or self.temperature.terms()
        arrays = {"centre": get(self.centre), "whiten": get(self.whiten), **self._tables(), "spare": self.spare()}
        return DensitiesModule(float(self.power), terms, float(FARTHEST), **arrays)

    def narrow(self) -> NDArray[np.float32]:
        """(C,) 1 / d, on the host."""
        raise NotImplementedError

    def spare(self) -> NDArray[np.float32]:
        """(C,) 1 / n of each class: what its variance d is more than 1, as its mean is not known better."""
        return (1 / self.narrow() - 1).astype(np.float32)

    def _slices(self, X: NDArray[np.float32]) -> Iterator[Array]:
        """Log densities of a few rows at a time; the largest is the class that `decide` names."""
        raise NotImplementedError

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self.place.get(part.argmax(1)) for part in self._slices(X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        P, done, spare = np.empty((len(X), len(self.task_of_class))), 0, self.spare()
        for part in self._slices(X):
            log = self.place.get(part).astype(np.float64)
            P[done : done + len(log)] = softmax(log / self.temperature.of(log, spare))
            done += len(log)
        return P

    def vote(self, X: NDArray[np.float32], labels: NDArray[Any], calibration: Calibration | None = None) -> Vote:
        """By calibrated probabilities, where there is a calibration."""
        table = voting.task_table(self.task_of_class)
        parts = [self._vote(rows, labels, table, calibration) for rows in slices(X, len(self.task_of_class))]
        return Vote(*(np.concatenate(field) for field in zip(*(vars(part).values() for part in parts), strict=True)))

    def _vote(
        self, X: NDArray[np.float32], labels: NDArray[Any], table: NDArray[np.int64], calibration: Calibration | None
    ) -> Vote:
        P = self.probabilities(X)
        if calibration is not None:
            P = calibration(leading(P))
        score, candidates = voting.candidates(P, table)
        prior = np.stack([P[:, np.unique(row)].sum(1) for row in table], axis=1)
        s_hat = score / np.maximum(prior, np.finfo(prior.dtype).tiny)
        winner, named = score.argmax(1), labels[candidates]
        gamma = voting.confidence(prior)[:, 0]
        chosen = named[np.arange(len(winner)), winner]
        return Vote(named, s_hat.astype(np.float32), prior.astype(np.float32), gamma, score, chosen, winner)

    def _transformed(self, rows: NDArray[np.float32]) -> Array:
        return self.place.put(to_power(rows, self.power))

    def _whitened(self, X: Array) -> tuple[Array, Array]:
        """Transformed rows where the shared covariance is the identity, and |z|² of each, (n, 1)."""
        Z = ((X - self.centre) @ self.whiten).clip(-FARTHEST, FARTHEST)
        return Z, library_of(Z).sum(Z * Z, axis=1, keepdims=True)


@dataclass(frozen=True)
class Densities(GaussianPredictor):
    """By the densities of every class: all as they were at the last refresh, but those learned since, which are anew.

    Classes stand in chunks, so that a class that has changed costs the copy of one chunk.
    """

    chunks: tuple[Chunk, ...]

    @staticmethod
    def suits(n_classes: int, place: Place) -> bool:
        return n_classes <= MANY or place.device.type != "cpu"

    @classmethod
    def of(cls, n_classes: int, entry: Callable[[range], Entry], place: Place, **more: Any) -> Densities:
        """From a function that prepares some of the classes."""
        return cls(chunks=tuple(Chunk.of(entry(some), place) for some in runs(n_classes, CHUNK)), place=place, **more)

    def with_classes(self, entries: dict[int, Entry], task_of_class: NDArray[np.int64]) -> Densities:
        chunks, changed = list(self.chunks), {number // CHUNK for number in entries}
        for place in sorted(changed):
            own = {number % CHUNK: entries[number] for number in sorted(entries) if number // CHUNK == place}
            if place == len(chunks):
                chunks.append(Chunk.of(own.pop(0), self.place))
            if own:
                chunks[place] = chunks[place].with_entries(own, self.place)
        return replace(self, task_of_class=task_of_class, chunks=tuple(chunks))

    def _slices(self, X: NDArray[np.float32]) -> Iterator[Array]:
        width = 8 * min(CHUNK, len(self.task_of_class)) * (1 + self.shared.rank)
        return (self.log_densities(self._transformed(rows)) for rows in slices(X, width))

    def log_densities(self, X: Array) -> Array:
        Z, size = self._whitened(X)
        parts = [chunk.log_densities(Z, size) for chunk in self.chunks]
        return parts[0] if len(parts) == 1 else library_of(Z).concatenate(parts, 1)

    def narrow(self) -> NDArray[np.float32]:
        return np.concatenate([self.place.get(chunk.narrow) for chunk in self.chunks])

    def _tables(self) -> dict[str, NDArray[Any]]:
        parts = zip(*(map(self.place.get, chunk) for chunk in self.chunks), strict=True)
        table, narrow, bias, across = (np.concatenate(part, axis=-1) for part in parts)
        directions = np.ascontiguousarray(table[:, 1:].transpose(0, 2, 1)).reshape(len(table), -1)
        means = np.ascontiguousarray(table[:, 0])
        return {"means": means, "narrow": narrow, "bias": bias, "directions": directions, "across": across.T}
