"""Pick rules: which stored exemplars are replayed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream.random_pool import RandomPool


def uniform(slots: NDArray[np.intp], n: int, random: RandomPool) -> NDArray[np.intp]:
    """Draw `n` of the slots, each equally likely, with replacement.

    >>> uniform(np.array([7]), 3, RandomPool(seed=0)).tolist()
    [7, 7, 7]
    """
    return slots.take((random.uniform(n) * len(slots)).astype(np.intp))
