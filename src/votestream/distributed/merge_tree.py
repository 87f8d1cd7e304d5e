"""Parts become one along a fixed tree, in whatever order they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class MergeTree(Generic[T]):
    """Merges part 2k with part 2k + 1, what comes of them with its neighbour, and so on.

    Which parts are merged with which depends on their numbers alone, and so does the result, to the last bit. Of n
    parts that come in order about log2(n) are held at a time; each that is late can add as many.

    >>> tree = MergeTree(lambda left, right: f"({left}{right})")
    >>> for number in (2, 0, 4, 1, 3):
    ...     tree.add(number, str(number))
    >>> tree.result()
    '(((01)(23))4)'
    """

    def __init__(self, merge: Callable[[T, T], T]) -> None:
        self._merge = merge
        self._nodes: dict[tuple[int, int], T | None] = {}  # by level and place; None where nothing was learned

    def add(self, number: int, part: T | None, level: int = 0) -> None:
        """The part of that number; every number from 0 on comes once.

        Above level 0 it is what 2 ** level parts were merged to, by a tree like this, or the last of them, if they are
        fewer.
        """
        place = number
        while (level, place ^ 1) in self._nodes:
            other = self._nodes.pop((level, place ^ 1))
            part = self._both(part, other) if place % 2 == 0 else self._both(other, part)
            level, place = level + 1, place // 2
        self._nodes[level, place] = part

    def result(self) -> T | None:
        """All of them, once every part is there; None where nothing was learned."""
        whole: T | None = None
        for level, place in sorted(self._nodes, key=lambda node: -(node[1] << node[0])):  # the last first
            whole = self._both(self._nodes[level, place], whole)
        return whole

    def __len__(self) -> int:
        """Parts held."""
        return len(self._nodes)

    def _both(self, left: T | None, right: T | None) -> T | None:
        if left is None or right is None:
            return right if left is None else left
        return self._merge(left, right)
