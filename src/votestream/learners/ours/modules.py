"""The predictors of CandidatesVoting and GaussianVoting as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream import voting
from votestream.core.modules import LogScoresModule, ScoresModule, log_of, taken_from
from votestream.learners.exemplars.modules import HeadModule, NearestModule
from votestream.learners.statistics.modules import power_of


class VoteModule(LogScoresModule):
    """Candidates, prior, vote: Eq. 3 to 5, as `VotePredictor` has them."""

    table: Tensor  # (N, m)
    norms: Tensor  # (C,)
    task_of_class: Tensor  # (C,)

    def __init__(self, head: HeadModule, near: NearestModule, beta: float, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.head, self.near, self.beta = head, near, max(beta, voting.EPS_R)

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """A task's score, s_hat + exp(gamma - 1) w, is taken over exp(gamma - 1), which is the same for all tasks.

        So exp(1 - gamma) may become 0 and nothing overflows; what is left of a task without exemplars is then s_hat's
        logarithm less gamma - 1.
        """
        logits = self.head.scores(X)
        by_task = logits[:, self.table]
        s, place = by_task.amax(2), by_task.argmax(2, keepdim=True)
        candidates = taken_from(self.table, place)[:, :, 0]
        s_hat = voting.normalise(s, self.norms[candidates])
        w = voting.prior(self.near(X))
        calm = 1 - voting.confidence(w) / self.beta
        score = s_hat * calm.exp() + w
        chosen = candidates.gather(1, score.argmax(1, keepdim=True))[:, 0]
        log = torch.where(w > 0, log_of(score), log_of(s_hat) + calm)
        return chosen, logits + (log - s)[:, self.task_of_class]


class NearestClassModule(LogScoresModule):
    """decide="nearest": the class of the nearest exemplar, and the prior class by class."""

    def __init__(self, near: NearestModule) -> None:
        super().__init__()
        self.near = near

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        distances = self.near(X)
        return distances.argmin(1), log_of(1 / (distances + voting.EPS_R))


class DensitiesModule(ScoresModule):
    """Log densities of every class, also where `Shortlist` takes those of a few."""

    centre: Tensor  # (D,)
    whiten: Tensor  # (D, D)
    means: Tensor  # (D, C) over d
    narrow: Tensor  # (C,)
    bias: Tensor  # (C,)
    directions: Tensor  # (D, C r)
    across: Tensor  # (C, r)
    spare: Tensor  # (C,)

    def __init__(
        self, power: float, terms: float | tuple[float, float], farthest: float, **arrays: NDArray[Any]
    ) -> None:
        super().__init__(**arrays)
        self.power, self.terms, self.farthest = power, terms, farthest

    def link(self, scores: Tensor) -> Tensor:
        """Over the temperature of each row: see `Temperature`."""
        if not isinstance(self.terms, tuple):
            return scores / self.terms
        base, slope = self.terms
        if scores.shape[1] == 1:
            return scores / base
        front = scores.topk(2, dim=1).indices
        return scores / (base + slope * self.spare[front].mean(1, keepdim=True))

    def scores(self, X: Tensor) -> Tensor:
        Z = (power_of(X, self.power) - self.centre) @ self.whiten
        Z = Z.clamp(-self.farthest, self.farthest)
        distance = Z.square().sum(1, keepdim=True) * self.narrow - 2 * (Z @ self.means)
        n_classes, rank = self.across.shape
        if not rank:
            return (-distance - self.bias) * 0.5
        along = (Z @ self.directions.float()).reshape(-1, n_classes, rank) - self.across
        return (along.square().sum(2) - distance - self.bias) * 0.5
