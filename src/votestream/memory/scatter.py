"""One covariance for all classes, kept as the lower half of its matrix."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import sger

from votestream.io.array_checks import check_below, check_scatter, take

FULL = float(np.finfo(np.float32).max)
SLACK = 1e-4  # what rounding may take from its being positive semidefinite, relative to its diagonal
STRIPS, NARROW = 16, 20  # most strips, and rows of the narrowest: more keep less, and make the products smaller


class SharedScatter:
    """The sum of x x^T over rows, in float32: strips of the matrix's rows, each up to the diagonal and no farther.

    >>> scatter = SharedScatter(width=2)
    >>> scatter.add(np.array([[1.0, 2.0], [0.0, 1.0]], np.float32))
    >>> scatter.matrix().tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """

    def __init__(self, width: int) -> None:
        self._ends = _ends(width)
        self._starts = [0, *self._ends[:-1]]
        bounds = zip(self._starts, self._ends, strict=True)
        self.strips = [np.zeros((end - start, end), np.float32) for start, end in bounds]

    @staticmethod
    def bytes_for(width: int) -> int:
        ends = _ends(width)
        return 4 * sum((end - start) * end for start, end in zip([0, *ends[:-1]], ends, strict=True))

    def add(self, rows: NDArray[np.float32]) -> None:
        for strip, start, end in zip(self.strips, self._starts, self._ends, strict=True):
            strip += rows[:, start:end].T @ rows[:, :end]

    def add_one(self, row: NDArray[np.float32]) -> None:
        """What `add` does with one row, in a third of the time: BLAS updates the strips where they are."""
        parts = zip(self.strips, self._starts, self._ends, strict=True)
        self.strips = [sger(1.0, row[:end], row[start:end], a=strip.T, overwrite_a=1).T for strip, start, end in parts]

    def set(self, matrix: NDArray[np.float64]) -> None:
        """Hold this matrix instead."""
        self.strips = [
            np.ascontiguousarray(matrix[start:end, :end], np.float32)
            for start, end in zip(self._starts, self._ends, strict=True)
        ]

    def matrix(self) -> NDArray[np.float64]:
        """(D, D), both halves."""
        width = self._ends[-1]
        whole = np.empty((width, width))
        for strip, start, end in zip(self.strips, self._starts, self._ends, strict=True):
            whole[start:end, :start] = strip[:, :start]
            whole[:start, start:end] = strip[:, :start].T
            square = strip[:, start:]
            whole[start:end, start:end] = np.where(_lower(end - start), square, square.T)
        return whole

    def copy(self) -> SharedScatter:
        twin = SharedScatter(self._ends[-1])
        twin.strips = [strip.copy() for strip in self.strips]
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        return {str(number): strip for number, strip in enumerate(self.strips)}

    def restore(self, state: dict[str, NDArray[Any]], largest: float) -> None:
        """`largest` is what its elements are at most."""
        self.strips = [take(state, str(i), np.float32, strip.shape, -FULL, FULL) for i, strip in enumerate(self.strips)]
        for number, strip in enumerate(self.strips):
            check_below(str(number), strip, largest)
        check_scatter("scatter", self.matrix, SLACK)


@cache
def _lower(width: int) -> NDArray[np.bool_]:
    """Where the lower half of a matrix is, its diagonal with it."""
    return np.tri(width, dtype=bool)


def _ends(width: int) -> list[int]:
    """Where the strips end."""
    n = min(STRIPS, max(1, width // NARROW))
    return [width * (i + 1) // n for i in range(n)]
