"""The labels and tasks of a learner's classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.guard import Guarded, Naming, learned
from votestream.core.tasks import TaskLedger


class Labelled(Guarded):
    """The part of `Learner` that knows its classes by name, and which task each is of."""

    _index: dict[str | int, int]
    _tasks: TaskLedger

    @learned
    def classes_(self) -> NDArray[Any]:
        """Every label met, sorted; numbers before strings where they mix."""
        return self._naming().sorted

    @learned
    def classes_seen_(self) -> NDArray[Any]:
        """Every label met, in order of first appearance."""
        return self._naming().seen.copy()

    @learned
    def task_of_class_(self) -> NDArray[np.int64]:
        """The task of each class, counted from 0, as `classes_`."""
        return self._sorted(self._task_numbers())

    @learned
    def tasks_(self) -> list[str | int | None]:
        """The name of each task; None where it was found by itself."""
        return list(self._tasks.names)

    def _task_numbers(self) -> NDArray[np.int64]:
        """The task of each class number."""
        return np.array(self._tasks.task_of_class, np.int64)

    def _sorted(self, table: NDArray[Any]) -> NDArray[Any]:
        """A copy of an array that has a row for each class number, with rows as in `classes_`."""
        return table[self._naming().order]

    def _naming(self) -> Naming:
        """The labels so far; under the lock."""
        naming = self._guard.naming
        if naming is None or len(naming.seen) != len(self._index):
            naming = self._guard.naming = Naming.of(list(self._index))
        return naming
