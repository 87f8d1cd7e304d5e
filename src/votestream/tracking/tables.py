"""Tables with a row for every class, whose size follows from the number of classes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.memory.statistics import extended

ROOM = 8  # classes that there is room for at first; then a quarter more at a time


def room_for(n_classes: int) -> int:
    """Rows that a table of so many classes has.

    It depends on nothing else, so that a budget in bytes can count with it and a loaded model takes as much.

    >>> [room_for(n) for n in (0, 1, 9, 100)]
    [0, 8, 10, 121]
    """
    room = ROOM if n_classes else 0
    while room < n_classes:
        room += room // 4
    return room


def of_rows(rows: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
    """A table of the same kind that holds these rows."""
    return extended(rows.astype(table.dtype, copy=False), room_for(len(rows)))


def without(table: NDArray[Any], number: int, n_classes: int) -> NDArray[Any]:
    """The table of so many classes less one."""
    return of_rows(np.delete(table[:n_classes], number, axis=0), table)


def grown(table: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The table with room for so many classes, new rows zero; the same table where it has it."""
    room = room_for(n_classes)
    return table if room <= len(table) else extended(table, room)
