"""beta="pilot": how much prior is usual, estimated from the exemplars themselves (the paper's supplement)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream import voting
from votestream.compute.place import Place
from votestream.compute.random_pool import RandomPool
from votestream.memory import ExemplarStore


class Pilot:
    """The exemplars as they were at a refresh; beta is estimated from them when it is first needed.

    Estimating takes a distance from every exemplar to every other, so it is done once a refresh, and only if asked for.
    """

    def __init__(self, beta: float | None = None) -> None:
        self._beta = beta
        self._of: tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None = None

    @classmethod
    def of(cls, store: ExemplarStore, task_of_class: NDArray[np.int64], sigma: NDArray[np.float32]) -> Pilot:
        """sigma: the spread of the noise by class, (C, D), or of all, (1, D)."""
        pilot = cls()
        pilot._of = store.items.copy(), store.labels.copy(), task_of_class, sigma
        return pilot

    def beta(self, seed: int, place: Place) -> float:
        """The mean confidence of the prior over the pilot set: every exemplar, augmented once."""
        if self._beta is None:
            assert self._of is not None
            items, labels, task_of_class, sigma = self._of
            groups, own = task_of_class[labels], sigma if len(sigma) == 1 else sigma.take(labels, axis=0)
            augmented = items + RandomPool(seed).normal(items.size).reshape(items.shape) * own
            near = neighbours(items, groups, int(groups.max()) + 1, place)
            w = voting.prior(near.distances(place.put(augmented)))
            self._beta, self._of = float(voting.confidence(w).mean()), None
        return self._beta


def neighbours(items: NDArray[np.float32], groups: NDArray[np.int64], n_groups: int, place: Place) -> voting.Neighbours:
    """Distances to copies of the exemplars, group by group."""
    order = groups.argsort(kind="stable")
    return voting.Neighbours(place.put(items[order]), place.put(groups[order]), n_groups)
