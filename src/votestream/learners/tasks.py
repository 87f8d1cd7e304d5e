"""Which task each class belongs to, told or found by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TRIAL = 3  # samples per class after which an unseen class opens a task on trial


class TaskLedger:
    """Keeps a task for every class, and which classes form the current task's block.

    A class belongs to the task in which it first appeared. Untold, an unseen class joins the current
    task while that has had fewer than 3 samples per class. Later it opens a new task, at first on trial: if
    a class from before comes back within `young` samples, the stream was still mixing the two, and the
    tasks in between become one again. After `young` samples per class a task is closed for good. So
    classes that come one after another, a few samples each, end up in tasks of their own, as they should:
    nothing replays the earlier classes of a task.

    The ledger looks at labels in stream order only, so that its tasks do not depend on how the stream was
    cut into batches. Classes `block_start` and up are the current task's.

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
        self._clock = 0
        self._last_seen: list[int] = []
        self._blocks: list[list[int]] = [[0, 0]]  # first class and samples of blocks that may yet be one

    @property
    def block_start(self) -> int:
        return self._blocks[-1][0]

    @property
    def settled(self) -> int:
        """Classes below it are of tasks closed for good; tasks from it on may yet become one."""
        return self._blocks[0][0]

    @property
    def told(self) -> str | int | None:
        """The task that new classes belong to, where it was told."""
        return self._told

    def tell(self, name: str | int) -> None:
        """From here on, new classes belong to this task."""
        if name != self._told:
            self._told = name
            self._blocks = [[len(self.task_of_class), 0]]

    def cut(self, classes: list[int], told: bool = False) -> Iterator[tuple[int, int]]:
        """Cut the rows (start, end) where the block changes; the ledger stands at the slice just yielded."""
        start, top = 0, max(classes)
        for row, label in enumerate(classes):
            if row % 10 == 0 and top < len(self.task_of_class) and self._is_old():
                self._follow_all(classes[row:])  # nothing left to decide
                break
            new = label == len(self.task_of_class)
            if not told and (self._moves_on() if new else self._comes_back(label)):
                if row > start:
                    yield start, row
                    start = row
                if new:
                    self._open()
                else:
                    self._reunite(label)
            if new:
                self._add_class()
            self._follow(label)
        yield start, len(classes)

    def _is_old(self) -> bool:
        first, samples = self._blocks[-1]
        return samples >= self.young * (len(self.task_of_class) - first) > 0

    def _moves_on(self) -> bool:
        """Whether an unseen class opens a task."""
        first, samples = self._blocks[-1]
        return samples >= TRIAL * (len(self.task_of_class) - first) > 0

    def _comes_back(self, label: int) -> bool:
        recent = self._clock - self._last_seen[label] <= self.young
        return recent and self._blocks[0][0] <= label < self.block_start

    def _open(self) -> None:
        final = self._is_old() or self._told is not None
        self._blocks = [*([] if final else self._blocks), [len(self.task_of_class), 0]]
        self._told = None

    def _reunite(self, label: int) -> None:
        """All blocks from the label's on become one."""
        while self._blocks[-1][0] > label:
            _, samples = self._blocks.pop()
            self._blocks[-1][1] += samples
        task = self.task_of_class[self.block_start]
        self.task_of_class[self.block_start :] = [task] * (len(self.task_of_class) - self.block_start)
        del self.names[task + 1 :]

    def _add_class(self) -> None:
        if self.block_start < len(self.task_of_class):
            task = self.task_of_class[-1]
        elif self._told is not None and self._told in self.names:
            task = self.names.index(self._told)
        else:
            task = len(self.names)
            self.names.append(self._told)
        self.task_of_class.append(task)
        self._last_seen.append(self._clock)

    def _follow(self, label: int) -> None:
        self._clock += 1
        self._last_seen[label] = self._clock
        if label >= self.block_start:
            self._blocks[-1][1] += 1

    def _follow_all(self, classes: list[int]) -> None:
        for label, row in dict(zip(classes, range(len(classes)), strict=True)).items():  # its last row
            self._last_seen[label] = self._clock + row + 1
        self._clock += len(classes)
        self._blocks[-1][1] += sum(map(self.block_start.__le__, classes))

    def state(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
