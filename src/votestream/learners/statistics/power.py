"""Features to a power: Tukey's transformation, by which the spread of ReLUs depends less on their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def to_power(X: NDArray[np.float32], power: np.float32) -> NDArray[np.float32]:
    """With its sign.

    >>> to_power(np.array([-4.0, 9.0], np.float32), np.float32(0.5)).tolist()
    [-2.0, 3.0]
    """
    if power == 1:
        return X
    size = np.abs(X)
    return np.copysign(np.sqrt(size) if power == 0.5 else size**power, X)
