"""Asking about the same samples after each task, without measuring again what is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 21  # distances measured at once


class NearestCache:
    """Distances from known queries to the nearest exemplar of each group, asked for again as exemplars change.

    Remembers which exemplar was nearest. As long as that one is kept, only exemplars that came since can be nearer; so
    what is measured is the new exemplars, and all of a group's for queries that lost their nearest or are new.
    Exemplars are known by when they arrived, a number that no two share.

    >>> X = np.array([[0.0], [10.0]], np.float32)
    >>> near, rows = NearestCache(X), np.arange(2)
    >>> near.distances(rows, np.array([[1.0], [8.0]], np.float32), np.array([0, 1]), np.array([0, 0]), 1).tolist()
    [[1.0], [2.0]]
    >>> near.distances(rows, np.array([[1.0], [4.0]], np.float32), np.array([0, 2]), np.array([0, 1]), 2).tolist()
    [[1.0, 4.0], [9.0, 6.0]]
    """

    def __init__(self, X: NDArray[np.float32]) -> None:
        self._X = X
        self._nearest = np.full((len(X), 0), -1)  # arrival of the nearest exemplar; -1 where there is none
        self._distance = np.full((len(X), 0), np.inf, np.float32)
        self._latest = np.full(len(X), -1)  # the last arrival that each query has been held against

    def distances(
        self,
        rows: NDArray[np.intp],
        items: NDArray[np.float32],
        arrivals: NDArray[np.int64],
        groups: NDArray[np.int64],
        n_groups: int,
    ) -> NDArray[np.float32]:
        """(rows, n_groups); infinite where a group has no exemplar."""
        more = n_groups - self._nearest.shape[1]
        self._nearest = np.pad(self._nearest, ((0, 0), (0, more)), constant_values=-1)
        self._distance = np.pad(self._distance, ((0, 0), (0, more)), constant_values=np.inf)
        kept = np.zeros(max(arrivals.max(), self._nearest.max()) + 2, bool)  # the last: no exemplar, always lost
        kept[arrivals] = True
        latest = self._latest[rows]
        for group in range(n_groups):
            members = np.flatnonzero(groups == group)
            lost = ~kept[self._nearest[rows, group]]
            self._distance[rows[lost], group] = np.inf
            self._measure(rows[lost], group, items, arrivals, members)
            for since in np.unique(latest[~lost]):
                came = members[arrivals[members] > since]
                self._measure(rows[~lost & (latest == since)], group, items, arrivals, came)
        self._latest[rows] = arrivals.max()
        return self._distance[rows]

    def _measure(
        self,
        rows: NDArray[np.intp],
        group: int,
        items: NDArray[np.float32],
        arrivals: NDArray[np.int64],
        members: NDArray[np.intp],
    ) -> None:
        """Hold queries against some exemplars of a group."""
        if not (len(rows) and len(members)):
            return
        exemplars = items[members]
        middle = exemplars.mean(0)  # terms as small as the result, so that float32 does
        offsets = exemplars - middle
        lengths = np.einsum("ij,ij->i", offsets, offsets)
        step = max(1, PIECE // len(members))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            queries = self._X[part]
            squared = (-2 * (queries - middle)) @ offsets.T
            squared += lengths
            best = squared.argmin(1)
            apart = queries - exemplars[best]
            distance = np.sqrt(np.einsum("ij,ij->i", apart, apart))
            nearer = distance < self._distance[part, group]
            self._distance[part[nearer], group] = distance[nearer]
            self._nearest[part[nearer], group] = arrivals[members[best[nearer]]]
