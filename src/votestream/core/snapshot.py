"""A model that answers as another did at one moment, and never changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from torch import nn

from votestream.common.validation import as_features, check_column_names, in_units
from votestream.core.guard import Prepared
from votestream.core.modules import SnapshotModule
from votestream.core.vote import Vote


class RowCheck(NamedTuple):
    """What a model on features expects of its rows."""

    model: str
    width: int
    unit: float
    names: NDArray[Any] | None

    def __call__(self, X: Any) -> NDArray[np.float32]:
        check_column_names(self.names, X, self.model, fitted=True)
        return in_units(as_features(X, self.width, self.model), self.unit)


class Snapshot(ClassifierMixin):
    """Predicts as the model did when `snapshot()` was called; what that learns later does not touch it.

    Made to be shared: any number of threads may predict with it, and none of its arrays is ever written to.

    >>> import votestream as vs
    >>> model = vs.NearestClassMean().partial_fit([[0.0], [9.0]], ["low", "high"])
    >>> before = model.snapshot()
    >>> model.partial_fit([[5.0]], ["middle"]).predict([[5.0]]).tolist(), before.predict([[5.0]]).tolist()
    (['middle'], ['high'])
    """

    def __init__(
        self,
        prepared: Prepared,
        rows: Callable[[Any], NDArray[Any]],
        task_of_class: NDArray[np.int64],
        tasks: list[str | int | None],
    ) -> None:
        self._prepared = prepared
        self._rows = rows
        self._task_of_class = task_of_class
        self._tasks = tasks

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row, (n,)."""
        return self._prepared.naming.seen[self._prepared.predictor.decide(self._rows(X))]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, (n, C), columns as `classes_`."""
        return self._prepared.probabilities(self._rows(X))

    def unknown_score(self, X: Any) -> NDArray[np.float64]:
        """How likely each row is of no class met, (n,) in [0, 1); see `Learner.unknown_score`."""
        return self._prepared.unknown_scores(self._rows(X))

    def vote(self, X: Any) -> Vote:
        """How each decision falls, for models that vote."""
        if not hasattr(self._prepared.predictor, "vote"):
            raise AttributeError("this model decides without a vote")
        vote: Vote = self._prepared.vote(self._rows(X))
        return vote

    def as_module(self) -> nn.Module:
        """This model as a torch module, for exporters: see `core.modules.SnapshotModule`."""
        predictor, rows = self._prepared.predictor, self._rows
        if not hasattr(predictor, "as_module"):
            kind = type(predictor).__name__
            raise ValueError(f"this model cannot be exported: what it predicts by, {kind}, has no as_module()")
        if isinstance(predictor, _Twin):
            return SnapshotModule(self._prepared, predictor.learner._unit, predictor.learner.n_features_in_)
        if not isinstance(rows, RowCheck):
            raise ValueError("this model cannot be exported: it does something of its own to rows before it predicts")
        return SnapshotModule(self._prepared, rows.unit, rows.width)

    @property
    def votes(self) -> bool:
        """Whether decisions fall by a vote, which `vote` tells."""
        predictor = self._prepared.predictor
        return hasattr(predictor, "vote") and getattr(predictor, "decide_by", "vote") == "vote"

    @property
    def tracked(self) -> bool:
        """Whether the model keeps a track record, without which there is no `unknown_score`."""
        return self._prepared.answers is not None

    @property
    def classes_(self) -> NDArray[Any]:
        """Every label, sorted, as the model's."""
        return self._prepared.naming.sorted

    @property
    def classes_seen_(self) -> NDArray[Any]:
        """Every label in order of first appearance."""
        return self._prepared.naming.seen.copy()

    @property
    def task_of_class_(self) -> NDArray[np.int64]:
        """The task of each class, as `classes_`."""
        return self._task_of_class.copy()

    @property
    def tasks_(self) -> list[str | int | None]:
        """The name of each task, as the model's."""
        return list(self._tasks)


def snapshot_of(learner: Any, now: Prepared, rows: RowCheck | None) -> Snapshot:
    """What answers now, without `rows` with a copy of the learner to check them; one without a predictor is copied."""
    if now.predictor is None:
        twin = copy.deepcopy(learner)
        return Snapshot(now._replace(predictor=_Twin(twin)), twin._query, learner.task_of_class_, learner.tasks_)
    check: Any = rows or copy.deepcopy(learner)._query
    return Snapshot(now, check, learner.task_of_class_, learner.tasks_)


class _Twin(NamedTuple):
    """A copied learner as a predictor."""

    learner: Any

    def decide(self, X: NDArray[Any]) -> NDArray[np.int64]:
        return self.learner._decide(X)

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return self.learner._probabilities(X)

    def as_module(self) -> nn.Module:
        return self.learner._as_module()
