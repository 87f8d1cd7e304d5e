"""Candidates, prior, vote (Eq. 3 to 5 of the paper): pure functions on arrays.

n queries, C classes, N tasks. Arrays are NumPy's or torch's (see place.py). `table` (N, m)
lists each task's classes, short rows filled up with the task's first class, which changes no maximum.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.compute.place import Array, as_float64, library_of

EPS_N = 1e-8  # regularises the normalisation of the candidates
EPS_R = 1e-8  # regularises the prior
LARGEST_EXPONENT = 600.0  # exp of it leaves float64 room for sums and products


def task_table(task_of_class: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each task's classes, (N, m), short rows filled up with the task's first class."""
    members = [np.flatnonzero(task_of_class == task) for task in range(task_of_class.max() + 1)]
    table = np.empty((len(members), max(map(len, members))), np.int64)
    for row, classes in zip(table, members, strict=True):
        row[: len(classes)] = classes
        row[len(classes) :] = classes[0]
    return table


def candidates(logits: Array, table: Array) -> tuple[Array, Array]:
    """Each task's largest logit among its own classes, and the class it belongs to (Eq. 3), (n, N) each.

    A masked maximum: multiplying by a 0/1 mask, as printed, would let a zero win over negative logits.

    >>> s, y = candidates(np.array([[-3.0, -1.0, -2.0]]), np.array([[0, 1], [2, 2]]))
    >>> s.tolist(), y.tolist()
    ([[-1.0, -2.0]], [[1, 2]])
    """
    xp = library_of(logits)
    by_task = logits[:, table]
    place = by_task.argmax(2)
    return xp.amax(by_task, axis=2), table[xp.arange(len(table)), place]


def normalise(s: Array, norms: Array) -> Array:
    """s_hat: the candidates' share of the logits above the smallest, over the norm of their weights.

    >>> normalise(np.array([[1.0, 2.0, 4.0]]), np.ones((1, 3))).round(6).tolist()
    [[0.0, 0.25, 0.75]]
    """
    xp = library_of(s)
    above = s - xp.amin(s, axis=1, keepdims=True)
    return above / ((xp.sum(above, axis=1, keepdims=True) + EPS_N) * norms)


def prior(distances: Array) -> Array:
    """w: how likely each task is, from the distance to its nearest exemplar (Eq. 4).

    >>> prior(np.array([[1.0, 3.0, np.inf]])).round(6).tolist()
    [[0.75, 0.25, 0.0]]
    """
    alpha = 1 / (distances + EPS_R)
    return alpha / library_of(alpha).sum(alpha, axis=1, keepdims=True)


def confidence(w: Array) -> Array:
    """How far apart the largest and the smallest prior are, (n, 1): gamma is this over beta."""
    xp = library_of(w)
    return xp.amax(w, axis=1, keepdims=True) - xp.amin(w, axis=1, keepdims=True)


def combine(s_hat: Array, w: Array, beta: float) -> tuple[Array, Array]:
    """gamma (n, 1) and every task's score (n, N), in float64: s_hat + exp(gamma - 1) w (Eq. 5).

    A small beta makes gamma large: exp(gamma - 1) leaves float32 beyond gamma = 89.7 and float64 beyond 710. Only the
    order of a row's scores matters, so where gamma - 1 is above 600 they are divided by exp(gamma - 601).

    >>> gamma, score = combine(np.array([[0.0, 0.5]]), np.array([[0.75, 0.25]]), beta=0.5)
    >>> gamma.tolist(), score.tolist()
    ([[1.0]], [[0.75, 0.75]])
    """
    s_hat, w = as_float64(s_hat), as_float64(w)
    exp = library_of(w).exp
    gamma = confidence(w) / max(beta, EPS_R)
    excess = (gamma - 1 - LARGEST_EXPONENT).clip(0)
    return gamma, s_hat * exp(-excess) + exp(gamma - 1 - excess) * w


class Neighbours:
    """Distances from queries to the nearest exemplar of each group (a task, or a class).

    Exemplars stand sorted by group; `starts` says where each of the groups `present` begins.

    >>> near = Neighbours(np.array([[0.0], [1.0], [5.0]]), groups=np.array([0, 0, 2]), n_groups=3)
    >>> near.distances(np.array([[2.0]])).tolist()
    [[1.0, inf, 3.0]]
    """

    def __init__(self, exemplars: Array, groups: Array, n_groups: int) -> None:
        self._numpy = isinstance(exemplars, np.ndarray)
        self.exemplars = exemplars
        self.groups = groups
        self.n_groups = n_groups
        if self._numpy:
            self._present, self._starts = np.unique(groups, return_index=True)
        # |x - v|² = |x - c|² + |v - c|² - 2 (x - c)·v + 2 (x - c)·c: with c in the middle of the exemplars
        # the terms stay of the size of the result, and float32 does.
        self._centre = exemplars.mean(0)
        offsets = exemplars - self._centre
        self._offsets = (offsets * offsets).sum(1)
        self._rounding = 1e-3 * float((self._centre * self._centre).sum()) ** 0.5

    def distances(self, X: Array) -> Array:
        """(n, n_groups); infinite where a group has no exemplar."""
        rows = max(1, (1 << 21 if self._numpy else 1 << 26) // len(self.exemplars))
        if len(X) <= rows:
            return self._block(X)
        parts = [self._block(X[i : i + rows]) for i in range(0, len(X), rows)]
        return library_of(X).concatenate(parts)

    def _block(self, X: Array) -> Array:
        xp = library_of(X)
        centred = X - self._centre
        size = (centred * centred).sum(1)
        base = size + 2 * (centred @ self._centre)
        squared = (-2 * centred) @ self.exemplars.T
        squared += self._offsets
        nearest = self._group_minimum(squared) + base[:, None]
        doubt = 1e-2 * size + self._rounding * xp.sqrt(size)
        close = xp.amin(nearest, axis=1) < doubt
        if close.any():  # a query all but equal to an exemplar, where float32 cancels too much
            for row, is_close in enumerate(close.tolist()):
                if is_close:
                    whole = squared[row] + base[row]
                    near = whole < doubt[row]
                    offsets = self.exemplars[near] - X[row]
                    whole[near] = (offsets * offsets).sum(1)
                    nearest[row] = self._group_minimum(whole[None])[0]
        return xp.sqrt(nearest.clip(0))

    def _group_minimum(self, squared: Array) -> Array:
        """The smallest of each group of columns, (n, n_groups)."""
        if self._numpy:
            minimum = np.minimum.reduceat(squared, self._starts, axis=1)
            if len(self._starts) == self.n_groups:
                return minimum
            everywhere = np.full((len(squared), self.n_groups), np.inf, squared.dtype)
            everywhere[:, self._present] = minimum
            return everywhere
        infinite = squared.new_full((len(squared), self.n_groups), torch.inf)
        return infinite.scatter_reduce_(1, self.groups.expand_as(squared), squared, "amin")
