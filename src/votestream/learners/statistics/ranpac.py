"""RanPAC: "Random Projections and Pre-trained Models for Continual Learning" (McDonnell et al., NeurIPS 2023)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.parameters import Ranges, choice, real
from votestream.compute.place import Array, Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.core.settings import given_or_preset
from votestream.io.array_checks import demand
from votestream.learners.statistics.linear_rule import onto_simplex
from votestream.learners.statistics.random_features import (
    Head,
    Layer,
    RandomFeaturesLearner,
    RandomFeaturesRule,
    RandomFeatureSums,
)
from votestream.memory.gram import System, ridge_solution

RIDGES = [10.0**power for power in range(-8, 9)]
BLOCK = 500
ROUNDING = 1e-7  # of float32: a lambda this small beside G is none
PAPER = {"projection": 10_000}


@register("ranpac")
class RanPAC(RandomFeaturesLearner):
    r"""Ridge regression of the one-hot labels on random non-linear features h = ReLU(x W), W fixed.

    .. math::
        \hat y = \arg\max_c \; \left[ h(x)^\top (G + \lambda I)^{-1} Q \right]_c, \qquad
        G = \sum_i h_i h_i^\top, \quad Q = \sum_i h_i y_i^\top

    G and Q stream in, in float32; the system is solved in float64 when an answer is asked for, once. The paper chooses
    lambda among 10^-8 to 10^8 on a fifth of each task held out. Here a fifth of the whole stream (fixed places of every
    500 rows, drawn by the seed) goes to a G and Q of its own, from which the held-out squared error of any solution
    follows, with no sample kept; the solution given out uses all of it.

    Kept: 8 M (M + C) bytes, half that with lambda given; W, 4 D M, made from the seed and not in the file; at
    most 500 rows that wait. Learning costs M² multiplications a sample, solving M³ / 3 for each lambda tried.

    Take it where memory is free and answers may wait: it lives on thousands of random features, and solves a system of
    that size when it is asked after learning.

    Reference: Mark McDonnell, Dong Gong, Amin Parvaneh, Ehsan Abbasnejad and Anton van den Hengel, "RanPAC: Random
    Projections and Pre-trained Models for Continual Learning", NeurIPS 2023.

    Parameters
    ----------
    projection : M, the random features.
    ridge : lambda, or "held-out" to choose it.
    preset : "paper" takes the paper's 10,000 random features, unless `projection` is given another value than its
        default.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : "auto" is the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is half as long again, as
        solving takes seconds), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "not")  # no line can tell
    >>> model = vs.RanPAC(projection=100).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    parameter_ranges: ClassVar[Ranges] = {"ridge": real(1e-12, 1e12, "held-out"), "preset": choice(None, "paper")}
    fixed_parameters = ("projection", "preset")
    bearable_offset = 100  # the squares of what random features share swamp the rest in float32

    def __init__(
        self,
        projection: int = 2000,
        ridge: float | str = "held-out",
        preset: str | None = None,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.projection = projection
        self.ridge = ridge
        self.preset = preset
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def new_memory(self, width: int) -> HeldOutSums:
        n_random = given_or_preset(self, "projection", PAPER)
        n_parts = 1 + (self.ridge == "held-out")
        return HeldOutSums(width, n_random, _draw, Place(self.device), self.seed, n_parts, block=BLOCK)

    def new_predictor(self) -> RandomFeaturesRule:
        memory, n_classes = self.memory_, len(self.state_.numbers)
        (G, Q), *held_out = [each.system(n_classes) for each in memory.now()]
        ridge = self._choose(G, Q, held_out) if self.ridge == "held-out" else float(self.ridge)
        for more_G, more_Q in held_out:
            G += more_G
            Q += more_Q
        head = Head.solved(memory.layers[0], G, Q, ridge, memory.place)
        return RandomFeaturesRule([head], onto_simplex, memory.place)

    def _choose(self, G: torch.Tensor, Q: torch.Tensor, held_out: list[System]) -> float:
        """lambda with the least squared error on what was held out: tr(W^T G' W) - 2 tr(W^T Q') and a constant."""
        if not held_out:
            raise ValueError("ridge='held-out' must be set before learning begins: nothing was held out")
        (held_G, held_Q), size, errors = held_out[0], float(G.diagonal().mean()), {}
        for ridge in RIDGES:
            if ridge > ROUNDING * size and (W := ridge_solution(G, Q, ridge)) is not None:
                errors[ridge] = float((W * (held_G @ W - 2 * held_Q)).sum())
        # Before anything was held out all are alike: the largest then, since little is known.
        return min(reversed(errors), key=errors.__getitem__) if errors else size

    @learned
    def ridge_(self) -> float:
        """The lambda in use: the one given, or the one chosen."""
        found: float = self.prepared().predictor.heads[0].found
        return found


class HeldOutSums(RandomFeatureSums):
    """Sums of the rows that are learned from and, where lambda is to be chosen, of those that are held out."""

    def _draw_more(self, generator: torch.Generator) -> None:
        self.part = np.zeros(BLOCK, np.int64)  # of each place in a block: 1 is held out
        self.part[torch.randperm(BLOCK, generator=generator)[: BLOCK // 5].numpy()] = self.n_parts - 1

    def _parts(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> list[tuple[Array, NDArray[np.int64]]]:
        [(H, _)], part = super()._parts(X, classes), self.part[: len(X)]
        if len(self.sums) == 1:
            return [(H, classes)]
        owners = [np.flatnonzero(part == number) for number in range(len(self.sums))]
        return [(H[self.place.put(own)], classes[own]) for own in owners]

    def _checked_parts(self, found: int) -> int:
        """Lambda may be given once something was held out, but not the other way round."""
        demand(found == 2 or self.n_parts == 1, "ridge is 'held-out', but nothing was held out")
        return 1 + (found > 1)


def _draw(width: int, n_random: int, scale: float, generator: torch.Generator, place: Place) -> list[Layer]:
    return [Layer.drawn("relu", width, n_random, 1.0, generator, place)]
