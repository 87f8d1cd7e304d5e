"""A learner goes through a stream once, task by task, and is tested on all classes so far on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.bench import metrics
from votestream.learners import Learner
from votestream.streams import Stream, Task


@dataclass(frozen=True)
class Test:
    """What a learner answered on the test samples of all classes so far, when it had learned so many samples."""

    __test__ = False  # for pytest, which takes it for a class of tests

    samples: int
    answers: NDArray
    truth: NDArray
    by_task: list[float]  # accuracy in per cent on each task so far, that under way included
    ends_task: bool
    accuracy: float  # on all of them


@dataclass
class Course:
    """One learner and one stream; `tests()` learns it, and yields the tests as they are made.

    Samples go to the learner a task a call, which it learns in its own mini-batches, once or as often as it does;
    tasks are told where the stream tells them. With `anytime`, mini-batches go to it one by one, and it is tested after
    every so many samples of a task as well; with `test_first` each mini-batch is predicted before it is learned. A
    learner of whole tasks, or of several passes, is tested after tasks only.

    >>> from votestream import create, stream_from
    >>> X = np.arange(8.0, dtype=np.float32)[:, None]
    >>> course = Course(create("ncm"), stream_from(X, list("aabbccdd"), test=(X, list("aabbccdd")), tasks=2))
    >>> [(test.samples, test.accuracy) for test in course.tests()]
    [(4, 100.0), (8, 100.0)]
    """

    model: Any
    stream: Stream
    ask: str = "each"  # or "last": tested after the last task only
    first_passes: int = 1
    anytime: int = 0
    test_first: bool = False
    tell: Callable[[int, int], None] | None = None  # called with task and tasks as each task ends
    samples: int = field(default=0, init=False)  # learned so far
    right: int = field(default=0, init=False)  # of these, predicted rightly before they were learned
    seconds_learning: float = field(default=0.0, init=False)
    seconds_predicting: float = field(default=0.0, init=False)
    _examine: Callable[[Task], tuple[NDArray, NDArray]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._examine = _examiner(self.model, self.stream)

    @property
    def stepwise(self) -> bool:
        """Whether mini-batches are learned one by one."""
        whole = getattr(self.model, "whole_tasks", False) or self.first_passes > 1
        return self.anytime > 0 and self.ask == "each" and not whole

    @property
    def prequential(self) -> float | None:
        """Accuracy in per cent on all samples, each predicted before it was learned; the first ones count as wrong."""
        return 100 * self.right / self.samples if self.stepwise and self.test_first else None

    def tests(self) -> Iterator[Test]:
        for task in self.stream:
            if self.stepwise:
                for _ in self._steps(task):
                    yield self._test(task, ends_task=False)
            else:
                start = time.perf_counter()
                _learn(self.model, task, self.first_passes if task.number == 0 else 1)
                self.seconds_learning += _since(start)
                self.samples += task.n_samples
            if self.ask == "each" or task.number == len(self.stream) - 1:
                yield self._test(task, ends_task=True)
            if self.tell is not None:
                self.tell(task.number + 1, len(self.stream))

    def _steps(self, task: Task) -> Iterator[None]:
        """Learn the task; yields after every so many samples, but not at its end."""
        learned = since_test = 0
        for x, y in task:
            if self.test_first and self.samples:
                start = time.perf_counter()
                answers, truth = _checked(self.model.predict(x), y)
                self.seconds_predicting += _since(start)
                self.right += int(np.sum(answers == truth))
            start = time.perf_counter()
            self.model.partial_fit(x, y, task=task.name)
            self.seconds_learning += _since(start)
            self.samples, learned, since_test = self.samples + len(y), learned + len(y), since_test + len(y)
            if since_test >= self.anytime and learned < task.n_samples:
                since_test = 0
                yield

    def _test(self, task: Task, ends_task: bool) -> Test:
        start = time.perf_counter()
        answers, truth = self._examine(task)
        self.seconds_predicting += _since(start)
        task_of = dict(zip(self.stream.class_order, self.stream.first_met.tolist(), strict=False))
        tasks = np.array([task_of[label] for label in truth.tolist()], np.int64)
        by_task = metrics.by_task(answers, truth, tasks, task.number + 1)
        return Test(self.samples, answers, truth, by_task, ends_task, metrics.accuracy(answers, truth))


def _learn(model: Any, task: Task, passes: int) -> None:
    X, y = task.train
    if isinstance(X, np.ndarray):
        if passes > 1:
            model.fit_task(X, y, task=task.name, passes=passes)
        elif task.name is not None and getattr(model, "whole_tasks", False) and getattr(model, "bounded", True):
            # Trained here and now, and not when it is asked.
            model.fit_task(X, y, task=task.name)
        else:
            model.partial_fit(X, y, task=task.name)
    else:  # files, which need not fit in memory together
        for x, labels in task:
            model.partial_fit(x, labels, task=task.name)


def _examiner(model: Learner, stream: Stream) -> Callable[[Task], tuple[NDArray, NDArray]]:
    """Answers and truth on the classes so far. A learner with an `examiner` of its own answers by that.

    `model.examiner(X)` returns a function of rows that answers as `model.predict(X[rows])`, and may remember what
    further learning cannot change.
    """
    data = stream.data
    if not (hasattr(model, "examiner") and isinstance(data.X_test, np.ndarray) and data.y_test is not None):
        return lambda task: _predictions(model, task)
    ask, truth = model.examiner(data.X_test), data.y_test

    def examine(task: Task) -> tuple[NDArray, NDArray]:
        rows = np.flatnonzero(stream.first_met[stream.test_labels] <= task.number)
        return _checked(ask(rows), truth[rows])

    return examine


def _predictions(model: Learner, task: Task) -> tuple[NDArray, NDArray]:
    parts = [_checked(model.predict(X), y) for X, y in task.test_batches(10_000)]
    return np.concatenate([answers for answers, _ in parts]), np.concatenate([truth for _, truth in parts])


def _checked(answers: Any, truth: NDArray) -> tuple[NDArray, NDArray]:
    made = np.asarray(answers)
    if made.shape != truth.shape:
        raise ValueError(
            f"predict returned an array of shape {made.shape} for {len(truth)} rows: it must be ({len(truth)},)"
        )
    return made, truth


def _since(start: float) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
