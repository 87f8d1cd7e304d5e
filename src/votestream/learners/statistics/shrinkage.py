"""How far a covariance is drawn towards one that is the same in all directions."""

from __future__ import annotations

from typing import Any

import numpy as np


def oas(S: Any, samples: int) -> float:
    """The shrinkage of a covariance of so many samples that is expected to be nearest to the truth, were it Gaussian.

    S : an array or a tensor, (D, D).

    >>> round(oas(np.diag([1.0, 2.0, 3.0]), samples=100), 3)
    0.203
    """
    width = len(S)
    squares, trace = float((S * S).sum()), float(S.diagonal().sum()) ** 2
    apart = (samples + 1 - 2 / width) * (squares - trace / width)
    return float(np.clip(((1 - 2 / width) * squares + trace) / apart, 1e-6, 1)) if apart > 0 else 1.0
