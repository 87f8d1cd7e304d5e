"""Pick rules: which stored exemplars are replayed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.compute.random_pool import RandomPool


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


def turns(labels: Tensor, draws: Tensor) -> Tensor:
    """When each slot's turn comes, if classes take turns and each sends a random one of its own: 0, 1, ... (n,).

    The slots whose turn is below m are a class-balanced draw of m a class, or all, where a class has no more. `draws`
    are uniform in [0, 1), one for each slot. Nothing here waits for the device.

    >>> turns(torch.tensor([0, 1, 0, 0]), torch.tensor([0.5, 0.1, 0.9, 0.2])).tolist()
    [1, 0, 2, 0]
    """
    by_class = (labels + draws).argsort()
    ordered = labels[by_class]
    turn = torch.arange(len(labels), device=labels.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(turn).scatter_(0, by_class, turn)
