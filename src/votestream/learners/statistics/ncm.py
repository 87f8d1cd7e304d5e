"""NearestClassMean: the plainest rule on frozen features, which every other method has to beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.compute.place import Place
from votestream.core.registry import register
from votestream.learners.statistics.linear_rule import MomentRule
from votestream.learners.statistics.moment_learner import MomentLearner
from votestream.memory import ClassMoments


@register("ncm")
class NearestClassMean(MomentLearner):
    r"""Keeps the mean of each class; the nearest mean, by Euclidean distance, decides.

    .. math:: \hat y = \arg\min_c \; \lVert x - \mu_c \rVert

    As in the paper below, without a learned metric. Kept: C (D + 1) numbers of 8 bytes, and at most 256 rows that
    wait to be merged. Probabilities are those of classes that are unit Gaussians about their means.

    Take it for the least memory, for a handful of samples a class, or as the line that other methods have to pass.

    Reference: Thomas Mensink, Jakob Verbeek, Florent Perronnin and Gabriela Csurka, "Distance-Based Image
    Classification: Generalizing to New Classes at Near-Zero Cost", TPAMI 2013.

    Parameters
    ----------
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import votestream as vs
    >>> model = vs.NearestClassMean().partial_fit([[0.0, 1.0], [0.0, 3.0], [5.0, 0.0]], ["a", "a", "b"])
    >>> model.class_means_.tolist()
    [[0.0, 2.0], [5.0, 0.0]]
    >>> model.predict([[1.0, 1.0]]).tolist()
    ['a']
    """

    def __init__(
        self, close_task_after: int = 20, batch_size: int = 10, seed: int = 0, device: str = "auto", track: bool = False
    ) -> None:
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_predictor(self) -> MomentRule:
        return MomentRule.of(self.memory_, _centre, _rows, Place(self.device))


def _centre(moments: ClassMoments) -> tuple[NDArray[np.float32]]:
    return (moments.overall_mean().astype(np.float32),)


def _rows(
    shared: Any, counts: NDArray[np.int64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """|x - mean|² is smallest where mean.x - |mean|²/2 is largest, from any origin; here the overall mean."""
    means = means - shared[0]
    return means, -0.5 * (means**2).sum(1)
