"""VoteStream's learners as CapyMOA classifiers. Needs capymoa, and Java."""

from __future__ import annotations

from typing import Any

import numpy as np
from capymoa.base import Classifier
from numpy.typing import NDArray
from sklearn.base import clone

from votestream.compat.versions import warn_outside
from votestream.core.learner import Learner

warn_outside("capymoa", oldest="0.15", newest="0.15")


class CapyMOAClassifier(Classifier):
    """A CapyMOA classifier that learns and predicts with one of VoteStream's learners on features.

    Classes are the schema's numbers. Probabilities of classes that were not met yet are 0; CapyMOA's own `SKClassifier`
    would give the columns of the classes met so far, which then stand for others.

    Parameters
    ----------
    learner : its settings; what it has learned stays its own, and it is not changed.
    schema : the stream's, as `stream.get_schema()`.

    The learner that learns here is `model`.

    >>> import numpy as np, votestream as vs
    >>> from capymoa.evaluation import prequential_evaluation
    >>> from capymoa.stream import NumpyStream
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 500)
    >>> stream = NumpyStream(rng.normal(size=(500, 4)) + 5 * np.eye(4)[y], y)
    >>> model = CapyMOAClassifier(vs.GaussianVoting(), stream.get_schema())
    >>> prequential_evaluation(stream, model).cumulative.accuracy() > 98
    True
    """

    def __init__(self, learner: Learner, schema: Any) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be one of VoteStream's, as vs.GaussianVoting(), got {learner!r}")
        super().__init__(schema=schema, random_seed=int(learner.seed))
        self.learner = learner
        self.model: Learner = clone(learner)

    def __str__(self) -> str:
        return str(self.learner)

    def train(self, instance: Any) -> None:
        """Learn the instance."""
        self.model.partial_fit(instance.x[None], [instance.y_index])

    def predict(self, instance: Any) -> int | None:
        """The number of the class; None before anything was learned."""
        return int(self.model.predict(instance.x[None])[0]) if self.model.fitted else None

    def predict_proba(self, instance: Any) -> NDArray[np.float64] | None:
        """The probability of each class of the schema; None before anything was learned."""
        if not self.model.fitted:
            return None
        shares = np.zeros(self.schema.get_num_classes())
        shares[self.model.classes_] = self.model.predict_proba(instance.x[None])[0]
        return shares
