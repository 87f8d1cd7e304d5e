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


def distinct(slots: NDArray[np.intp], n: int, random: RandomPool) -> NDArray[np.intp]:
    """Draw `n` different slots, every set of them equally likely (Floyd's algorithm); all, where there are no more.

    >>> sorted(distinct(np.array([3, 5, 7]), 5, RandomPool(seed=0)).tolist())
    [3, 5, 7]
    """
    if n >= len(slots):
        return slots
    chosen: dict[int, None] = {}
    for last, draw in zip(range(len(slots) - n, len(slots)), random.uniform(n).tolist(), strict=True):
        place = int(draw * (last + 1))
        chosen[last if place in chosen else place] = None
    return slots.take(list(chosen))
