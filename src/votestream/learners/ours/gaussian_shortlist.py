"""How GaussianVoting predicts among thousands of classes: a cheap ranking of all, densities of those in front."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.compute.place import Place, converted
from votestream.learners.ours.gaussian_predictor import Entry, GaussianPredictor
from votestream.learners.statistics.linear_rule import slices

MANY = 2048  # classes; from here on a shortlist is the faster way
LISTED = 64  # classes on a row's shortlist, and a few more
NEAR = 8.0  # nats; a class no farther behind the first is on the list, too
LONGEST = 4 * LISTED  # a row with a longer list gets the densities of all classes
ROWS = 8192  # that share the work of making a class's directions float32
TOGETHER = 128  # classes whose directions are made float32 at once

Pairs = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]  # rows, classes, their mean parts


@dataclass(frozen=True)
class Shortlist(GaussianPredictor):
    """By the densities of a few classes for each row, on the CPU.

    log p(x) is the mean part -1/2 (|z - m|²/d + log det), which for all classes is one product, plus what the class's own
    directions add, 1/2 |H (z - m)|² >= 0, which costs sixteen such products. So the classes are ranked by the mean part
    and only those in front get the rest. No bound proves that the others cannot win: the one with |H (z - m)| at
    its largest leaves hundreds of classes in 160 dimensions. What it misses was measured (docs/choosing.md).

    Directions are float16, as in memory, and without the rows that are zero; so are the densities of all classes.
    """

    table: NDArray[np.float32]  # (D + 2, C): times (z, |z|², 1) the mean parts
    directions: tuple[NDArray[np.float16], ...]  # H of each class, (r, D)
    across: tuple[NDArray[np.float32], ...]  # H m of each class, (r,)

    @classmethod
    def of(cls, entries: Iterable[Entry], place: Place, **more: Any) -> Shortlist:
        tables: list[NDArray[np.float32]] = []
        directions: list[NDArray[np.float16]] = []
        across: list[NDArray[np.float32]] = []
        for entry in entries:
            tables.append(_columns(entry))
            ends = entry.own.sum(1).cumsum()[:-1]
            directions += np.split(converted(entry.H[entry.own], np.float16), ends)
            across += np.split(entry.across[entry.own], ends)
        table = np.concatenate(tables, axis=1)
        return cls(place=place, table=table, directions=tuple(directions), across=tuple(across), **more)

    def with_classes(self, entries: dict[int, Entry], task_of_class: NDArray[np.int64]) -> Shortlist:
        directions, across = list(self.directions), list(self.across)
        table = np.empty((len(self.table), len(task_of_class)), np.float32)
        table[:, : len(directions)] = self.table
        for number in sorted(entries):
            entry = entries[number]
            table[:, number] = _columns(entry)[:, 0]
            place = slice(number, number + 1)
            directions[place] = [converted(entry.H[entry.own], np.float16)]
            across[place] = [entry.across[entry.own]]
        own = tuple(directions), tuple(across)
        return replace(self, task_of_class=task_of_class, table=table, directions=own[0], across=own[1])

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self._decide(X[start : start + ROWS]) for start in range(0, len(X), ROWS)])

    def _decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        A, chosen = self._augmented(self._transformed(X)), np.full(len(X), -1)
        rows, classes, scores = self._shortlists(A)
        if len(rows):
            scores += self._added(np.ascontiguousarray(A[:, :-2]), rows, classes)
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            best = np.maximum.reduceat(scores, starts).repeat(np.diff(starts, append=len(rows)))
            leading = np.flatnonzero(scores == best)[::-1]  # of equal ones the first class is written last, and stays
            chosen[rows[leading]] = classes[leading]
        for without in slices(np.flatnonzero(chosen < 0), len(self.directions)):
            chosen[without] = self._log_densities(A[without]).argmax(1)
        return chosen

    def _shortlists(self, A: NDArray[np.float32]) -> Pairs:
        """The classes on each row's list, row by row; none of a row whose list is too long.

        The classes are in groups, of which the best is found; then at least LISTED classes are as good as the group that is
        LISTED-best. That is far less work than a partition of all classes.
        """
        found, n_classes, done = [], len(self.directions), 0
        for some in slices(A, 4 * n_classes):
            scores = some @ self.table
            best = scores[:, : n_classes // LONGEST * LONGEST].reshape(len(some), -1, LONGEST).max(1)
            least = np.minimum(np.partition(best, -LISTED, axis=1)[:, -LISTED], best.max(1) - np.float32(NEAR))
            listed = scores >= least[:, None]
            listed[np.count_nonzero(listed, axis=1) > LONGEST] = False
            places = np.flatnonzero(listed)
            rows, classes = np.divmod(places, n_classes)
            found.append(((rows + done).astype(np.int32), classes.astype(np.int32), scores.reshape(-1)[places]))
            done += len(some)
        rows, classes, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, classes, scores

    def _added(
        self, Z: NDArray[np.float32], rows: NDArray[np.int32], classes: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """What their own directions add to the classes' mean parts, pair by pair."""
        order = classes.argsort(kind="stable")
        rows, classes = rows[order], classes[order]
        starts = np.flatnonzero(np.diff(classes, prepend=-1))
        ends, along = [*starts[1:].tolist(), len(rows)], np.empty(len(rows), np.float32)
        for start, end, own in zip(starts.tolist(), ends, self._own(classes[starts].tolist()), strict=True):
            along[start:end] = _added(Z.take(rows[start:end], axis=0), *own)
        added = np.empty_like(along)
        added[order] = along
        return added

    def _own(self, classes: Sequence[int]) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """H, in float32, and H m of these classes, one by one."""
        for first in range(0, len(classes), TOGETHER):
            some = classes[first : first + TOGETHER]
            H = converted(np.concatenate([self.directions[number] for number in some]), np.float32)
            end = 0
            for number in some:
                across = self.across[number]
                start, end = end, end + len(across)
                yield H[start:end], across

    def log_densities(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._log_densities(self._augmented(X))

    def _log_densities(self, A: NDArray[np.float32]) -> NDArray[np.float32]:
        log, Z = A @ self.table, np.ascontiguousarray(A[:, :-2])
        for number, own in enumerate(self._own(range(len(self.directions)))):
            log[:, number] += _added(Z, *own)
        return log

    def _slices(self, X: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        for rows in slices(X, len(self.directions)):
            log, chosen = self.log_densities(self._transformed(rows)), self.decide(rows)
            log[np.arange(len(log)), chosen] = np.nextafter(log.max(1), np.float32(np.inf))
            yield log

    def _augmented(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """(z, |z|², 1) of transformed rows."""
        Z, size = self._whitened(X)
        return np.concatenate((Z, size, np.ones_like(size)), axis=1)


def _columns(entry: Entry) -> NDArray[np.float32]:
    """(D + 2, k) of the table."""
    return np.concatenate((entry.means.T, -0.5 * entry.narrow[None], -0.5 * entry.bias[None]))


def _added(Z: NDArray[np.float32], H: NDArray[np.float32], across: NDArray[np.float32]) -> NDArray[np.float32]:
    """1/2 |H (z - m)|² of each row, (n,)."""
    along = Z @ H.T
    along -= across
    return np.float32(0.5) * np.einsum("nr,nr->n", along, along)
