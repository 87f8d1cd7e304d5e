"""StreamingRidge: least squares on one-hot targets, as recursive least squares would find it sample by sample."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import Ranges, real
from votestream.compute.linalg import inverse
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.learners.statistics.linear_rule import MomentRule, onto_simplex
from votestream.learners.statistics.moment_learner import MomentLearner
from votestream.memory import ClassMoments


@register("rls")
class StreamingRidge(MomentLearner):
    r"""Ridge regression of the one-hot labels on the features, over the whole stream, with an intercept.

    .. math::
        \min_{W, b} \; \sum_i \lVert y_i - W x_i - b \rVert^2 + \lambda \lVert W \rVert^2, \qquad
        \lambda = \mathrm{ridge} \cdot \frac{\operatorname{tr} S}{D}

    S is the scatter of the features about their mean, so that neither the scale nor the origin of the features
    matters. The usual recursion keeps G = sum x x^T and Q = sum x y^T. For one-hot y both follow from the class
    moments: Q's columns are the class means times the counts, and G less its mean is the scatter within the classes
    plus that between them. So the moments are kept, which also lose no digits; the system is solved when an answer is
    asked for, once. Kept: 8 (C (D + 1) + D²) bytes, and at most 256 rows that wait.

    The scores estimate the probabilities, and sum to 1; those given out are the nearest that are not negative.

    Take it for a linear model by least squares, in as many bytes as `StreamingLDA`, and to compare with methods that
    solve a ridge regression on frozen features.

    Reference: Arthur Hoerl and Robert Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
    Technometrics 1970.

    Parameters
    ----------
    ridge : lambda, relative to the features' mean scatter.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import votestream as vs
    >>> model = vs.StreamingRidge().partial_fit([[0.0], [1.0], [9.0], [10.0]], ["low", "low", "high", "high"])
    >>> model.predict([[2.0], [8.0]]).tolist()
    ['low', 'high']
    >>> model.predict_proba([[5.0]]).round(3).tolist()
    [[0.5, 0.5]]
    """

    scatter = "shared"
    parameter_ranges: ClassVar[Ranges] = {"ridge": real(1e-12, 1e12)}

    def __init__(
        self,
        ridge: float = 1e-4,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.ridge = ridge
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_predictor(self) -> MomentRule:
        shared = partial(_shared, ridge=self.ridge)
        return MomentRule.of(self.memory_, shared, _rows, Place(self.device), onto_simplex)

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """W, (C, D), as `classes_`."""
        return self.by_class(self.prepared().predictor.weights) * np.float32(self.state_.unit)


def _shared(
    moments: ClassMoments, ridge: float
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64], int]:
    """The overall mean in float32, and as it is; (G + lambda I)^-1; the number of samples."""
    mean = moments.overall_mean()
    between = moments.means - mean
    G = moments.scatter + between.T @ (between * moments.counts[:, None])
    size = float(np.trace(G)) / len(G) or 1.0  # constant features have none
    G += ridge * size * np.eye(len(G))
    return mean.astype(np.float32), mean, inverse(G), int(moments.counts.sum())


def _rows(
    shared: Any, counts: NDArray[np.int64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G^-1 times the column of Q, and the class's share of the samples."""
    centre, mean, inverted, total = shared
    weights = ((means - mean) * counts[:, None]) @ inverted
    return weights, counts / total + weights @ (centre - mean)
