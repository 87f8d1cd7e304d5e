"""FeCAM: "Exploiting the Heterogeneity of Class Distributions in Exemplar-Free CL" (Goswami et al., NeurIPS 2023)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import Ranges, real
from votestream.compute.linalg import whitening
from votestream.compute.place import Place
from votestream.core.registry import register
from votestream.learners.statistics.metric_rule import MetricRule, row_lengths
from votestream.learners.statistics.moment_learner import MomentLearner
from votestream.memory import Moments

JITTER = 1e-6  # of a correlation matrix's unit diagonal: the shrunk one may still be singular


@register("fecam")
class FeCAM(MomentLearner):
    r"""A mean and a covariance of its own for every class; the smallest Mahalanobis distance decides.

    .. math::
        \hat y = \arg\min_c \; (x - \mu_c)^\top R_c^{-1} (x - \mu_c), \qquad
        R_c = \operatorname{corr}\left(\Sigma_c + \gamma V_1 I + \gamma V_2 (1 - I)\right)

    Each row goes through Tukey's transform, sign(x) |x|^tukey, which makes features behind a ReLU more like a
    Gaussian. A class's covariance is shrunk, Sigma + gamma V1 I + gamma V2 (1 - I), with V1 and V2 its mean
    diagonal and off-diagonal element, and then normalised to a correlation matrix. Distances are taken from
    the row to the mean, both of unit length, all as in the paper's many-shot setting. So it matters where zero is:
    features that are all positive, or share an offset, may give an accuracy a few points from that of centred ones.

    Kept: 8 C (D + 1) + 4 C D² bytes, the scatters in float32, and at most 1024 rows that wait to be merged;
    having answered, as much again for the inverses. Means are those of the transformed rows, so one set of
    moments is enough; the authors' code transforms the means of the rows instead.

    Take it where classes differ in their spread and a full covariance of each has room, 4 D² bytes. `GaussianVoting`
    keeps the strongest directions of each instead.

    Reference: Dipam Goswami, Yuyang Liu, Bartłomiej Twardowski and Joost van de Weijer, "FeCAM: Exploiting the
    Heterogeneity of Class Distributions in Exemplar-Free Continual Learning", NeurIPS 2023.

    Parameters
    ----------
    gamma : gamma_1 and gamma_2 of the shrinkage. The authors' code shrinks twice by 1, which is 3 here.
    tukey : the power, 1 for none; "auto" is the paper's 0.5, or none if the first row has negative elements.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is 5 % longer, as preparing takes
        long), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> a, b, c = rng.normal(size=(3, 1000, 1))
    >>> X = 9 + np.concatenate((a, np.where(y[:, None] == 0, a, -a) + 0.2 * b, c), axis=1)  # the same means
    >>> [round(vs.create(name).partial_fit(X, y).score(X, y), 2) for name in ("slda", "fecam")]
    [0.53, 0.71]
    """

    scatter = "class"
    parameter_ranges: ClassVar[Ranges] = {"gamma": real(1e-9, 1e6), "tukey": real(1e-6, 100, "auto")}
    fixed_parameters = ("tukey",)
    test_growth = 1.05
    block = 1024  # rows merged at once: a class's matrix is written once a block, however few its rows

    def __init__(
        self,
        gamma: float = 1.0,
        tukey: float | str = "auto",
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.gamma = gamma
        self.tukey = tukey
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_memory(self, width: int) -> Moments:
        return Moments(width, self.scatter, self.block, self.tukey)

    def new_predictor(self) -> MetricRule:
        moments, power = self.memory_.now(), self.memory_.power
        assert power is not None
        means = moments.means / row_lengths(moments.means)
        whiten = np.stack([self._metric(scatter) for scatter in moments.scatter])
        bias = np.zeros(len(means))  # the distance alone decides
        return MetricRule.of(means, whiten, bias, Place(self.device), power, unit_rows=True)

    def _metric(self, scatter: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of the class's normalised covariance, which is the same whatever the scatter is divided by."""
        sigma, width = scatter.astype(np.float64), len(scatter)
        v1 = float(np.trace(sigma)) / width
        if not v1:  # one sample, or all the same: no direction is known from another
            return np.eye(width, dtype=np.float32)
        v2 = (float(sigma.sum()) - v1 * width) / max(1, width * (width - 1))
        sigma += self.gamma * (v2 + (v1 - v2) * np.eye(width))
        deviation = np.sqrt(np.diag(sigma))
        correlation = sigma / np.outer(deviation, deviation) + JITTER * np.eye(width)
        return whitening(correlation).astype(np.float32)
