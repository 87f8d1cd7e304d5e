"""The memory of CandidatesVoting: exemplars, the head, and the pilot set that beta is estimated from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream import voting
from votestream.compute.place import Place
from votestream.compute.random_pool import RandomPool
from votestream.io.array_checks import take
from votestream.learners.exemplars.head import GrowingHead, HeadMemory
from votestream.memory import ExemplarStore, FeatureMemory


class VotingMemory(HeadMemory):
    """Exemplars, a head that is trained, and a pilot set."""

    derived = ("_earlier", "pilot")

    def __init__(self, exemplars: FeatureMemory, head: GrowingHead, scale: float | str | None, seed: int) -> None:
        super().__init__(exemplars, head, scale, seed)
        self.samples = 0
        self.pilot: Pilot | None = None  # None: to be taken when a prediction needs it
        self._seed = seed
        self._earlier: tuple[tuple[int, int], NDArray[np.intp]] = ((-1, -1), np.empty(0, np.intp))

    def earlier_slots(self, block_start: int) -> NDArray[np.intp]:
        """Slots of exemplars whose class is not in the current block, found anew only when slots changed."""
        store = self.exemplars.store
        if self._earlier[0] != (store.layout, block_start):
            self._earlier = (store.layout, block_start), (store.labels < block_start).nonzero()[0]
        return self._earlier[1]

    def take_pilot(self, task_of_class: NDArray[np.int64], alpha_r: float, spread: NDArray[np.float32] | None) -> None:
        """Take the exemplars as they are now, each to be augmented once as in learning (Eq. 2).

        spread: sigma of each class, (C, D); None: that of all samples.
        """
        sigma = self.exemplars.statistics.global_spread() if spread is None else spread
        self.pilot = Pilot.of(self.exemplars.store, task_of_class, np.float32(alpha_r) * sigma)

    def pilot_beta(self) -> float:
        """The estimate of beta; there must be a pilot set."""
        assert self.pilot is not None
        return self.pilot.beta(self._seed, self.head.place)

    def forget(self, number: int) -> None:
        super().forget(number)
        self.samples = int(self.exemplars.statistics.counts.sum())
        self.pilot = None  # taken anew, of the exemplars that are left

    def arrays(self) -> dict[str, NDArray[Any]]:
        pilot = {} if self.pilot is None else {"pilot": np.array(self.pilot_beta())}
        return {**pilot, **super().arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        super().restore(arrays, n_classes)
        self.samples = int(self.exemplars.statistics.counts.sum())
        if "pilot" in arrays:  # version 0.1.0 took it from what was learned last
            self.pilot = Pilot(float(take(arrays, "pilot", np.float64, (), 0, 1)))


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
