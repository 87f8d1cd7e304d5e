"""`merge`: models that were taught in different places become one; and learners of parts of a stream."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import check_known_labels
from votestream.core.learner import Learner
from votestream.core.settings import argument_names, check_settings
from votestream.core.state import Label
from votestream.memory import Merges

L = TypeVar("L", bound=Learner[Any])

NO_TRACE = {"device", "batch_size", "seed"}  # arguments that leave none in what is learned by statistics


def merge(models: Sequence[L]) -> L:
    """One model that knows what all of these know; they stay as they are.

    Classes with the same label become one. Tasks keep their order, the first model's first; tasks that were given the
    same name are one. Learners on statistics (`mergeable`) come out as if one of them had learned everything: ncm,
    slda, rls, fecam, srda and those on random features up to rounding, GaussianVoting as close as to itself on
    reordered samples.

    >>> import votestream as vs
    >>> north = vs.NearestClassMean().partial_fit([[0.0], [4.0]], ["oak", "elm"])
    >>> south = vs.NearestClassMean().partial_fit([[6.0], [9.0]], ["elm", "fig"])
    >>> both = vs.merge([north, south])
    >>> both.classes_.tolist(), both.class_means_.ravel().tolist()
    (['elm', 'fig', 'oak'], [5.0, 9.0, 0.0])
    """
    models = list(models)
    if not models:
        raise ValueError("there is no model to merge")
    for model in models:
        if not isinstance(model, Learner):
            raise TypeError(f"models must be learners, got {type(model).__name__}")
        with model.guard.lock:
            model.check_fitted()
    with models[0].guard.lock:
        merged = copy.deepcopy(models[0])
    for other in models[1:]:
        with other.guard.lock:
            merged.merge_in(other)
    return merged


def merge_into(learner: Learner[Any], other: Learner[Any]) -> None:
    """Have the learner learn all that the other knows."""
    check_mergeable(learner, other)
    check_settings(learner)
    state, theirs = learner.state_, other.state_
    seen = list(theirs.numbers)
    check_known_labels(seen, state.numbers, list(state.numbers), None)
    learner.check_growth(len(state.numbers), len(state.numbers.keys() | seen), state.n_features)
    numbers = state.number_classes(seen)
    state.tasks.merge(theirs.tasks, numbers.tolist())
    memory: Merges = state.memory
    memory.merge(theirs.memory, numbers)
    if state.tracker is not None and theirs.tracker is not None:
        state.tracker.merge(theirs.tracker, numbers)
    learner.guard.forget()


def check_mergeable(one: Learner[Any], other: Learner[Any]) -> None:
    """Complain about what makes two models strangers."""
    kind = type(one).__name__
    if type(one) is not type(other):
        raise ValueError(f"a {kind} and a {type(other).__name__} cannot be merged")
    if not one.mergeable:
        raise ValueError(f"a {kind} cannot be merged with another: {one.why_not}")
    ours, theirs = one.state_, other.state_
    if ours.n_features != theirs.n_features:
        raise ValueError(f"the models take {ours.n_features} and {theirs.n_features} features")
    columns = [[] if state.feature_names is None else state.feature_names.tolist() for state in (ours, theirs)]
    if columns[0] != columns[1]:
        raise ValueError("the models learned from data frames with other columns")
    cls: Any = type(one)
    for name in sorted(set(argument_names(cls)) - NO_TRACE):
        _check_same(name, getattr(one, name), getattr(other, name))
    _check_same("unit", ours.unit, theirs.unit)
    traits = theirs.memory.shared_traits()
    for name, value in ours.memory.shared_traits().items():
        _check_same(name, value, traits[name])


def begun_like(learner: L, first: Any = None) -> L:
    """One that has learned nothing yet, for a part of the stream that is merged with this one later.

    It has the parameters of a part, and columns have no names. `first` are the first rows of the stream, for a learner
    that has learned nothing itself.
    """
    fresh = type(learner)(**{**learner.get_params(deep=False), **learner.part_params()})
    check_settings(fresh)
    if learner.fitted:
        state = learner.state_
        fresh.begin(np.zeros((1, state.n_features), np.float32), state.unit, like=state.memory)
    else:
        fresh.begin(*fresh.rows_to_learn(first))
    return fresh


def learn_untested(learner: Learner[Any], X: NDArray[np.float32], y: list[Label], task: str | int) -> None:
    """Learn rows without predicting them first, whatever `track` says: somebody else does, or nobody can."""
    state = learner.state_
    tracker, state.tracker = state.tracker, None
    try:
        learner.partial_fit(X, y, task=task)
    finally:
        state.tracker = tracker
    if tracker is not None:
        rows = learner.rows_of(X, state.n_features)
        tracker.learn(rows, np.array([state.numbers[label] for label in y]))


def settle(learner: Learner[Any]) -> None:
    """Have no row wait any more to be taken into what is kept."""
    check_settings(learner)
    learner.memory_.settle()


def _check_same(name: str, one: Any, other: Any) -> None:
    if one != other:
        raise ValueError(
            f"the models differ in {name}: {one!r} and {other!r}; teach both with the same {name}, given explicitly"
        )
