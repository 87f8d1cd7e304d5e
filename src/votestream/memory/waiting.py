"""Images of a task that is not over yet, waiting for the learners that go over a whole task many times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import check_all_met, demand, take, take_classes


class Waiting:
    """Rows in order of arrival, each with its class and the block (the first class of the task) it came in.

    >>> waiting = Waiting(width=1)
    >>> waiting.add(np.array([[7], [8]], np.uint8), np.array([0, 1]), block=0)
    >>> waiting.add(np.array([[9]], np.uint8), np.array([2]), block=2)
    >>> [(rows.tolist(), classes.tolist()) for rows, classes in waiting.tasks()]
    [([[7], [8]], [0, 1]), ([[9]], [2])]
    >>> waiting.drop(before=2)
    >>> len(waiting), waiting.blocks
    (1, {2})
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[tuple[NDArray[np.uint8], NDArray[np.int64], int]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def blocks(self) -> set[int]:
        return {block for _, _, block in self._parts}

    def add(self, rows: NDArray[np.uint8], classes: NDArray[np.int64], block: int) -> None:
        """Rows of one block; those waiting in later ones turn out to belong to it too."""
        if self._parts and self._parts[-1][2] > block:
            self._parts = [(*part, min(own, block)) for *part, own in self._parts]  # type: ignore[misc]
        self._parts.append((rows.copy(), classes.copy(), block))
        self._size += len(rows)

    def tasks(self, before: int | None = None) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Rows and classes, block by block; only of blocks below `before`, if given."""
        wanted = sorted(block for block in self.blocks if before is None or block < before)
        found = [[part for part in self._parts if part[2] == block] for block in wanted]
        return [(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])) for parts in found]

    def drop(self, before: int | None = None) -> None:
        """Forget everything, or the blocks below `before`."""
        self._parts = [part for part in self._parts if before is not None and part[2] >= before]
        self._size = sum(len(rows) for rows, _, _ in self._parts)

    def state(self) -> dict[str, NDArray[Any]]:
        rows = [np.empty((0, self._width), np.uint8), *(part[0] for part in self._parts)]
        classes = [np.empty(0, np.int64), *(part[1] for part in self._parts)]
        blocks = np.repeat([part[2] for part in self._parts], [len(part[0]) for part in self._parts])
        return {
            "rows": np.concatenate(rows),
            "classes": np.concatenate(classes),
            "blocks": blocks.astype(np.int64),
        }

    def restore(self, state: dict[str, NDArray[Any]], known: int, n_classes: int) -> None:
        """`known` classes have been learned; the others up to `n_classes` must have rows that wait."""
        classes = take_classes(state, "classes", None, n_classes)
        check_all_met(classes, known, n_classes)
        rows = take(state, "rows", np.uint8, (len(classes), self._width))
        blocks = take(state, "blocks", np.int64, (len(classes),), high=n_classes)
        demand(bool((np.diff(blocks) >= 0).all()), "rows that wait are not in the order of their tasks")
        self.drop()
        ends = [*(np.flatnonzero(np.diff(blocks)) + 1), len(blocks)] if len(blocks) else []
        for start, end in zip([0, *ends], ends, strict=False):
            self.add(rows[start:end], classes[start:end], int(blocks[start]))
