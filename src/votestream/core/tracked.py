"""Test, then train: what a learner does with `track=True`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.guard import leading
from votestream.tracking import Tracker, TrackReport

BEHIND = 100  # one in so many samples may be learned between two tests,
BEHIND_OF_CLASS = 10  # of a class one in so many


def tracker_of(learner: Any, width: int) -> Tracker | None:
    """A new one, where the learner has an argument `track` that says so."""
    return Tracker(width, learner._record_fade) if getattr(learner, "track", False) else None


def tested_lessons(learner: Any, rows: NDArray[Any], labels: list[str | int], named_task: bool, fitted: bool) -> None:
    """Test on some rows, then learn them in mini-batches. Under the lock, and nobody sees the states in between.

    Preparing a test takes longer than learning, so mini-batches are tested together as far as what answers is no more
    than 1 % of the samples behind, and of no class more than a tenth.
    """
    tracker, index, size = learner._tracker, learner._index, learner.batch_size
    prepared: Any = None  # what answers; made when a test is due
    changed: set[int] = set()  # classes learned since
    start = 0
    while start < len(rows):
        most = size if learner._test_growth > 1 else max(size, tracker.learned // BEHIND)
        numbers = np.array([index.get(label, len(index)) for label in labels[start : start + most]], np.int64)
        end = start + _together(tracker.counts, numbers, size)
        X, own = rows[start:end], labels[start:end]
        if not tracker.is_due(len(X), learner._test_growth):
            tracker.skip(len(X))
        elif not index:
            tracker.test_nothing_known(len(X))
        else:
            if start == 0 and fitted:
                prepared = learner._now()
            elif changed:
                prepared, changed = learner._prepared(prepared, changed), set()
            shares = leading(prepared.predictor.probabilities(X))
            tracker.test(prepared.answers, shares, X, numbers[: len(X)])
        for first in range(0, len(X), size):
            batch = X[first : first + size]
            classes = learner._lesson(batch, own[first : first + size], named_task)
            tracker.learn(batch, classes)
            changed.update(classes.tolist())
        start = end


def _together(counts: NDArray[np.int64], numbers: NDArray[np.int64], size: int) -> int:
    """How many of the next rows, of classes of these numbers, are tested together: whole mini-batches, one at least.

    >>> _together(np.array([1000, 10]), np.array([0, 0, 0, 1, 0, 1, 1, 0]), size=2)
    6
    """
    if len(numbers) <= size:
        return size
    since, most = np.zeros(len(counts) + 1, np.int64), np.append(counts // BEHIND_OF_CLASS, 0)
    for start in range(0, len(numbers) - size, size):
        np.add.at(since, numbers[start : start + size], 1)
        if (since > most).any():
            return start + size
    return max(size, len(numbers) // size * size)


def report_of(learner: Any) -> TrackReport:
    """Under the lock."""
    if learner._tracker is None:
        raise ValueError("this model has kept no track record: make it with track=True before it learns")
    naming, tasks = learner._naming(), learner._tasks
    report: TrackReport = learner._tracker.report(
        naming.seen.tolist(), naming.order.tolist(), tasks.task_of_class, tasks.names
    )
    return report
