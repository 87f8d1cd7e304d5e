"""Models as torch modules, for who takes them to a place without Python: see `Predictor.as_module`.

All is float32: many runtimes have nothing else, and some read float64 as float32. Probabilities stay logarithms to the
end, as float32 holds the logarithm of 1e-300, and not the number itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from votestream.core.predictor import Prepared
from votestream.tracking.modules import CalibrationModule, UnknownsModule

Link = Callable[[Tensor], Tensor]  # of scores to log scores: log probabilities up to a constant of each row
SMALLEST = float(np.finfo(np.float32).tiny)
NEVER = -1e4  # the log score of what has no probability at all


def log_softmax(scores: Tensor) -> Tensor:
    """The scores themselves: what a softmax takes off is the same for a whole row."""
    return scores


def log_of(shares: Tensor) -> Tensor:
    """Logarithms of numbers that are not negative."""
    return torch.where(shares > 0, shares.clamp(min=SMALLEST).log(), NEVER)


def taken_from(table: Tensor, places: Tensor) -> Tensor:
    """Of each row i of the table (N, m) the entries at places[:, i]: (n, N, k) of (n, N, k)."""
    starts = torch.arange(len(table), device=table.device)[:, None] * table.shape[1]
    return table.flatten()[places + starts]


class Holding(nn.Module):
    """A module whose arrays are its buffers, float32 or integers."""

    def __init__(self, **arrays: NDArray[Any]) -> None:
        super().__init__()
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array.astype(np.float32) if array.dtype == np.float64 else array))


class LogScoresModule(Holding):
    """A predictor whose probabilities are the softmax of log scores.

    A subclass has `log_scores`: of rows the class numbers (n,) and the log scores (n, C).
    """

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        chosen, log = self.log_scores(X)
        return chosen, log.softmax(1)


class ScoresModule(LogScoresModule):
    """A predictor that decides by the largest score. A subclass has `scores`, (n, C), of rows."""

    link: Link = staticmethod(log_softmax)

    def scores(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def log_scores(self, X: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.scores(X)
        return scores.argmax(1), self.link(scores)


class SnapshotModule(Holding):
    """Predicts as users see it: classes by their place in `classes_`, probabilities calibrated, in that order too.

    Rows (n, D), or images as the network reads them, to the class (n,) int64, the probabilities (n, C) float32 and,
    where there is a track record, the unknown scores and the confidence, (n,) float32 both.
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
        chosen, log = self._log_scores(rows)
        if self.calibration is not None:
            log = self.calibration(log)
        decided = self.place[chosen], log[:, self.order].softmax(1)
        if self.unknowns is None:
            return decided
        unknown, known = self.unknowns(rows)
        return (*decided, unknown, known * decided[1].amax(1))

    def _log_scores(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.predictor, LogScoresModule):
            return self.predictor.log_scores(rows)
        chosen, shares = self.predictor(rows)  # of a module that is not ours
        return chosen, log_of(shares.float())
