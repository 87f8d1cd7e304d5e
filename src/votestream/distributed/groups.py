"""Neighbouring chunks go to a worker together, where their parts are large or the driver cannot keep up with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

from votestream.distributed.chunks import Chunk

MOST = 16  # chunks of a group: the last group of a job keeps one worker busy while the others have nothing to do


class Groups:
    """Chunks one by one, and after `grow` by 2, 4, up to 16; a worker sends back one part for all of them.

    A group is a whole branch of the merge tree, so the model is the same whoever merges it.

    >>> groups = Groups([Chunk(i, [], []) for i in range(7)])
    >>> drawn = iter(groups)
    >>> len(next(drawn)), groups.grow(), len(next(drawn)), len(next(drawn)), groups.branch(2)
    (1, None, 1, 2, (1, 1))
    """

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks, self._size, self._wanted = iter(chunks), 1, 1
        self._branches: dict[int, tuple[int, int]] = {}  # of groups that are drawn and not yet back

    def __iter__(self) -> Iterator[list[Chunk]]:
        drawn = 0
        for number in count():
            if self._wanted > self._size and drawn % (2 * self._size) == 0:
                self._size *= 2
            group = list(islice(self._chunks, self._size))
            if not group:
                return
            self._branches[number] = self._size.bit_length() - 1, drawn // self._size
            drawn += len(group)
            yield group

    def grow(self, beyond: int | None = None) -> None:
        """Make groups twice as large as they are, or as those of a level of the tree, from the next whole branch on."""
        size = self._size if beyond is None else 1 << beyond
        self._wanted = max(self._wanted, min(2 * size, MOST))

    def branch(self, number: int) -> tuple[int, int]:
        """Level and place in the tree of a group that is back."""
        return self._branches.pop(number)
