"""Which task each class belongs to: given by the caller, or found by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from votestream.io.array_checks import demand

TRIAL = 3  # samples per class after which an unseen class opens a task on trial


class TaskLedger:
    """Keeps a task for every class, and which classes form the current task's block.

    A class belongs to the task in which it first appeared. Where no task is named, an unseen class joins the current
    task while that has had fewer than 3 samples per class. Later it opens a new task, at first on trial: if
    a class from before comes back within `close_after` samples, the stream was still mixing the two, and the
    tasks in between become one again. After `close_after` samples per class a task is closed for good. So
    classes that come one after another, a few samples each, end up in tasks of their own, as they should:
    nothing replays the earlier classes of a task.

    The ledger looks at labels in stream order only, so that its tasks do not depend on how the stream was
    cut into batches. Classes `block_start` and up are the current task's.

    >>> ledger = TaskLedger(close_after=3)
    >>> list(ledger.cut([0, 1, 0, 1, 1, 0, 2]))
    [(0, 6), (6, 7)]
    >>> ledger.task_of_class, ledger.block_start
    ([0, 0, 1], 2)
    """

    def __init__(self, close_after: int) -> None:
        self.close_after = close_after
        self.names: list[str | int | None] = []  # None: found by itself
        self.task_of_class: list[int] = []
        self._named: str | int | None = None
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
    def named(self) -> str | int | None:
        """The task that new classes belong to, where the caller has named it."""
        return self._named

    def begin(self, name: str | int) -> None:
        """From here on, new classes belong to this task."""
        if name != self._named:
            self._named = name
            self._blocks = [[len(self.task_of_class), 0]]

    def cut(self, classes: list[int], named: bool = False) -> Iterator[tuple[int, int]]:
        """Cut the rows (start, end) where the block changes; the ledger stands at the slice just yielded."""
        start, top = 0, max(classes)
        for row, label in enumerate(classes):
            if row % 10 == 0 and top < len(self.task_of_class) and self._is_old():
                self._follow_all(classes[row:])  # nothing left to decide
                break
            new = label == len(self.task_of_class)
            if not named and (self._moves_on() if new else self._comes_back(label)):
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
        return samples >= self.close_after * (len(self.task_of_class) - first) > 0

    def _moves_on(self) -> bool:
        """Whether an unseen class opens a task."""
        first, samples = self._blocks[-1]
        return samples >= TRIAL * (len(self.task_of_class) - first) > 0

    def _comes_back(self, label: int) -> bool:
        recent = self._clock - self._last_seen[label] <= self.close_after
        return recent and self._blocks[0][0] <= label < self.block_start

    def _open(self) -> None:
        final = self._is_old() or self._named is not None
        self._blocks = [*([] if final else self._blocks), [len(self.task_of_class), 0]]
        self._named = None

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
        elif self._named is not None and self._named in self.names:
            task = self.names.index(self._named)
        else:
            task = len(self.names)
            self.names.append(self._named)
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

    def forget(self, label: int) -> None:
        """The class is gone, and later ones count one less; so is its task, where it had no other class."""
        task = self.task_of_class.pop(label)
        del self._last_seen[label]
        if task not in self.task_of_class:
            del self.names[task]
            self.task_of_class = [own - (own > task) for own in self.task_of_class]
        n_classes = len(self.task_of_class)
        blocks = [[first - (first > label), samples] for first, samples in self._blocks]
        ends = [first for first, _ in blocks[1:]] + [n_classes]
        # Of blocks that may yet become one, those without a class are gone; a single one may be empty.
        self._blocks = [block for block, end in zip(blocks, ends, strict=True) if block[0] < end] or [[n_classes, 0]]

    def merge(self, other: TaskLedger, numbers: list[int]) -> None:
        """Tasks of another stream come after these; its class i is class numbers[i] here. No task stays open."""
        places: dict[int, int] = {}
        for label, task, seen in zip(numbers, other.task_of_class, other._last_seen, strict=True):
            if label < len(self.task_of_class):
                continue
            if task not in places:
                name = other.names[task]
                if name is not None and name in self.names:
                    places[task] = self.names.index(name)
                else:
                    places[task] = len(self.names)
                    self.names.append(name)
            self.task_of_class.append(places[task])
            self._last_seen.append(self._clock + seen)
        self._clock += other._clock
        self._named, self._blocks = None, [[len(self.task_of_class), 0]]

    def to_json(self) -> dict[str, Any]:
        """What a file must hold for `restore`."""
        return {
            "close_after": self.close_after,
            "names": self.names,
            "task_of_class": self.task_of_class,
            "named": self._named,
            "clock": self._clock,
            "last_seen": self._last_seen,
            "blocks": self._blocks,
        }

    def restore(self, state: Any, n_classes: int) -> None:
        """Go on from what `to_json` gave, out of a file, which must be what a ledger of so many classes can be in."""
        keys = self.to_json().keys()
        demand(isinstance(state, dict) and state.keys() == keys, "the record of the tasks is incomplete")
        close_after, clock, named = state["close_after"], state["clock"], state["named"]
        names, tasks, seen, blocks = (state[key] for key in ("names", "task_of_class", "last_seen", "blocks"))
        demand(
            _is_count(close_after, 1), f"'close_after' of the tasks must be an integer above 0, got {close_after!r:.60}"
        )
        demand(_is_count(clock), f"the tasks' clock must be an integer, got {clock!r:.60}")
        demand(_are_names([*names, named] if isinstance(names, list) else names), "tasks must have names")
        ordered = _are_counts(tasks, len(names) - 1) and list(dict.fromkeys(tasks)) == list(range(len(names)))
        demand(ordered and len(tasks) == n_classes, "every class must have a task, counted in order of appearance")
        seen_all = _are_counts(seen, clock) and len(seen) == n_classes
        demand(seen_all, "every class must have been seen at some time, and none later than now")
        demand(_are_blocks(blocks, tasks), "the tasks that may yet become one do not fit their classes")
        self.close_after, self.names, self.task_of_class = close_after, names, tasks
        self._named, self._clock, self._last_seen, self._blocks = named, clock, seen, blocks


def _is_count(value: Any, low: int = 0) -> bool:
    return type(value) is int and value >= low


def _are_counts(values: Any, most: int) -> bool:
    return isinstance(values, list) and all(_is_count(value) and value <= most for value in values)


def _are_names(names: Any) -> bool:
    """The tasks' own, then the one named last, which may be among them."""
    if not (isinstance(names, list) and all(name is None or type(name) in (str, int) for name in names)):
        return False
    given = [name for name in names[:-1] if name is not None]
    return len(given) == len(set(given))


def _are_blocks(blocks: Any, tasks: list[int]) -> bool:
    """First class and samples of each, in order; several may only be tasks that are the latest of all."""
    if not (isinstance(blocks, list) and blocks and all(isinstance(block, list) for block in blocks)):
        return False
    if not all(len(block) == 2 and _is_count(block[0]) and _is_count(block[1]) for block in blocks):
        return False
    firsts = [first for first, _ in blocks]
    if len(blocks) == 1:
        found: bool = firsts[0] <= len(tasks)
        return found
    if firsts != sorted(set(firsts)) or firsts[-1] >= len(tasks):
        return False
    start = tasks[firsts[0]]
    ends = [*firsts[1:], len(tasks)]
    latest = [start + number for number, first in enumerate(firsts) for _ in range(first, ends[number])]
    return tasks[firsts[0] :] == latest and all(task < start for task in tasks[: firsts[0]])


def next_task(names: Sequence[str | int | None]) -> str:
    """A name for a task that is given without one: "task 1" and so on; `names` are those of the tasks so far.

    >>> next_task(["Monday", "task 3"])
    'task 4'
    """
    return next(name for n in range(len(names) + 1) if (name := f"task {len(names) + 1 + n}") not in names)
