"""FOAL: "F-OAL: Forward-only Online Analytic Learning with Fast Training and Low Memory" (Zhuang et al., 2024)."""

from __future__ import annotations

from typing import ClassVar

import torch

from votestream.common.parameters import Ranges, real
from votestream.compute.place import Place
from votestream.core.registry import register
from votestream.learners.statistics.linear_rule import onto_simplex
from votestream.learners.statistics.random_features import (
    Head,
    Layer,
    RandomFeaturesLearner,
    RandomFeaturesRule,
    RandomFeatureSums,
)


@register("foal")
class FOAL(RandomFeaturesLearner):
    r"""Recursive least squares of the one-hot labels on random features h = sigmoid(x W / scale), W fixed.

    .. math::
        \hat y = \arg\max_c \; h(x)^\top (G + \lambda I)^{-1} Q_c, \qquad
        G = \sum_i h_i h_i^\top, \quad Q = \sum_i h_i y_i^\top

    The weights are (G + lambda I)^-1 Q with G = sum h h^T and Q = sum h y^T, always. The paper's recursion brings the
    inverse up to date for every mini-batch (Woodbury's identity); here G and Q stream in, in float32, and the same
    weights are solved for in float64 when an answer is asked for, once. It is RanPAC's arithmetic, with the sigmoid for
    the ReLU and lambda given, not chosen.

    The paper fuses the features of several layers of the frozen network (the mean of its blocks' outputs). Here that is
    the backbone's part, `stages=`, which puts them side by side; this learner takes whatever features it is given.

    Kept: 4 M (M + C) bytes; W, 4 D M, made from the seed and not in the file; at most 128 rows that wait. Learning
    costs M² multiplications a sample, solving M³ / 3.

    Take it to compare with; `ranpac` chooses lambda itself.

    Reference: Huiping Zhuang et al., "F-OAL: Forward-only Online Analytic Learning with Fast Training and Low Memory
    Footprint in Class Incremental Learning", NeurIPS 2024.

    Parameters
    ----------
    projection : M, the random features; the paper takes 1,000.
    ridge : lambda; the paper takes 1.
    scale : what features are divided by; "auto" is the root mean square of the first row, as a power of two. Models
        that are to be merged need the same.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : "auto" is the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is half as long again, as
        solving takes long), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) + 2
    >>> y = np.where((X[:, 0] > 2) == (X[:, 1] > 2), "both or none", "one")  # no line can tell
    >>> model = vs.FOAL(projection=100, ridge=1e-4).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    parameter_ranges: ClassVar[Ranges] = {"ridge": real(1e-12, 1e12)}
    fixed_parameters = ("projection", "scale")
    bearable_offset = 30  # divided by a size that is nearly all mean, no row is far enough from another for the sigmoid

    def __init__(
        self,
        projection: int = 1000,
        ridge: float = 1.0,
        scale: float | str = "auto",
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.projection = projection
        self.ridge = ridge
        self.scale = scale
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_memory(self, width: int) -> RandomFeatureSums:
        return RandomFeatureSums(width, self.projection, _draw, Place(self.device), self.seed, scale=self.scale)

    def new_predictor(self) -> RandomFeaturesRule:
        memory = self.memory_
        G, Q = next(memory.now()).system(len(self.state_.numbers))
        head = Head.solved(memory.layers[0], G, Q, float(self.ridge), memory.place)
        return RandomFeaturesRule([head], onto_simplex, memory.place)


def _draw(width: int, n_random: int, scale: float, generator: torch.Generator, place: Place) -> list[Layer]:
    """W so that x W is about 1: where the sigmoid bends."""
    return [Layer.drawn("sigmoid", width, n_random, width**-0.5 / scale, generator, place)]
