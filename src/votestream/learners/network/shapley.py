"""Shapley values of stored samples for nearest-neighbour classifiers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def knn_shapley(X: Tensor, y: Tensor, queries: Tensor, classes: Tensor, k: int, held: Tensor | None = None) -> Tensor:
    """What each sample contributes to classifying each query by its k nearest samples (queries, samples).

    X (n, D), y (n,): samples and their classes; if some are not `held` (n,), these take no part and get 0. The value of
    a set of samples to a query is the share, of k, of its k nearest in the set that have the query's class. The
    recursion is that of Jia et al. (VLDB 2019), from the farthest sample to the nearest, as a sum for all queries at
    once.

    >>> X, y = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 1, 0])
    >>> knn_shapley(X, y, torch.tensor([[0.0]]), torch.tensor([0]), k=1)
    tensor([[ 0.8333, -0.1667,  0.3333]])
    """
    distances = torch.cdist(queries, X)
    if held is not None:
        distances, y = distances.masked_fill(~held, torch.inf), y.masked_fill(~held, -1)
    order = distances.argsort(dim=1, stable=True)
    matches = (y[order] == classes[:, None]).to(X.dtype)
    place = torch.arange(1, len(y) + 1, device=X.device)
    # s_i = s_(i+1) + (1[y_i = y] - 1[y_(i+1) = y]) min(k, i) / (k i); beyond the last there is nothing.
    change = (matches - F.pad(matches[:, 1:], (0, 1))) * place.clamp(max=k) / (k * place)
    values = change.flip(1).cumsum(1).flip(1)
    return torch.zeros_like(values).scatter_(1, order, values)


def asv(cooperative: Tensor, there: Tensor, adversarial: Tensor, mean: bool) -> Tensor:
    """Adversarial Shapley values (n,): Eq. 6 with `mean`, else Eq. 5; rows that are not `there` do not count.

    >>> there, values = torch.tensor([True, True, False]), torch.tensor([[0.1], [0.3], [9.0]])
    >>> tuple(asv(values, there, torch.tensor([[-0.1], [-0.5]]), mean) for mean in (True, False))
    (tensor([0.5000]), tensor([0.8000]))
    """
    if mean:
        return (cooperative * there[:, None]).sum(0) / there.sum().clamp(min=1) - adversarial.mean(0)
    largest = cooperative.masked_fill(~there[:, None], -torch.inf).amax(0)
    return largest.masked_fill(~there.any(), 0.0) - adversarial.amin(0)
