"""The sums that ridge regression on one-hot targets needs, streamed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.compute.place import Array, Place
from votestream.io.array_checks import MANY, check_products, demand, take
from votestream.memory.statistics import extended

System = tuple[torch.Tensor, torch.Tensor]


class GramSums:
    """G = sum h h^T, on the device, and Q = sum h y^T, on the host, of rows h and their one-hot classes y.

    In float32, as G is all that such a learner's memory goes to.

    >>> sums = GramSums(1, Place("cpu"))
    >>> sums.add(np.array([[2.0], [3.0]], np.float32), np.array([0, 1]))
    >>> G, Q = sums.system(n_classes=2)
    >>> G.tolist(), Q.tolist(), ridge_solution(G, Q, ridge=3.0).tolist()
    ([[13.0]], [[2.0, 3.0]], [[0.125, 0.1875]])
    """

    def __init__(self, width: int, place: Place) -> None:
        self._place = place
        self._G = place.put(np.zeros((width, width), np.float32))
        self._Q = np.zeros((0, width), np.float32)  # transposed: a row a class

    def add(self, H: Array, classes: NDArray[np.int64]) -> None:
        """Take in rows, which are on the device."""
        if not len(classes):
            return
        self._G += H.T @ H
        n_classes = max(classes.tolist()) + 1
        if n_classes > len(self._Q):
            self._Q = extended(self._Q, n_classes)
        hot = (np.arange(n_classes)[:, None] == classes).astype(np.float32)
        self._Q[:n_classes] += self._place.get(self._place.put(hot) @ H)

    def join(self, label: int, into: int) -> None:
        """Two classes are one; classes above `label` count one less."""
        Q = extended(self._Q, max(len(self._Q), label + 1, into + 1))
        Q[into] += Q[label]
        self._Q = np.delete(Q, label, axis=0)

    def merge(self, other: GramSums, numbers: NDArray[np.int64]) -> None:
        """Add the sums of another stream; its class i is class numbers[i] here."""
        self._G += other._G
        numbers = numbers[: other.n_classes]
        if len(numbers):
            self._Q = extended(self._Q, max(len(self._Q), int(numbers.max()) + 1))
            self._Q[numbers] += other._Q

    @property
    def n_classes(self) -> int:
        return len(self._Q)

    def with_more(self, H: Array, classes: NDArray[np.int64]) -> GramSums:
        """What the sums would be with these rows; in float64, ready to be solved."""
        twin = copy.copy(self)
        twin._G = self._G.astype(np.float64) if isinstance(self._G, np.ndarray) else self._G.double()
        twin._Q = self._Q.astype(np.float64)
        twin.add(H, classes)
        return twin

    def system(self, n_classes: int) -> System:
        """G (M, M) and Q (M, C) as tensors; G may be the very memory of these sums."""
        return torch.as_tensor(self._G), torch.from_numpy(extended(self._Q, n_classes)).T.to(self._place.device)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"G": self._place.get(self._G), "Q": self._Q}

    def restore(self, state: dict[str, NDArray[Any]], most: int) -> None:
        """At most `most` classes."""
        width, full = self._Q.shape[1], float(np.finfo(np.float32).max)
        G = take(state, "G", np.float32, (width, width), -full, full)
        Q = take(state, "Q", np.float32, (None, width), -full, full)
        demand(len(Q) <= most, f"there are sums of {len(Q)} classes, but only {most} classes")
        check_products("G", G)
        size = np.sqrt(G.diagonal())
        fits = np.abs(Q) <= MANY**0.5 * size + 1e-8  # of rows so small that float32 loses their squares, too
        demand(bool(fits.all()), "the array 'Q' holds sums that do not fit those in 'G'")
        self._G, self._Q = self._place.put(G), Q


class ClassGramSums(GramSums):
    """The same with the samples of each class counted, by which the scatter within the classes follows.

    >>> sums = ClassGramSums(1, Place("cpu"))
    >>> sums.add(np.array([[2.0], [4.0], [9.0]], np.float32), np.array([0, 0, 1]))
    >>> covariance, means = sums.within(n_classes=2)
    >>> (3 * covariance).tolist(), means.tolist()
    ([[2.0]], [[3.0, 9.0]])
    """

    def __init__(self, width: int, place: Place) -> None:
        super().__init__(width, place)
        self.counts = np.zeros(0, np.int64)

    def add(self, H: Array, classes: NDArray[np.int64]) -> None:
        super().add(H, classes)
        self.counts = extended(self.counts, self.n_classes)
        self.counts += np.bincount(classes, minlength=self.n_classes)

    def join(self, label: int, into: int) -> None:
        super().join(label, into)
        counts = extended(self.counts, max(len(self.counts), label + 1, into + 1))
        counts[into] += counts[label]
        self.counts = np.delete(counts, label)

    def merge(self, other: GramSums, numbers: NDArray[np.int64]) -> None:
        assert isinstance(other, ClassGramSums)
        super().merge(other, numbers)
        self.counts = extended(self.counts, self.n_classes)
        self.counts[numbers[: other.n_classes]] += other.counts

    def with_more(self, H: Array, classes: NDArray[np.int64]) -> ClassGramSums:
        twin = super().with_more(H, classes)
        assert isinstance(twin, ClassGramSums)
        return twin

    def within(self, n_classes: int) -> System:
        """The covariance within the classes, (M, M), and the means, (M, C): tensors of their own."""
        G, Q = self.system(n_classes)
        counts = torch.from_numpy(self.counts).to(G)
        means = Q.to(G) / counts
        return (G - (means * counts) @ means.T) / counts.sum(), means

    def state(self) -> dict[str, NDArray[Any]]:
        return {**super().state(), "counts": self.counts}

    def restore(self, state: dict[str, NDArray[Any]], most: int) -> None:
        super().restore(state, most)
        self.counts = take(state, "counts", np.int64, (self.n_classes,), 1, MANY)
        between = (self._Q.astype(np.float64) ** 2 / self.counts[:, None]).sum(0)
        fits = between <= 1.001 * self._place.get(self._G).diagonal() + 1e-8  # the rest is the scatter within
        demand(bool(fits.all()), "the array 'counts' holds numbers of samples that do not fit the sums")


def ridge_solution(G: torch.Tensor, Q: torch.Tensor, ridge: float) -> torch.Tensor | None:
    """(G + ridge I)^-1 Q; None where that is not positive definite to the last digit."""
    system = G.clone()
    system.diagonal().add_(ridge)
    factor, problem = torch.linalg.cholesky_ex(system)
    return None if problem else torch.cholesky_solve(Q, factor)
