"""VoteStream's learners as river classifiers. Needs river: `pip install 'votestream[river]'`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base
from sklearn.base import clone

from votestream.compat.versions import warn_outside
from votestream.core.learner import Learner
from votestream.learners import NearestClassMean, NearestNeighbours, StreamingLDA
from votestream.learners.exemplars.exemplar_learner import ExemplarLearner

if TYPE_CHECKING:
    import pandas as pd

warn_outside("river", oldest="0.22", newest="0.26")


class RiverClassifier(base.MiniBatchClassifier):
    """A river classifier that learns and predicts with one of VoteStream's learners on features.

    The first row learned fixes the features: their names, sorted where they can be. Later, a feature that is missing
    counts as 0, as in river's linear models. One that is new is ignored, with a warning, since a learner's width
    cannot change: river's linear models would begin to learn it. Values must be numbers; encode others first, as with
    river's `preprocessing.OneHotEncoder`. Labels are what river's are: strings, integers or truth values.

    Each row is learned at once. A learner that trains by mini-batches, such as CandidatesVoting, takes one step a call,
    so `learn_many` is not `learn_one` of each row for it; for learners on statistics it is.

    Parameters
    ----------
    learner
        Its settings; what it has learned stays its own, and it is not changed.

    Attributes
    ----------
    model
        The learner that learns here, to save or to look into.
    features
        The names of the features, in the order of the model's columns; empty before the first row.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import votestream as vs
    >>> model = RiverClassifier(vs.GaussianVoting())
    >>> evaluate.progressive_val_score(datasets.ImageSegments().take(1000), model, metrics.Accuracy())
    Accuracy: 88.79%
    >>> model.predict_one(next(iter(datasets.ImageSegments()))[0])
    'path'

    """

    def __init__(self, learner: Learner) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be one of VoteStream's, as vs.GaussianVoting(), got {learner!r}")
        self.learner = learner
        self.model: Learner = clone(learner)
        self.features: list[Any] = []
        self._warned = False

    @property
    def _multiclass(self) -> bool:
        return True

    # ---- a row ----------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Learn the row."""
        features = self.features or self._names(x)
        self.model.partial_fit(self._row(x, features), [y])
        self.features = features

    def predict_one(self, x: Mapping[Any, Any], **options: Any) -> Any:
        """The label of the row; None before anything was learned."""
        return self.model.predict(self._row(x, self.features)).tolist()[0] if self.features else None

    def predict_proba_one(self, x: Mapping[Any, Any], **options: Any) -> dict[Any, float]:
        """The probability of each label; none before anything was learned."""
        if not self.features:
            return {}
        shares = self.model.predict_proba(self._row(x, self.features))[0].tolist()
        return dict(zip(self.model.classes_.tolist(), shares, strict=True))

    # ---- many rows ------------------------------------------------------------------------------

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame, in their order."""
        features = self.features or self._names(X.columns)
        self.model.partial_fit(self._rows(X, features), y.to_numpy())
        self.features = features

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The label of each row."""
        import pandas as pd

        if not self.features:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        return pd.Series(self.model.predict(self._rows(X, self.features)), index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """The probability of each label in columns; none before anything was learned."""
        import pandas as pd

        if not self.features:
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(
            self.model.predict_proba(self._rows(X, self.features)), index=X.index, columns=self.model.classes_
        )

    # ---- features -------------------------------------------------------------------------------

    @staticmethod
    def _names(names: Iterable[Any]) -> list[Any]:
        """Sorted, so that the order in which they came does not matter."""
        try:
            found = sorted(names)
        except TypeError:  # names of several kinds
            found = list(names)
        if not found:
            raise ValueError("the first row must have at least one feature, got none")
        return found

    def _row(self, x: Mapping[Any, Any], features: list[Any]) -> NDArray[Any]:
        """(1, D)."""
        try:
            values = [x[name] for name in features]
        except KeyError:
            values = [x.get(name, 0.0) for name in features]
            self._warn_of_new(x, features)
        else:
            if len(x) > len(values):
                self._warn_of_new(x, features)
        row = np.array(values)
        if row.dtype.kind not in "fiub":
            name, value = next(pair for pair in x.items() if not isinstance(pair[1], (int, float, np.number, np.bool_)))
            raise ValueError(f"x must hold numbers, got {name!r}: {value!r}; encode it first, as with a OneHotEncoder")
        return row[None]

    def _rows(self, X: pd.DataFrame, features: list[Any]) -> NDArray[Any]:
        """(n, D)."""
        if list(X.columns) != features:
            self._warn_of_new(X.columns, features)
            X = X.reindex(columns=features, fill_value=0.0)
        return X.to_numpy()

    def _warn_of_new(self, names: Iterable[Any], features: list[Any]) -> None:
        """Once."""
        new = [] if self._warned else sorted(set(names) - set(features), key=str)
        if new:
            self._warned = True
            warnings.warn(
                f"features that the first row did not have are ignored, as {new[0]!r}: a learner's width cannot change",
                UserWarning,
                stacklevel=4,
            )

    # ---- for river's checks ---------------------------------------------------------------------

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": NearestClassMean()}
        yield {"learner": StreamingLDA()}

    def _unit_test_skips(self) -> set[str]:
        skipped = set()
        if hasattr(self.learner, "lr"):  # one step a call, as in river's own linear models
            skipped.add("check_learn_many_matches_learn_one")
        if isinstance(self.learner, ExemplarLearner):  # it compares pickles, and torch's generators pickle an address
            skipped.add("check_no_state_aliasing_with_input")
        if isinstance(self.learner, NearestNeighbours):  # of exemplars equally far away any may vote
            skipped.add("check_predict_proba_many_matches_predict_proba_one")
        return skipped
