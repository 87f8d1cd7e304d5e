"""Test, then train: what a learner does with `track=True`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.guard import leading
from votestream.life import Tracker, TrackReport


def tracker_of(learner: Any, width: int) -> Tracker | None:
    """A new one, where the learner has an argument `track` that says so."""
    return Tracker(width, learner._record_fade) if getattr(learner, "track", False) else None


def tested_lessons(learner: Any, rows: NDArray[Any], labels: list[str | int], named_task: bool, fitted: bool) -> None:
    """Test on each mini-batch, then learn it. Under the lock, and nobody sees the states in between."""
    tracker, index, size = learner._tracker, learner._index, learner.batch_size
    prepared: Any = None  # what answers; made when a test is due
    changed: set[int] = set()  # classes learned since
    for start in range(0, len(rows), size):
        X, own = rows[start : start + size], labels[start : start + size]
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
            numbers = np.array([index.get(label, len(index)) for label in own], np.int64)
            tracker.test(prepared.answers, shares, X, numbers)
        classes = learner._lesson(X, own, named_task)
        tracker.learn(X, classes)
        changed.update(classes.tolist())


def report_of(learner: Any) -> TrackReport:
    """Under the lock."""
    if learner._tracker is None:
        raise ValueError("this model has kept no track record: make it with track=True before it learns")
    naming, tasks = learner._naming(), learner._tasks
    report: TrackReport = learner._tracker.report(
        naming.seen.tolist(), naming.order.tolist(), tasks.task_of_class, tasks.names
    )
    return report
