"""How GaussianVoting predicts among thousands of classes: a cheap ranking of all, densities of those in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.compute.place import Place, converted, one_thread, stacked
from votestream.learners.ours.gaussian_predictor import Densities, Entry, GaussianPredictor, Shared, runs
from votestream.learners.statistics.linear_rule import slices

LISTED = 96  # classes on a row's shortlist, or a few more
NEAR, FAR = np.float32(8), np.float32(40)  # nats behind the first class: nearer ones are always listed, farther never
LONGEST = 4 * LISTED  # a row with a longer list gets the densities of all classes
ROWS = 4096  # that share the work of making a class's directions float32
FEW = 16  # rows up to which their classes are worked off together
TOGETHER = 64  # classes that are prepared, or made float32, at once

Pairs = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]  # rows, classes, their mean parts


@dataclass(frozen=True)
class Shortlist(GaussianPredictor):
    """By the densities of a few classes for each row, on the CPU.

    log p(x) is the mean part -1/2 (|z - m|²/d + log det), which takes one product for all classes, plus what the
    class's own directions add, 1/2 |H (z - m)|² >= 0, which takes as many products as there are directions. So
    classes are ranked by the mean part, and only those in front get the rest. No bound proves that the others cannot
    win: the largest that |H (z - m)| can be leaves hundreds of classes in 160 dimensions. What the list misses was
    measured instead, less than one row in a thousand (docs/choosing.md).

    Directions are float16, as in memory, and those that add nothing are left out.
    """

    table: NDArray[np.float32]  # (D + 2, C): times (z, |z|², 1) the mean parts
    directions: tuple[NDArray[np.float16], ...]  # H of each class, (r, D)
    across: tuple[NDArray[np.float32], ...]  # H m of each class, (r,)

    @staticmethod
    def suits(n_classes: int, place: Place) -> bool:
        return not Densities.suits(n_classes, place)

    @classmethod
    def of(cls, n_classes: int, entry: Callable[[range], Entry], shared: Shared, **more: Any) -> Shortlist:
        """From a function that prepares some of the classes, which two threads call.

        All directions go to one array: many that come between others that go would leave holes in memory.
        """
        width, most, ends = len(shared.centre), n_classes * shared.rank, [0]
        table = np.empty((width + 2, n_classes), np.float32)
        H, across = np.empty((most, width), np.float16), np.empty(most, np.float32)
        with ThreadPoolExecutor(2) as pool:
            for some in runs(n_classes, 4 * TOGETHER):
                parts = [some[i : i + TOGETHER] for i in range(0, len(some), TOGETHER)]
                for own, part in zip(parts, pool.map(entry, parts), strict=True):
                    table[:, own.start : own.stop] = _columns(part)
                    used = slice(ends[-1], ends[-1] + int(part.used.sum()))
                    H[used], across[used] = _directions(part)
                    ends += (ends[-1] + part.used.sum(1).cumsum()).tolist()
        H.resize((ends[-1], width), refcheck=False)  # gives back what classes of few directions left free
        spans = [slice(start, end) for start, end in pairwise(ends)]
        directions, along = tuple(H[span] for span in spans), tuple(across[span] for span in spans)
        return cls(table=table, directions=directions, across=along, shared=shared, **more)

    def with_classes(self, entries: dict[int, Entry], task_of_class: NDArray[np.int64]) -> Shortlist:
        table = np.empty((len(self.table), len(task_of_class)), np.float32)
        table[:, : len(self.directions)] = self.table
        directions, across = list(self.directions), list(self.across)
        for number in sorted(entries):
            table[:, number] = _columns(entries[number])[:, 0]
            H, H_m = _directions(entries[number])
            directions[number : number + 1], across[number : number + 1] = [H], [H_m]
        return replace(
            self, task_of_class=task_of_class, table=table, directions=tuple(directions), across=tuple(across)
        )

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self._decide(X[start : start + ROWS]) for start in range(0, len(X), ROWS)])

    def _decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        Z, size = self._whitened(self._transformed(X))
        rows, classes, scores = self._shortlists(Z, size)
        chosen = np.full(len(X), -1)
        if len(rows):
            with one_thread():  # many small products
                scores += self._added(Z, rows, classes)
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            best = np.maximum.reduceat(scores, starts).repeat(np.diff(starts, append=len(rows)))
            leading = np.flatnonzero(scores == best)[::-1]  # of equal ones the first class is written last, and stays
            chosen[rows[leading]] = classes[leading]
        for without in slices(np.flatnonzero(chosen < 0), len(self.directions)):
            chosen[without] = self._log_densities(Z[without], size[without]).argmax(1)
        return chosen

    def _shortlists(self, Z: NDArray[np.float32], size: NDArray[np.float32]) -> Pairs:
        """The classes on each row's list, row by row; none of a row whose list is too long."""
        parts = slices(np.arange(len(Z), dtype=np.int32), 4 * len(self.directions))
        found = [self._listed(some, Z[some], size[some]) for some in parts]
        rows, classes, scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return rows, classes, scores

    def _listed(self, numbers: NDArray[np.int32], Z: NDArray[np.float32], size: NDArray[np.float32]) -> Pairs:
        """The same for a few rows of these numbers.

        Classes stand in groups, and the best of each is found: at least LISTED classes are as good as the group that is
        LISTED-best. That is far less work than a partition of all classes.
        """
        scores, n_classes = self._mean_parts(Z, size), len(self.directions)
        best = scores[:, : n_classes // LONGEST * LONGEST].reshape(len(Z), -1, LONGEST).max(1)
        first = best.max(1)
        least = np.partition(best, -LISTED, axis=1)[:, -LISTED].clip(first - FAR, first - NEAR)
        listed = scores >= least[:, None]
        listed[np.count_nonzero(listed, axis=1) > LONGEST] = False
        places = np.flatnonzero(listed)
        rows, classes = np.divmod(places, n_classes)
        return numbers[rows], classes.astype(np.int32), scores.reshape(-1)[places]

    def _mean_parts(self, Z: NDArray[np.float32], size: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.concatenate((Z, size, np.ones_like(size)), axis=1) @ self.table

    def _added(
        self, Z: NDArray[np.float32], rows: NDArray[np.int32], classes: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """What their own directions add to the classes' mean parts, pair by pair."""
        if len(Z) <= FEW:
            present, places = np.unique(classes, return_inverse=True)
            return np.concatenate(list(self._added_by(Z, present.tolist())), axis=1)[rows, places]
        order = classes.argsort(kind="stable")
        rows, added = rows[order], np.empty(len(rows), np.float32)
        starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
        present, ends = classes[order[starts]].tolist(), [*starts[1:].tolist(), len(rows)]
        for some, H, across in self._own(present):
            first = start = int(starts[some.start])
            along = np.empty((ends[some.stop - 1] - first, across.shape[1]), np.float32)
            for own, end in zip(H, ends[some.start : some.stop], strict=True):
                np.matmul(Z.take(rows[start:end], axis=0), own.T, out=along[start - first : end - first])
                start = end
            along -= across.repeat(np.diff(starts[some.start : some.stop], append=start), axis=0)
            added[order[first:start]] = np.float32(0.5) * np.einsum("nr,nr->n", along, along)
        return added

    def _added_by(self, Z: NDArray[np.float32], classes: Sequence[int]) -> Iterator[NDArray[np.float32]]:
        """What the directions of some of these classes at a time add for all rows, (n, k)."""
        for some, H, across in self._own(classes):
            along = (Z @ H.reshape(-1, Z.shape[1]).T).reshape(len(Z), len(some), -1)
            along -= across
            yield np.float32(0.5) * np.einsum("nkr,nkr->nk", along, along)

    def _own(self, classes: Sequence[int]) -> Iterator[tuple[range, NDArray[np.float32], NDArray[np.float32]]]:
        """Some of these classes at a time: which, H in float32 (k, r, D), and H m (k, r), filled up with zeros."""
        for some in runs(len(classes), TOGETHER):
            across = [self.across[classes[i]] for i in some]
            rank = max(map(len, across))
            yield some, stacked([self.directions[classes[i]] for i in some], rank), stacked(across, rank)

    def log_densities(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._log_densities(*self._whitened(X))

    def _log_densities(self, Z: NDArray[np.float32], size: NDArray[np.float32]) -> NDArray[np.float32]:
        log, done = self._mean_parts(Z, size), 0
        for added in self._added_by(Z, range(len(self.directions))):
            log[:, done : done + added.shape[1]] += added
            done += added.shape[1]
        return log

    def _slices(self, X: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        for rows in slices(X, len(self.directions)):
            log, chosen = self.log_densities(self._transformed(rows)), self.decide(rows)
            log[np.arange(len(log)), chosen] = np.nextafter(log.max(1), np.float32(np.inf))
            yield log

    def narrow(self) -> NDArray[np.float32]:
        narrow: NDArray[np.float32] = -2 * self.table[-2]
        return narrow

    def _tables(self) -> dict[str, NDArray[Any]]:
        rank, (width, n_classes) = max(map(len, self.across)), (len(self.table) - 2, len(self.across))
        directions, across = np.zeros((n_classes, rank, width), np.float16), np.zeros((n_classes, rank), np.float32)
        for number, (H, H_m) in enumerate(zip(self.directions, self.across, strict=True)):
            directions[number, : len(H)], across[number, : len(H)] = H, H_m
        flat = np.ascontiguousarray(directions.reshape(-1, width).T)
        narrow, bias = -2 * self.table[-2:]
        return {"means": self.table[:-2], "narrow": narrow, "bias": bias, "directions": flat, "across": across}


def _columns(entry: Entry) -> NDArray[np.float32]:
    """(D + 2, k) of the table."""
    return np.concatenate((entry.means.T, -0.5 * entry.narrow[None], -0.5 * entry.bias[None]))


def _directions(entry: Entry) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """H and H m of all classes of an entry, class by class, where H is not zero."""
    return converted(entry.H[entry.used], np.float16), entry.across[entry.used]
