"""Learners that take weights of samples."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from votestream.core.learner import Learner
from votestream.core.state import M


class WeightedLearner(Learner[M]):
    """For learners on statistics, which count samples: `fit` and `partial_fit` take `sample_weight`.

    Counts are whole numbers, in memory and in model files, and so weights must be. Learning a row as often as its
    weight says makes weights exact for every statistic there is, and costs nothing where none are given.

    >>> import votestream as vs
    >>> model = vs.NearestClassMean().fit([[0.0], [3.0], [9.0]], ["a", "a", "b"], sample_weight=[2, 1, 0])
    >>> model.class_means_.tolist(), model.class_counts_.tolist()
    ([[1.0]], [3])
    """

    def partial_fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: str | int | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows in their order. See `Learner.partial_fit`.

        sample_weight: n whole numbers, how often each row counts; 0 leaves it out.
        """
        with self.guard.lock:
            self._partial_fit(X, y, task, classes, sample_weight)
        return self

    def fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Forget everything, then learn the rows; a call that is refused leaves the model as it was."""
        return self._fit(X, y, sample_weight=sample_weight)
