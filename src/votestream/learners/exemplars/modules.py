"""The predictors of the learners on exemplars as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.common.validation import LARGEST
from votestream.core.modules import Holding, ScoresModule


class HeadModule(ScoresModule):
    """The logits of a head."""

    weights: Tensor  # (D, C)
    bias: Tensor

    def __init__(self, scale: float, clipped: bool, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.scale, self.clipped = scale, clipped

    def scores(self, X: Tensor) -> Tensor:
        inputs = X * self.scale
        return (inputs.clamp(-LARGEST, LARGEST) if self.clipped else inputs) @ self.weights + self.bias


class NearestModule(Holding):
    """Distances from rows to the nearest exemplar of each group, (n, n_groups); infinite where a group has none.

    Which one is nearest is found in float64 by products, its distance then by the difference: 0 for an equal row.
    """

    items: Tensor  # (E, D)
    slots: Tensor  # (G, m) the exemplars of each group that has any; short rows repeat one
    column: Tensor  # (n_groups,) its place among those, or G

    def __init__(self, items: NDArray[np.float32], groups: NDArray[np.int64], n_groups: int) -> None:
        present, column = np.unique(groups), np.full(n_groups, -1)
        members = [np.flatnonzero(groups == group) for group in present]
        slots = np.stack([np.resize(own, max(map(len, members))) for own in members])
        column[present] = np.arange(len(present))
        super().__init__(items=items, slots=slots, column=np.where(column < 0, len(present), column))

    def forward(self, X: Tensor) -> Tensor:
        squared = squared_distances(X, self.items)[:, self.slots]
        nearest = self.slots[torch.arange(len(self.slots)), squared.argmin(2)]
        distances = (X[:, None] - self.items[nearest]).square().sum(2).sqrt()
        return torch.cat((distances, torch.full_like(distances[:, :1], torch.inf)), 1)[:, self.column]


class VotersModule(Holding):
    """The k nearest exemplars vote."""

    items: Tensor  # (E, D)
    labels: Tensor  # (E,)
    classes: Tensor  # (C,) their numbers
    counts: Tensor  # (k,) what a vote counts, the nearest first

    def __init__(self, k: int, eps: float | None, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.k, self.eps = k, eps  # without eps all count alike

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        nearest = squared_distances(X, self.items).topk(self.k, dim=1, largest=False).indices
        distances = (X[:, None] - self.items[nearest]).double().square().sum(2).sqrt()
        distances, order = distances.sort(1)
        weights = self.counts if self.eps is None else self.counts / (distances + self.eps)
        voters = self.labels[nearest.gather(1, order)]
        votes = ((voters[..., None] == self.classes) * weights[..., None]).sum(1)
        shares = votes / votes.sum(1, keepdim=True)
        return shares.argmax(1), shares


def squared_distances(X: Tensor, items: Tensor) -> Tensor:
    """(n, E) in float64, up to what is the same in each row."""
    middle = items.double().mean(0)
    points = items.double() - middle
    return points.square().sum(1) - 2 * ((X.double() - middle) @ points.T)
