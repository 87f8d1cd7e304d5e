"""Models as torch modules, for who takes them to a place without Python: see `Predictor.as_module`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from votestream.core.guard import Prepared
from votestream.life.modules import CalibrationModule, UnknownsModule

Link = Callable[[Tensor], Tensor]  # of float64 scores to probabilities


def softmax(scores: Tensor) -> Tensor:
    return scores.softmax(1)


class Holding(nn.Module):
    """A module whose arrays are its buffers."""

    def __init__(self, **arrays: NDArray[Any]) -> None:
        super().__init__()
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array))


class ScoresModule(Holding):
    """A predictor that decides by the largest score. A subclass has `scores`, (n, C), of rows."""

    link: Link = staticmethod(softmax)

    def scores(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.scores(X)
        return scores.argmax(1), self.link(scores.double())


class SnapshotModule(Holding):
    """Predicts as users see it: classes by their place in `classes_`, probabilities calibrated, in that order too.

    Rows (n, D), or images as the network reads them, to the class (n,) int64, the probabilities (n, C) float32 and,
    where there is a track record, the unknown scores (n,) float32.
    """

    place: Tensor
    order: Tensor

    def __init__(self, prepared: Prepared, unit: float, width: int) -> None:
        order = prepared.naming.order.astype(np.int64)
        super().__init__(order=order, place=order.argsort())
        self.predictor = prepared.predictor.as_module()
        self.unit = unit
        answers = prepared.answers
        self.calibration = None if answers is None else CalibrationModule(answers.calibration)
        self.unknowns = None if answers is None else UnknownsModule(answers.unknowns, width)

    def forward(self, X: Tensor) -> tuple[Tensor, ...]:
        rows = X if self.unit == 1 else X * self.unit
        chosen, shares = self.predictor(rows)
        if self.calibration is not None:
            shares = self.calibration(shares)
        decided = self.place[chosen], shares[:, self.order].float()
        return decided if self.unknowns is None else (*decided, self.unknowns(rows))
