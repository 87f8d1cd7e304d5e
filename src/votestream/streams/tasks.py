"""`Stream` and `Task`: which samples arrive when."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from votestream.images.class_folders import some
from votestream.streams.data_set import DataError, DataSet, take
from votestream.streams.image_files import ImageFiles

ORDER = 200  # classes named by `print`, as many as the largest benchmark has; folders may have thousands


@dataclass(frozen=True)
class Stream:
    """Tasks in their order, each a run of mini-batches; every sample of the plan arrives exactly once.

    The same stream can be gone through again, and is the same each time. `print` shows it with its class order.

    Example:
        >>> from votestream.streams import stream_from
        >>> stream = stream_from(np.arange(8.0)[:, None], list("aabbccdd"), tasks=2, seed=2, batch=3)
        >>> print(stream)
        arrays: 2 tasks, 4 classes, 8 samples in batches of 3, seed 2
        class order: d, c, a, b
        >>> [(task.name, task.classes, len(task)) for task in stream]
        [('task 1', ['d', 'c'], 2), ('task 2', ['a', 'b'], 2)]
    """

    name: str
    data: DataSet = field(repr=False)
    plan: tuple[np.ndarray, ...] = field(repr=False)  # rows of the training part in order of arrival, task by task
    class_order: list[Any] = field(repr=False)
    batch: int = 10
    seed: int = 0
    told: bool = True  # whether boundaries between tasks are given
    how: tuple[str, ...] = ()  # what makes it other than plain, in words

    def __post_init__(self) -> None:
        if not isinstance(self.batch, (int, np.integer)) or self.batch < 1:
            raise ValueError(f"batch must be a whole number, at least 1, not {self.batch!r}.")

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Task]:
        return (Task(self, number) for number in range(len(self)))

    def __getitem__(self, number: int) -> Task:
        return Task(self, range(len(self))[number])

    def __str__(self) -> str:
        pieces = ("task" if self.told else "piece") + ("s" if len(self) > 1 else "")
        lines = [
            f"{self.name}: {len(self)} {pieces}{'' if self.told else ' without boundaries'}, {len(self.class_order)} "
            f"classes, {self.n_samples:,} samples in batches of {self.batch}, seed {self.seed}"
        ]
        lines += self.how
        if self.left_out:
            lines.append(f"{self.left_out:,} training samples do not arrive")
        order = some(self.class_order, most=ORDER)
        return "\n".join([*lines, *textwrap.wrap(f"class order: {order}", 110, subsequent_indent="  ")])

    @property
    def n_samples(self) -> int:
        return sum(map(len, self.plan))

    @property
    def left_out(self) -> int:
        """Training samples that never arrive."""
        return len(self.data.y) - self.n_samples

    @cached_property
    def labels(self) -> np.ndarray:
        """Each training sample's class as its place in `class_order`."""
        return self._places(self.data.y)

    @cached_property
    def first_met(self) -> np.ndarray:
        """For each place in `class_order`, the number of the task that first brings the class."""
        first = np.full(len(self.class_order) + 1, len(self))  # the last: classes that never arrive
        for number in reversed(range(len(self))):
            first[self.labels[self.plan[number]]] = number
        return first

    @cached_property
    def test_labels(self) -> np.ndarray:
        """Each test sample's class as its place in `class_order`; `len(class_order)` where it never arrives."""
        assert self.data.y_test is not None
        return self._places(self.data.y_test)

    def _places(self, y: np.ndarray) -> np.ndarray:
        known, inverse = np.unique(y, return_inverse=True)
        place = {label: i for i, label in enumerate(self.class_order)}
        return np.array([place.get(label, len(place)) for label in known.tolist()], np.int64)[inverse]


@dataclass(frozen=True)
class Task:
    """One task of a stream: iterate over it for mini-batches `(x, y)`; `len` is how many there are.

    The last batch is as small as it comes out. `name` is None where boundaries are not told, so that
    `learner.partial_fit(x, y, task=task.name)` is right for every stream.
    """

    stream: Stream = field(repr=False)
    number: int  # from 0

    @property
    def name(self) -> str | None:
        return f"task {self.number + 1}" if self.stream.told else None

    @property
    def rows(self) -> np.ndarray:
        """Places of its samples in the training part, in order of arrival."""
        return self.stream.plan[self.number]

    @property
    def classes(self) -> list[Any]:
        """Labels that occur in it, in the stream's class order."""
        return [self.stream.class_order[place] for place in np.unique(self.stream.labels[self.rows])]

    @property
    def new_classes(self) -> list[Any]:
        """Labels that no earlier task had."""
        return [self.stream.class_order[place] for place in np.flatnonzero(self.stream.first_met[:-1] == self.number)]

    @property
    def n_samples(self) -> int:
        return len(self.rows)

    def __len__(self) -> int:
        return -(-len(self.rows) // self.stream.batch)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        X, rows, size = self.stream.data.X, self.rows, self.stream.batch
        y = self.stream.data.y[rows]
        for start in range(0, len(rows), size):
            yield X[rows[start : start + size]], y[start : start + size]

    @property
    def train(self) -> tuple[np.ndarray | ImageFiles, np.ndarray]:
        """All its samples at once, in order of arrival: for who learns a task in many passes."""
        return take(self.stream.data.X, self.rows), self.stream.data.y[self.rows]

    @property
    def test(self) -> tuple[np.ndarray | ImageFiles, np.ndarray]:
        """X, y of the test part, of all classes met so far, this task's included. Files stay files (`ImageFiles`)."""
        data = self.stream.data
        if data.X_test is None or data.y_test is None:
            raise DataError(
                f"{data.name} has no test part, and none is taken in silence: give `test_share=0.2`, say, to set a "
                "fifth of every class aside by the seed."
            )
        rows = np.flatnonzero(self.stream.first_met[self.stream.test_labels] <= self.number)
        return take(data.X_test, rows), data.y_test[rows]

    def test_batches(self, size: int = 1000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The same in pieces, read as they are asked for, where the test part does not fit in memory."""
        X, y = self.test
        for start in range(0, len(y), size):
            yield X[start : start + size], y[start : start + size]
