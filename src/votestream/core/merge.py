"""`merge`: models that were taught in different places become one."""

from __future__ import annotations

from collections.abc import Sequence

from votestream.core.learner import Learner


def merge(models: Sequence[Learner]) -> Learner:
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
    merged = models[0]._copied()
    for other in models[1:]:
        with other._guard.lock:
            merged._take_in_model(other)
    return merged
