"""The predictors of CandidatesVoting and GaussianVoting as torch modules: see `Predictor.as_module`."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from votestream import voting
from votestream.core.modules import Holding, ScoresModule
from votestream.learners.exemplars.modules import HeadModule, NearestModule
from votestream.learners.statistics.modules import power_of


class VoteModule(Holding):
    """Candidates, prior, vote: Eq. 3 to 5, as `VotePredictor` has them."""

    table: Tensor  # (N, m)
    norms: Tensor  # (C,)
    task_of_class: Tensor  # (C,)

    def __init__(self, head: HeadModule, near: NearestModule, beta: float, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.head, self.near, self.beta = head, near, beta

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head.scores(X)
        s, candidates = voting.candidates(logits, self.table)
        s_hat = voting.normalise(s, self.norms[candidates])
        _, score = voting.combine(s_hat, voting.prior(self.near(X)), self.beta)
        chosen = candidates.gather(1, score.argmax(1, keepdim=True))[:, 0]
        score = score / score.amax(1, keepdim=True)
        short = logits.double() - s.double()[:, self.task_of_class]
        shares = score[:, self.task_of_class] * short.exp()
        return chosen, shares / shares.sum(1, keepdim=True)


class NearestClassModule(Holding):
    """decide="nearest": the class of the nearest exemplar, and the prior class by class."""

    def __init__(self, near: NearestModule) -> None:
        super().__init__()
        self.near = near

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        distances = self.near(X)
        return distances.argmin(1), voting.prior(distances.double())


class DensitiesModule(ScoresModule):
    """Log densities of every class, also where `Shortlist` takes those of a few."""

    centre: Tensor  # (D,)
    whiten: Tensor  # (D, D)
    means: Tensor  # (D, C) over d
    narrow: Tensor  # (C,)
    bias: Tensor  # (C,)
    directions: Tensor  # (D, C r)
    across: Tensor  # (C, r)

    def __init__(self, power: float, temperature: float, farthest: float, **arrays: NDArray[Any]) -> None:
        super().__init__(**arrays)
        self.power, self.temperature, self.farthest = power, temperature, farthest

    def link(self, scores: Tensor) -> Tensor:
        return (scores / self.temperature).softmax(1)

    def scores(self, X: Tensor) -> Tensor:
        Z = (power_of(X, self.power) - self.centre) @ self.whiten
        Z = Z.clamp(-self.farthest, self.farthest)
        distance = Z.square().sum(1, keepdim=True) * self.narrow - 2 * (Z @ self.means)
        n_classes, rank = self.across.shape
        if not rank:
            return (-distance - self.bias) * 0.5
        along = (Z @ self.directions.float()).reshape(-1, n_classes, rank) - self.across
        return (along.square().sum(2) - distance - self.bias) * 0.5
