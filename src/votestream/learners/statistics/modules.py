"""The predictors of the learners on statistics as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.core.modules import Link, ScoresModule, softmax


def power_of(X: Tensor, power: float) -> Tensor:
    """`to_power` on tensors."""
    if power == 1:
        return X
    size = X.abs()
    return torch.where(X < 0, -1.0, 1.0) * (size.sqrt() if power == 0.5 else size**power)


def onto_simplex(scores: Tensor) -> Tensor:
    """`linear_rule.onto_simplex` on tensors."""
    scores = scores - scores.amax(1, keepdim=True)
    high = scores.sort(1, descending=True).values
    excess = (high.cumsum(1) - 1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    last = (high > excess).sum(1, keepdim=True) - 1
    shares = (scores - excess.gather(1, last)).clamp(min=0)
    return shares / shares.sum(1, keepdim=True)


class LinearModule(ScoresModule):
    """W (x - centre) + bias."""

    table: Tensor  # (D, C)
    bias: Tensor
    centre: Tensor

    def __init__(self, link: Link = softmax, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.link = link

    def scores(self, X: Tensor) -> Tensor:
        return (X - self.centre) @ self.table + self.bias


class RandomFeaturesModule(ScoresModule):
    """RanPAC's: max(0, x W) times the weights."""

    link = staticmethod(onto_simplex)
    W: Tensor  # (D, M)
    weights: Tensor  # (M, C)

    def scores(self, X: Tensor) -> Tensor:
        return (X @ self.W).clamp(min=0) @ self.weights


class MetricModule(ScoresModule):
    """FeCAM's: minus half the squared distance to each class's mean, by its own covariance, of unit rows."""

    means: Tensor  # (C, D)
    whiten: Tensor  # (C, D, D)

    def __init__(self, power: float, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.power = power

    def scores(self, X: Tensor) -> Tensor:
        seen = power_of(X, self.power)
        length = seen.square().sum(1, keepdim=True).sqrt()
        unit = seen / torch.where(length > 0, length, 1.0)
        z = (unit - self.means[:, None]) @ self.whiten  # (C, n, D)
        return z.square().sum(2).T * -0.5
