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
    found: NDArray[np.float32] = np.copysign(np.sqrt(size) if power == 0.5 else size**power, X)
    return found


def first_power(power: float | str, rows: NDArray[np.float32]) -> float:
    """The power by a parameter: "auto" is 0.5, or 1 if the first row has negative elements.

    >>> first_power("auto", np.array([[4.0, 9.0]], np.float32)), first_power(0.3, np.array([[-1.0]], np.float32))
    (0.5, 0.3)
    """
    return (1.0 if (rows[0] < 0).any() else 0.5) if isinstance(power, str) else power
