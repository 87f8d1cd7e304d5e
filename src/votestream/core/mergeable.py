"""What two models must have in common to be merged, and how one takes in the other."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def _check_same(name: str, one: Any, other: Any) -> None:
    if one != other:
        raise ValueError(
            f"the models differ in {name}: {one!r} and {other!r}; teach both with the same {name}, given explicitly"
        )
