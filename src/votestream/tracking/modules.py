"""What a track record adds to a prediction, as torch modules; the same sums as in calibration.py and unknowns.py."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from votestream.tracking.calibration import LEAST_GAP, TINY, Calibration
from votestream.tracking.unit_moments import WIDEST, signs
from votestream.tracking.unknowns import NOTHING, SPREAD, UNKNOWN_SHARE, USUAL, Unknowns

LOG_TINY = math.log(TINY)


class CalibrationModule(nn.Module):
    """Calibrated log scores of those that a predictor gives, (n, C): log probabilities up to a constant of each row."""

    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        self.heat, self.trust = calibration

    def forward(self, log: Tensor) -> Tensor:
        if not self.trust or log.shape[1] == 1:
            return log
        log = log - log.amax(1, keepdim=True)
        log = torch.maximum(log, log.exp().sum(1, keepdim=True).log() + LOG_TINY)
        gap = (log.sum(1, keepdim=True) * (-1 / (log.shape[1] - 1))).clamp(min=LEAST_GAP)
        return log / (self.heat * gap.sqrt()) ** self.trust


class UnknownsModule(nn.Module):
    """Unknown scores of rows and the probability that they are of a known class, (n,) float32 both."""

    signs: Tensor
    centre: Tensor
    whiten: Tensor
    means: Tensor
    sizes: Tensor
    overall: Tensor
    seen: Tensor

    def __init__(self, unknowns: Unknowns, width: int) -> None:
        super().__init__()
        distances = unknowns.distances
        self.relative, self.typical = distances.relative, distances.typical
        self.rule, self.can_tell = unknowns.rule, unknowns.can_tell
        self.can_score = unknowns.can_score
        self.wide = width > WIDEST
        if self.wide:
            self.register_buffer("signs", torch.tensor(signs(width)))
        self.register_buffer("seen", torch.tensor(unknowns.seen))
        for name in ("centre", "whiten", "means", "sizes", "overall"):
            self.register_buffer(name, torch.tensor(getattr(distances, name)))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        unit = unit_length(X)
        if self.wide:
            unit = unit @ self.signs
        z = (unit - self.centre) @ self.whiten
        to_classes = z.square().sum(1, keepdim=True) - 2 * (z @ self.means.T) + self.sizes
        apart = to_classes.amin(1) - self.relative * (z @ self.overall).square().sum(1)
        ood = (apart / self.typical).clamp(min=float(NOTHING)).log()
        unknown = ood * 0
        if self.can_score:
            above = USUAL * (ood * (-1 / SPREAD)).sigmoid()
            if len(self.seen):  # ONNX has no sum of nothing
                above = above + (self.seen >= ood[:, None]).float().sum(1)
            unknown = 1 - above / (len(self.seen) + USUAL)
        a, b = self.rule
        known = (a + b * ood + math.log((1 - UNKNOWN_SHARE) / UNKNOWN_SHARE)).sigmoid()
        if not self.can_tell:
            known = known * torch.nan
        return unknown, known


def unit_length(X: Tensor) -> Tensor:
    """The rows of unit length; a row of zeros stays so. Squares of numbers far from 1 leave float32: divided first."""
    largest = X.abs().amax(1, keepdim=True)
    rows = X / torch.where(largest > 0, largest, 1.0)
    length = rows.square().sum(1, keepdim=True).sqrt()
    return rows / torch.where(length > 0, length, 1.0)
