"""Herding: the exemplars whose mean follows the mean of their class (Welling, 2009; iCaRL's Algorithm 4)."""

from __future__ import annotations

import torch
from torch import Tensor


def herd(features: Tensor, n: int) -> Tensor:
    """Rows to keep, the most wanted first: each brings the mean of those so far nearest to the mean of all.

    The first m of n are what herding would choose for m, so a quota that shrinks drops the last.

    >>> herd(torch.tensor([[0.0], [1.0], [5.0]]), 2).tolist()
    [1, 2]
    """
    n = min(n, len(features))
    mean, total = features.mean(0), torch.zeros_like(features[0])
    squares = features.square().sum(1)
    order = torch.empty(n, dtype=torch.int64, device=features.device)
    for k in range(1, n + 1):
        # |mean - (total + f) / k|² without what is the same for all f, times k²
        cost = squares - 2 * (features @ (k * mean - total))
        order[k - 1] = cost.argmin()
        total += features[order[k - 1 : k]][0]
        squares = squares.index_fill(0, order[k - 1 : k], torch.inf)  # nobody twice
    return order
