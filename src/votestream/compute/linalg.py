"""Linear algebra that several rooms share, by LAPACK itself and on one thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from votestream.compute.place import one_thread


def inverse(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """A^-1 for a symmetric positive definite A.

    >>> inverse(np.array([[4.0]])).tolist()
    [[0.25]]
    """
    with one_thread():
        half = lapack.dpotri(_factor(A), lower=1)[0]
    found: NDArray[np.float64] = half + np.tril(half, -1).T
    return found


def whitening(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """T with |d T|² = d A^-1 d^T, for a symmetric positive definite A.

    >>> whitening(np.array([[4.0]])).tolist()
    [[0.5]]
    """
    with one_thread():
        return np.ascontiguousarray(lapack.dtrtri(_factor(A), lower=1, overwrite_c=1)[0].T)


def _factor(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Cholesky factor L of A = L L^T, lower; of A with a larger diagonal where rounding has left it short of
    positive definite.

    LAPACK's own routine on one thread: where other programs keep the cores busy, a second one is waited for many times
    as long as it helps.
    """
    factor, problem = lapack.dpotrf(A.T, lower=1, clean=1)  # A^T is A, and has the order of elements that LAPACK takes
    for power in range(-10, 3):
        if not problem:
            break
        more = 10.0**power * A.diagonal().clip(1e-30)
        factor, problem = lapack.dpotrf((A + np.diag(more)).T, lower=1, clean=1)
    found: NDArray[np.float64] = factor
    return found
