"""KLDA: "Continual Learning Using a Kernel-Based Method Over Foundation Models" (Momeni, Mazumder and Liu, 2024)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch

from votestream.common.parameters import Ranges, choice, real, whole
from votestream.compute.place import Place
from votestream.core.registry import register
from votestream.core.settings import given_or_preset
from votestream.learners.statistics.linear_rule import softmax
from votestream.learners.statistics.random_features import (
    Head,
    Layer,
    RandomFeaturesLearner,
    RandomFeaturesRule,
    RandomFeatureSums,
    definite_solution,
)
from votestream.learners.statistics.shrinkage import oas
from votestream.memory import ClassGramSums

ROUNDING = 1e-7  # of sums in float32
WIDEST = 1e6  # gamma: beyond it no two rows are alike, and at some point float32 overflows


@register("klda")
class KLDA(RandomFeaturesLearner):
    r"""Linear discriminant analysis on random Fourier features of an RBF kernel, by several draws that are averaged.

    .. math::
        \hat y = \arg\max_c \; \frac{1}{E} \sum_e \operatorname{softmax}_c \left(h_e^\top S_e^{-1} m_{e,c}
        - \tfrac{1}{2} m_{e,c}^\top S_e^{-1} m_{e,c}\right), \qquad h_e = \cos(x W_e + b_e)

    A draw's features h = cos(x W + b), W normal and b uniform, have products that estimate the kernel
    exp(-gamma |x - x'|² / (D scale²)); the factor sqrt(2 / M) changes no answer and is left out. In their space classes
    have means m_c and share the covariance S within them: the score is h S' m_c - m_c S' m_c / 2, S' the inverse of S,
    shrunk as `slda` does it. The answer is the mean of the draws' softmaxes. One draw is the arithmetic of `randumb`.

    Kept for each draw: 4 M (M + C) + 8 C bytes, from which S follows; W and b, 4 M (D + 1), made from the seed and
    not in the file; at most 128 rows that wait. Learning costs M² multiplications a sample and draw, solving M³ / 3.

    Take it where memory is free and classes are few with many samples each: with its paper's 5 draws of 5,000 random
    features, half a gigabyte, it is the best on plain features of CIFAR-10. With little room it is behind.

    Reference: Saleh Momeni, Sahisnu Mazumder and Bing Liu, "Continual Learning Using a Kernel-Based Method Over
    Foundation Models", AAAI 2025.

    Parameters
    ----------
    projection : M, the random features of a draw.
    draws : E, the ensemble.
    gamma : of the kernel. The paper's own sigma is gamma / (D scale²).
    scale : what features are divided by; "auto" is the root mean square of the first row, as a power of two. Models
        that are to be merged need the same.
    shrinkage : epsilon of S, as in `slda`, above 0, at most 1; "oas" estimates it (Chen et al., 2010).
    preset : "paper" takes the paper's 5,000 random features and 5 draws, unless these are given other values than their
        defaults.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : "auto" is the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is half as long again, as
        solving takes seconds), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "not")  # no line can tell
    >>> model = vs.KLDA(projection=100, draws=2, gamma=1.0, scale=1.0).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    parameter_ranges: ClassVar[Ranges] = {
        "draws": whole(1, 1000),
        "gamma": real(1e-9, 1e6),  # beyond it no two rows are alike, and at some point float32 overflows
        "preset": choice(None, "paper"),
        "shrinkage": real(1e-12, 1, "oas"),
    }
    fixed_parameters: tuple[str, ...] = ("projection", "draws", "gamma", "scale", "preset")
    paper: ClassVar[dict[str, Any]] = {"projection": 5000, "draws": 5}

    def __init__(
        self,
        projection: int = 1000,
        draws: int = 3,
        gamma: float = 0.03,
        scale: float | str = "auto",
        shrinkage: float | str = 1e-4,
        preset: str | None = None,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.projection = projection
        self.draws = draws
        self.gamma = gamma
        self.scale = scale
        self.shrinkage = shrinkage
        self.preset = preset
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_memory(self, width: int) -> RandomFeatureSums:
        n_random, draws = given_or_preset(self, "projection", self.paper), self.n_draws()
        draw = partial(_draw, gamma=self.gamma, draws=draws)
        return RandomFeatureSums(
            width, n_random, draw, Place(self.device), self.seed, draws, kind=ClassGramSums, scale=self.scale
        )

    def n_draws(self) -> int:
        """How many layers are drawn."""
        draws: int = given_or_preset(self, "draws", self.paper)
        return draws

    def new_predictor(self) -> RandomFeaturesRule:
        memory = self.memory_
        heads = [self._discriminant(layer, each) for layer, each in zip(memory.layers, memory.now(), strict=True)]
        return RandomFeaturesRule(heads, softmax, memory.place)

    def _discriminant(self, layer: Layer, sums: ClassGramSums) -> Head:
        """Weights S' (m_c - m) and biases, about the overall mean m, which changes no decision and saves digits."""
        S, means = sums.within(len(self.state_.numbers))
        shrinkage = oas(S, int(sums.counts.sum())) if self.shrinkage == "oas" else float(self.shrinkage)
        variance = max(float(S.diagonal().mean()), ROUNDING)  # classes of one sample have none
        shares = torch.from_numpy(sums.counts / sums.counts.sum()).to(S)
        centre = (means @ shares)[:, None]
        apart = means - centre
        weights, _ = definite_solution((1 - shrinkage) * S, apart, shrinkage * variance)
        bias, place = -0.5 * (apart * weights).sum(0), self.memory_.place
        tables = (place.put(table.cpu().numpy()) for table in (weights, centre[:, 0], bias))
        return Head(layer, next(tables), shrinkage, *tables)


def _draw(
    width: int, n_random: int, scale: float, generator: torch.Generator, place: Place, gamma: float, draws: int
) -> list[Layer]:
    spread = (2 * gamma / width) ** 0.5 / scale
    return [Layer.drawn("cos", width, n_random, spread, generator, place) for _ in range(draws)]
