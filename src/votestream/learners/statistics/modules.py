"""The predictors of the learners on statistics as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
    """The random features of a `Layer`, times the weights."""

    W: Tensor  # (D, M)
    weights: Tensor  # (M, C)

    def __init__(self, kind: str, link: Link, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.kind = kind
        self.link = link

    def scores(self, X: Tensor) -> Tensor:
        Z, buffers = X @ self.W, dict(self.named_buffers())
        if self.kind == "relu":
            H = Z.clamp(min=0)
        elif self.kind == "sigmoid":
            H = Z.sigmoid()
        else:
            H = (Z + buffers["b"]).cos()
        if "bias" not in buffers:
            return H @ self.weights
        return (H - buffers["centre"]) @ self.weights + buffers["bias"]


class MeanModule(nn.Module):
    """The mean of several modules' probabilities."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        shares = torch.stack([part(X)[1] for part in self.parts]).mean(0)
        return shares.argmax(1), shares


class MetricModule(ScoresModule):
    """`MetricRule` on tensors."""

    means: Tensor  # (C, D)
    whiten: Tensor  # (C, D, D)
    bias: Tensor  # (C,)

    def __init__(self, power: float, unit_rows: bool, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.power = power
        self.unit_rows = unit_rows

    def scores(self, X: Tensor) -> Tensor:
        seen = power_of(X, self.power)
        if self.unit_rows:
            length = seen.square().sum(1, keepdim=True).sqrt()
            seen = seen / torch.where(length > 0, length, 1.0)
        z = (seen - self.means[:, None]) @ self.whiten  # (C, n, D)
        return z.square().sum(2).T * -0.5 + self.bias
