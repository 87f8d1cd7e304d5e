"""The predictors of the learners on statistics as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from votestream.core.modules import Link, LogScoresModule, ScoresModule, log_of, log_softmax


def power_of(X: Tensor, power: float) -> Tensor:
    """`to_power` on tensors."""
    if power == 1:
        return X
    size = X.abs()
    return torch.where(X < 0, -1.0, 1.0) * (size.sqrt() if power == 0.5 else size**power)


def log_onto_simplex(scores: Tensor) -> Tensor:
    """Logarithms of `linear_rule.onto_simplex` on tensors."""
    scores = scores - scores.amax(1, keepdim=True)
    high = scores.topk(scores.shape[1], dim=1).values
    excess = (high.cumsum(1) - 1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    last = (high > excess).float().sum(1, keepdim=True).long() - 1
    return log_of((scores - excess.gather(1, last)).clamp(min=0))


class LinearModule(ScoresModule):
    """W (x - centre) + bias."""

    table: Tensor  # (D, C)
    bias: Tensor
    centre: Tensor

    def __init__(self, link: Link = log_softmax, **arrays: NDArray[Any]) -> None:
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


class MeanModule(LogScoresModule):
    """The mean of several modules' probabilities."""

    def __init__(self, modules: Sequence[LogScoresModule]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        parts = cast("list[LogScoresModule]", self.parts)
        # Spelled out: log_softmax and logsumexp of OpenCV are logarithms of what float32 has no more.
        scores = torch.stack([part.log_scores(X)[1] for part in parts])
        scores = scores - scores.amax(2, keepdim=True)
        log = scores - scores.exp().sum(2, keepdim=True).log()
        largest = log.amax(0)
        log = largest + (log - largest).exp().sum(0).log()
        return log.argmax(1), log


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
