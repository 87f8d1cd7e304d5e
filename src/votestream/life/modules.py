"""What a track record adds to a prediction, as torch modules; the same sums as in calibration.py and unknowns.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from votestream.life.calibration import LEAST_GAP, TINY, Calibration
from votestream.life.unit_moments import WIDEST, signs
from votestream.life.unknowns import RELATIVE, Unknowns


class CalibrationModule(nn.Module):
    """Calibrated probabilities of those that a predictor gives, (n, C) float64."""

    tiny: Tensor

    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        self.heat, self.trust = calibration
        self.register_buffer("tiny", torch.tensor(TINY, dtype=torch.float64))  # as an argument it would become float32

    def forward(self, shares: Tensor) -> Tensor:
        if not self.trust or shares.shape[1] == 1:
            return shares
        log = torch.maximum(shares, self.tiny).log()
        log = log - log.amax(1, keepdim=True)
        gap = (log.sum(1, keepdim=True) / -(shares.shape[1] - 1)).clamp(min=LEAST_GAP)
        return (log / (self.heat * gap.sqrt()) ** self.trust).softmax(1)


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
        length = X.double().square().sum(1, keepdim=True).sqrt()
        unit = (X.double() / torch.where(length > 0, length, 1.0)).float()
        if self.wide:
            unit = unit @ self.signs
        z = (unit - self.centre) @ self.whiten
        to_classes = z.square().sum(1, keepdim=True) - 2 * (z @ self.means.T) + self.sizes
        apart = to_classes.amin(1) - RELATIVE * (z @ self.overall).square().sum(1)
        strangeness = (apart - self.usual) / self.expected
        if not len(self.met):  # nothing was tested yet, and ONNX has no sum of nothing
            return strangeness * 0
        above = (self.met >= strangeness[:, None]).sum(1)
        return 1 - (above + 1) / (len(self.met) + 1)
