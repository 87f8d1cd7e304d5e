"""What a track record adds to a prediction, as torch modules; the same sums as in calibration.py and unknowns.py."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from votestream.tracking.calibration import LEAST_GAP, TINY, Calibration
from votestream.tracking.unit_moments import WIDEST, signs
from votestream.tracking.unknowns import RELATIVE, Unknowns

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
    """Unknown scores of rows, (n,) float32."""

    signs: Tensor
    centre: Tensor
    whiten: Tensor
    means: Tensor
    sizes: Tensor
    overall: Tensor
    met: Tensor

    def __init__(self, unknowns: Unknowns, width: int) -> None:
        super().__init__()
        distances = unknowns.distances
        self.usual, self.expected = distances.usual, distances.metric.expected
        self.wide = width > WIDEST
        if self.wide:
            self.register_buffer("signs", torch.tensor(signs(width)))
        self.register_buffer("met", torch.tensor(unknowns.met))
        for name in ("centre", "whiten", "means", "sizes", "overall"):
            self.register_buffer(name, torch.tensor(getattr(distances, name)))

    def forward(self, X: Tensor) -> Tensor:
        unit = unit_length(X)
        if self.wide:
            unit = unit @ self.signs
        z = (unit - self.centre) @ self.whiten
        to_classes = z.square().sum(1, keepdim=True) - 2 * (z @ self.means.T) + self.sizes
        apart = to_classes.amin(1) - RELATIVE * (z @ self.overall).square().sum(1)
        strangeness = (apart - self.usual) / self.expected
        if not len(self.met):  # nothing was tested yet, and ONNX has no sum of nothing
            return strangeness * 0
        above = (self.met >= strangeness[:, None]).float().sum(1)
        return 1 - (above + 1) / (len(self.met) + 1)


def unit_length(X: Tensor) -> Tensor:
    """The rows of unit length; a row of zeros stays so. Squares of numbers far from 1 leave float32: divided first."""
    largest = X.abs().amax(1, keepdim=True)
    rows = X / torch.where(largest > 0, largest, 1.0)
    length = rows.square().sum(1, keepdim=True).sqrt()
    return rows / torch.where(length > 0, length, 1.0)
