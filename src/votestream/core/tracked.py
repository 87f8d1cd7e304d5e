"""Test, then train: what a learner does with `track=True`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.predictor import Prepared, leading
from votestream.core.state import Label, State
from votestream.tracking import Tracker, TrackReport

BEHIND = 100  # one in so many samples may be learned between two tests,
BEHIND_OF_CLASS = 10  # of a class one in so many


def tracker_for(learner: Any, width: int) -> Tracker | None:
    """A new one, where the learner has an argument `track` that says so."""
    return Tracker(width, learner.calibration_fade) if getattr(learner, "track", False) else None


def learn_tested(
    state: State[Any],
    rows: NDArray[Any],
    labels: list[Label],
    batch_size: int,
    growth: float,
    first: Callable[[], Prepared] | None,
    prepare: Callable[[Prepared | None, set[int]], Prepared],
    learn: Callable[[NDArray[Any], list[Label]], NDArray[np.int64]],
) -> None:
    """Test on some rows, then learn them in mini-batches. Under the lock, and nobody sees the states in between.

    first: what predicts before any of the rows is learned; None for a model that has learned nothing. prepare: what
    predicts after these classes were learned, from what did before. growth: see `Learner.test_growth`.

    Preparing a test takes longer than learning, so mini-batches are tested together as far as what predicts is no more
    than 1 % of the samples behind, and of no class more than a tenth.
    """
    tracker, index = state.tracker, state.numbers
    assert tracker is not None
    prepared: Prepared | None = None  # made when a test is due
    changed: set[int] = set()  # classes learned since
    start = 0
    while start < len(rows):
        most = batch_size if growth > 1 else max(batch_size, tracker.learned // BEHIND)
        numbers = np.array([index.get(label, len(index)) for label in labels[start : start + most]], np.int64)
        end = start + _together(tracker.counts, numbers, batch_size)
        X, own = rows[start:end], labels[start:end]
        if not tracker.is_due(len(X), growth):
            tracker.skip(len(X))
        elif not index:
            tracker.test_nothing_known(len(X))
        else:
            if start == 0 and first is not None:
                prepared = first()
            elif changed:
                prepared, changed = prepare(prepared, changed), set()
            assert prepared is not None
            assert prepared.answers is not None
            shares = leading(prepared.predictor.probabilities(X))
            tracker.test(prepared.answers, shares, X, numbers[: len(X)])
        for begin in range(0, len(X), batch_size):
            batch = X[begin : begin + batch_size]
            classes = learn(batch, own[begin : begin + batch_size])
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


def report_of(state: State[Any]) -> TrackReport:
    """How the tests went, by label and task."""
    if state.tracker is None:
        raise ValueError("this model has kept no track record: make it with track=True before it learns")
    naming, tasks = state.naming, state.tasks
    return state.tracker.report(naming.seen.tolist(), naming.order.tolist(), tasks.task_of_class, tasks.names)
