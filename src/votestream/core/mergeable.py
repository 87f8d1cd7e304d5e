"""What two models must have in common to be merged, how one begins like another, and takes in what that has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import check_known_labels

NO_TRACE = {"device", "batch_size", "seed"}  # arguments that leave none in what is learned by statistics


def check_mergeable(one: Any, other: Any) -> None:
    """Complain about what makes two models strangers."""
    kind = type(one).__name__
    if type(one) is not type(other):
        raise ValueError(f"a {kind} and a {type(other).__name__} cannot be merged")
    if not one.mergeable:
        raise ValueError(f"a {kind} cannot be merged with another: {one._why_not}")
    for model in (one, other):
        model._check_fitted()
    if one.n_features_in_ != other.n_features_in_:
        raise ValueError(f"the models take {one.n_features_in_} and {other.n_features_in_} features")
    ours, theirs = (getattr(model, "feature_names_in_", np.array([])).tolist() for model in (one, other))
    if ours != theirs:
        raise ValueError("the models learned from data frames with other columns")
    for name in sorted(set(one._get_param_names()) - NO_TRACE):
        _check_same(name, getattr(one, name), getattr(other, name))
    for name in one._merged_alike:
        _check_same(name.lstrip("_"), getattr(one, name), getattr(other, name))


def take_in(learner: Any, other: Any) -> None:
    """Learn all that another model knows."""
    check_mergeable(learner, other)
    seen = list(other._index)
    check_known_labels(seen, learner._index, list(learner._index), None)
    learner._check_growth(len(learner._index), len(learner._index.keys() | seen), learner.n_features_in_)
    numbers = np.array([learner._index.setdefault(label, len(learner._index)) for label in seen], np.int64)
    learner._tasks.merge(other._tasks, numbers.tolist())
    learner._merge(other, numbers)
    if learner._tracker is not None:
        learner._tracker.merge(other._tracker, numbers)
    learner._guard.forget()


def take_over(learner: Any, other: Any) -> None:
    """Have learned what the other has, and nothing else; the other is not to be used any more."""
    arguments = {*learner.get_params(deep=False), "_own_guard"}
    found = {name: value for name, value in vars(other).items() if name not in arguments}
    with learner._guard.lock:
        learner.__dict__.update(found)
        for name in {"_broken", "feature_names_in_"} - set(found):  # not every model has these
            learner.__dict__.pop(name, None)
        learner._guard.forget()


def begun_like(learner: Any, first: Any = None) -> Any:
    """One that has learned nothing yet, for a part of the stream that is merged with this one later.

    It has the settings of a part, and columns have no names. `first` are the first rows of the stream, for a learner
    that has learned nothing itself.
    """
    fresh = learner._afresh().set_params(**learner._part_settings())
    fresh._check_settings()
    if learner._is_fitted():
        fresh._start(np.zeros((1, learner.n_features_in_), np.float32), learner._unit, None)
        fresh._begin_like(learner)
    else:
        fresh._start(*fresh._rows_to_learn(first, fitted=False), None)
    return fresh


def teach_untested(learner: Any, X: NDArray[np.float32], y: list[str | int], task: str | int) -> None:
    """Learn rows without predicting them first, whatever `track` says: somebody else does, or nobody can."""
    tracker, learner._tracker = learner._tracker, None
    try:
        learner.partial_fit(X, y, task=task)
    finally:
        learner._tracker = tracker
    if tracker is not None:
        rows = learner._check_X(X, learner.n_features_in_)
        tracker.learn(rows, np.array([learner._index[label] for label in y]))


def _check_same(name: str, one: Any, other: Any) -> None:
    if one != other:
        raise ValueError(
            f"the models differ in {name}: {one!r} and {other!r}; teach both with the same {name}, given explicitly"
        )
