"""Which task each class belongs to, told or found by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

RUN = 8  # repeats without any return after which a stream counts as coming class by class


class TaskLedger:
    """Keeps a task for every class, and which classes form the current task's block.

    A class belongs to the task in which it first appeared. Untold, an unseen class joins the current
    task while that is young: fewer than `young` samples per class so far. A task also stops being young
    when its classes came one after another, each in a run and none coming back: then the stream has
    moved on from them. The ledger looks at labels in stream order only, so that its tasks do not depend
    on how the stream was cut into batches. Classes `block_start` and up are the current task's.

    >>> ledger = TaskLedger(young=3)
    >>> list(ledger.cut([0, 1, 0, 1, 1, 0, 2]))
    [(0, 6), (6, 7)]
    >>> ledger.task_of_class, ledger.block_start
    ([0, 0, 1], 2)
    """

    def __init__(self, young: int) -> None:
        self.young = young
        self.names: list[str | int | None] = []  # None: found by itself
        self.task_of_class: list[int] = []
        self._told: str | int | None = None
        self._begin()

    def _begin(self) -> None:
        self.block_start = len(self.task_of_class)
        self._current: int | None = None  # a task gets its number with its first class
        self._samples = 0
        self._repeats = 0
        self._mixed = False
        self._last = -1

    def tell(self, name: str | int) -> None:
        """From here on, new classes belong to this task."""
        if name != self._told:
            self._told = name
            self._begin()

    def cut(self, classes: list[int], told: bool = False) -> Iterator[tuple[int, int]]:
        """Cut the rows (start, end) where a task begins; the ledger stands at the slice just yielded."""
        start = 0
        for row, label in enumerate(classes):
            if label == len(self.task_of_class):
                if not told and not self._is_young():
                    if row > start:
                        yield start, row
                    start = row
                    self._told = None
                    self._begin()
                self._add_class()
            elif label == self._last:
                self._repeats += 1
            elif label >= self.block_start:
                self._mixed = True
            if label >= self.block_start:
                self._samples += 1
                self._last = label
        yield start, len(classes)

    def _is_young(self) -> bool:
        n = len(self.task_of_class) - self.block_start
        in_runs = n > 1 and not self._mixed and self._repeats >= RUN
        return n == 0 or (self._samples < self.young * n and not in_runs)

    def _add_class(self) -> None:
        if self._current is None:
            if self._told is not None and self._told in self.names:
                self._current = self.names.index(self._told)
            else:
                self._current = len(self.names)
                self.names.append(self._told)
        self.task_of_class.append(self._current)

    def state(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
