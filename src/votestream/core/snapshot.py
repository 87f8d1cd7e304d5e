"""A model that answers as another did at one moment, and never changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from torch import nn

from votestream.common.validation import as_features, check_column_names, in_units
from votestream.core.modules import SnapshotModule
from votestream.core.predictor import Prepared
from votestream.core.vote import Vote
from votestream.tracking.unknowns import UNKNOWN_SHARE

if TYPE_CHECKING:
    from votestream.core.learner import Learner


class RowCheck(NamedTuple):
    """What a model on features expects of its rows."""

    model: str
    width: int
    unit: float
    names: NDArray[Any] | None

    def __call__(self, X: Any) -> NDArray[np.float32]:
        check_column_names(self.names, X, self.model, fitted=True)
        return in_units(as_features(X, self.width, self.model), self.unit)


class OwnRows(NamedTuple):
    """The rows of a learner that makes them in a way of its own, such as a network's images."""

    learner: Learner[Any]
    width: int

    def __call__(self, X: Any) -> NDArray[Any]:
        return self.learner.rows_of(X, self.width)


class Snapshot(ClassifierMixin):  # type: ignore[misc]
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
        rows: Callable[[Any], NDArray[Any]] | RowCheck | OwnRows,
        task_of_class: NDArray[np.int64],
        tasks: list[str | int | None],
    ) -> None:
        self._prepared = prepared
        self._rows = rows
        self._task_of_class = task_of_class
        self._tasks = tasks

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row, (n,)."""
        return self._prepared.labels(self._rows(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, (n, C), columns as `classes_`."""
        return self._prepared.probabilities(self._rows(X))

    def unknown_score(self, X: Any) -> NDArray[np.float64]:
        """How different each row is from everything learned, (n,) in [0, 1); see `Learner.unknown_score`."""
        return self._prepared.unknown_scores(self._rows(X))

    def confidence(self, X: Any, unknown_share: float = UNKNOWN_SHARE) -> NDArray[np.float64]:
        """How likely each prediction is right, (n,), unknown classes counted in; see `Learner.confidence`."""
        return self._prepared.confidence(self._rows(X), unknown_share)

    def vote(self, X: Any) -> Vote:
        """How each decision falls, for models that vote."""
        if not hasattr(self._prepared.predictor, "vote"):
            raise AttributeError("this model decides without a vote")
        vote: Vote = self._prepared.vote(self._rows(X))
        return vote

    def behind(self, extract: Callable[[Any], NDArray[Any]]) -> Snapshot:
        """The same model, of things that `extract` makes features of, such as images by a backbone."""
        rows = self._rows
        return Snapshot(self._prepared, lambda X: rows(extract(X)), self._task_of_class, self._tasks)

    def as_module(self) -> nn.Module:
        """This model as a torch module, for exporters: see `core.modules.SnapshotModule`."""
        predictor, rows = self._prepared.predictor, self._rows
        if not hasattr(predictor, "as_module"):
            kind = type(predictor).__name__
            raise ValueError(f"this model cannot be exported: what it predicts by, {kind}, has no as_module()")
        if isinstance(rows, OwnRows) and rows.learner.input == "images":
            return SnapshotModule(self._prepared, 1.0, rows.width)
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


def snapshot_of(learner: Learner[Any], now: Prepared, rows: RowCheck | None) -> Snapshot:
    """What predicts now; without `rows`, the learner checks them, which has no part in what it learns."""
    if now.live:
        now = now._replace(predictor=copy.deepcopy(now.predictor))
    check = rows or OwnRows(copy.copy(learner), learner.state_.n_features)
    return Snapshot(now, check, learner.task_of_class_, learner.tasks_)
