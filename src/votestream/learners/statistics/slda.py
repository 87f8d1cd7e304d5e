"""StreamingLDA: "Lifelong Machine Learning with Deep Streaming LDA" (Hayes and Kanan, CVPR workshops 2020)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import SWITCH, Ranges, real
from votestream.compute.linalg import inverse
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.learners.statistics.linear_rule import MomentRule
from votestream.learners.statistics.moment_learner import MomentLearner
from votestream.learners.statistics.shrinkage import oas
from votestream.memory import ClassMoments


@register("slda")
class StreamingLDA(MomentLearner):
    r"""Class means and one covariance that all classes share; the linear discriminant decides.

    .. math::
        \hat y = \arg\max_c \; \mu_c^\top \Lambda x - \tfrac12 \mu_c^\top \Lambda \mu_c, \qquad
        \Lambda = \left((1 - \varepsilon) \Sigma + \varepsilon v I\right)^{-1}

    Sigma is the within-class covariance of every sample seen, exact whatever the batch size, and epsilon the
    `shrinkage`. In the paper v = 1; here it is the mean variance tr(Sigma) / D, so that the scale of the features does
    not matter. The inverse is applied when an answer is
    asked for, once. Probabilities are Bayes' rule for Gaussian classes that share Sigma. Kept: 8 (C (D + 1) + D²)
    bytes, and at most 256 rows that wait to be merged.

    Take it for a linear model to use elsewhere, one weight row a class, learned in one pass.

    Reference: Tyler Hayes and Christopher Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant
    Analysis", CVPR workshops 2020.

    Parameters
    ----------
    shrinkage : epsilon, between 0 and 1: 1 makes it the nearest class mean. "oas" estimates it (Chen et al., 2010);
        take that where samples are not many times as many as features, as with the photos of a small folder.
    prior : favour classes seen more often, by the logarithm of their share; the paper does not.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> noise = rng.normal(size=(1000, 1)) * [5.0, 5.0] + 0.3 * rng.normal(size=(1000, 2))
    >>> X = noise + np.where(y[:, None] == 0, [0.0, 0.0], [1.0, -1.0])  # told apart only across the noise
    >>> [round(vs.create(name).partial_fit(X, y).score(X, y), 2) for name in ("ncm", "slda")]
    [0.59, 0.98]
    """

    scatter = "shared"
    parameter_ranges: ClassVar[Ranges] = {"shrinkage": real(1e-12, 1, "oas"), "prior": SWITCH}

    def __init__(
        self,
        shrinkage: float | str = 1e-4,
        prior: bool = False,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.shrinkage = shrinkage
        self.prior = prior
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_predictor(self) -> MomentRule:
        shared, rows = partial(_shared, shrinkage=self.shrinkage), partial(_rows, prior=self.prior)
        return MomentRule.of(self.memory_, shared, rows, Place(self.device))

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the discriminant, (C, D), as `classes_`."""
        return self.by_class(self.prepared().predictor.weights) * np.float32(self.state_.unit)

    @learned
    def covariance_(self) -> NDArray[np.float64]:
        """Sigma, within the classes, before shrinking, (D, D)."""
        moments = self.memory_.now()
        found: NDArray[np.float64] = moments.scatter / moments.counts.sum() / self.state_.unit**2
        return found


def _shared(moments: ClassMoments, shrinkage: float | str) -> tuple[NDArray[np.float32], NDArray[np.float64], int]:
    """The overall mean, Lambda, and the number of samples."""
    total = int(moments.counts.sum())
    sigma = moments.scatter / total
    variance = float(np.trace(sigma)) / len(sigma) or 1.0  # classes of one sample have none: all directions equal
    epsilon = oas(sigma, total) if shrinkage == "oas" else float(shrinkage)
    shrunk = (1 - epsilon) * sigma + epsilon * variance * np.eye(len(sigma))
    return moments.overall_mean().astype(np.float32), inverse(shrunk), total


def _rows(
    shared: Any, counts: NDArray[np.int64], means: NDArray[np.float64], prior: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """w = Lambda mean, b = -mean.Lambda mean / 2; both from the overall mean, which changes no decision."""
    centre, Lambda, total = shared
    means = means - centre
    weights = means @ Lambda
    bias = -0.5 * (weights * means).sum(1)
    return weights, bias + np.log(counts / total) if prior else bias
