"""Rows that wait until a block of the stream is full, so that statistics grow by one product a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import check_all_met, demand, take, take_classes
from votestream.memory.statistics import capacity, extended

Block = tuple[NDArray[np.float32], NDArray[np.int64]]


class Pending:
    """Cuts the stream into blocks of `block` rows, however the caller cut it into batches.

    Blocks end at fixed places of the stream, so whatever is computed block by block comes out the same, bit
    for bit, whatever the batch size. `add` must be iterated to its end: a block is to be used before the
    next is asked for, since its memory may be used again. Whole blocks of a large call are views of it.

    >>> pending = Pending(width=1, block=2)
    >>> [rows.tolist() for rows, _ in pending.add(np.array([[1.0]], np.float32), np.array([0]))]
    []
    >>> X = np.array([[2.0], [3.0], [4.0], [5.0]], np.float32)
    >>> [(rows.tolist(), classes.tolist()) for rows, classes in pending.add(X, np.array([0, 1, 1, 0]))]
    [([[1.0], [2.0]], [0, 0]), ([[3.0], [4.0]], [1, 1])]
    >>> pending.rows.tolist(), pending.classes.tolist()
    ([[5.0]], [0])
    """

    def __init__(self, width: int, block: int = 256) -> None:
        self._block = block
        self._rows = np.empty((0, width), np.float32)
        self._classes = np.empty(0, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @staticmethod
    def bytes_a_row(width: int) -> int:
        return 4 * width + 8

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> Iterator[Block]:
        """Take in the rows and hand on the blocks that are now full, in stream order."""
        start, n, block = 0, len(X), self._block
        if self._size:
            start = min(n, block - self._size)
            self._keep(X[:start], classes[:start])
            if self._size < block:
                return
            self._size = 0
            yield self._rows, self._classes
        while n - start >= block:
            yield X[start : start + block], classes[start : start + block]
            start += block
        self._keep(X[start:], classes[start:])

    def _keep(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        end = self._size + len(X)
        if end > len(self._rows):
            room = capacity(end, len(self._rows), self._block)
            self._rows, self._classes = extended(self._rows, room), extended(self._classes, room)
        self._rows[self._size : end] = X
        self._classes[self._size : end] = classes
        self._size = end

    @property
    def rows(self) -> NDArray[np.float32]:
        """What waits: a view."""
        return self._rows[: self._size]

    @property
    def classes(self) -> NDArray[np.int64]:
        return self._classes[: self._size]

    def forget(self, label: int) -> None:
        """Rows of the class wait no more, and later classes count one less."""
        kept = self.classes != label
        rows, classes = self.rows[kept], self.classes[kept]
        self._rows[:], self._size = 0, 0
        self._keep(rows, classes - (classes > label))

    def drop(self) -> None:
        """No row waits."""
        self._rows[:], self._size = 0, 0

    def state(self) -> dict[str, NDArray[Any]]:
        return {"rows": self.rows, "classes": self.classes}

    def restore(self, state: dict[str, NDArray[Any]], merged: int, n_classes: int) -> None:
        """`merged` classes have rows that wait no more; the others up to `n_classes` must have some that do."""
        classes = take_classes(state, "classes", None, n_classes)
        demand(len(classes) < self._block, f"{len(classes)} rows wait, but a block has {self._block}")
        check_all_met(classes, merged, n_classes)
        self._rows = take(state, "rows", np.float32, (len(classes), self._rows.shape[1]))
        self._classes, self._size = classes, len(classes)
