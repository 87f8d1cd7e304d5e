"""The predictors of the learners on exemplars as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.common.validation import LARGEST
from votestream.core.modules import Holding, LogScoresModule, ScoresModule, log_of, taken_from

CLOSE = 4  # exemplars of a group whose distances are taken exactly: float32 may not tell which is nearest


class HeadModule(ScoresModule):
    """The logits of a head."""

    weights: Tensor  # (D, C)
    bias: Tensor

    def __init__(self, scale: float, clipped: bool, centre: bool, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.scale, self.clipped, self.centre = scale, clipped, centre

    def scores(self, X: Tensor) -> Tensor:
        inputs = X * self.scale
        if self.clipped:
            inputs = inputs.clamp(-LARGEST, LARGEST)
        if self.centre:
            inputs = inputs - inputs.mean(1, keepdim=True)
        return inputs @ self.weights + self.bias


class NearestModule(Holding):
    """Distances from rows to the nearest exemplar of each group, (n, n_groups); infinite where a group has none.

    Those that may be nearest are found by products, their distances then by differences: 0 for an equal row.
    """

    items: Tensor  # (E, D)
    middle: Tensor  # (D,)
    slots: Tensor  # (G, m) the exemplars of each group that has any; short rows repeat one
    column: Tensor  # (n_groups,) its place among those, or G

    def __init__(self, items: NDArray[np.float32], groups: NDArray[np.int64], n_groups: int) -> None:
        present, column = np.unique(groups), np.full(n_groups, -1)
        members = [np.flatnonzero(groups == group) for group in present]
        slots = np.stack([np.resize(own, max(map(len, members))) for own in members])
        column[present] = np.arange(len(present))
        column = np.where(column < 0, len(present), column)
        super().__init__(**centred(items), slots=slots, column=column)
        self.close = min(CLOSE, slots.shape[1])

    def forward(self, X: Tensor) -> Tensor:
        rows = X - self.middle
        squared = squared_distances(rows, self.items)[:, self.slots]
        close = taken_from(self.slots, squared.topk(self.close, dim=2, largest=False).indices)  # (n, G, close)
        distances = (rows[:, None, None] - self.items[close]).square().sum(3).amin(2).sqrt()
        return torch.cat((distances, torch.full_like(distances[:, :1], torch.inf)), 1)[:, self.column]


class VotersModule(LogScoresModule):
    """The k nearest exemplars vote."""

    items: Tensor  # (E, D)
    middle: Tensor  # (D,)
    labels: Tensor  # (E,)
    classes: Tensor  # (C,) their numbers
    counts: Tensor  # (k,) what a vote counts, the nearest first

    def __init__(self, k: int, eps: float | None, items: NDArray[np.float32], **arrays: NDArray[Any]) -> None:
        super().__init__(**centred(items), **arrays)
        self.k, self.eps = k, eps  # without eps all count alike

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        rows = X - self.middle
        nearest = squared_distances(rows, self.items).topk(self.k, dim=1, largest=False).indices
        distances = (rows[:, None] - self.items[nearest]).square().sum(2).sqrt()
        distances, order = distances.topk(self.k, dim=1, largest=False)
        weights = self.counts if self.eps is None else self.counts / (distances + self.eps)
        voters = self.labels[nearest.gather(1, order)]
        votes = ((voters[..., None] == self.classes).float() * weights[..., None]).sum(1)
        return votes.argmax(1), log_of(votes)


def centred(items: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """The exemplars less their mean, so that float32 is exact enough wherever features lie, and the mean."""
    middle = items.mean(0, dtype=np.float64).astype(np.float32)
    return {"items": items - middle, "middle": middle}


def squared_distances(rows: Tensor, items: Tensor) -> Tensor:
    """(n, E), up to what is the same in each row."""
    return items.square().sum(1) - 2 * (rows @ items.T)
