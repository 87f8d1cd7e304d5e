"""The paper's online sampler (Algorithm 1): keep the exemplars nearest to the running class mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import check_held, take
from votestream.memory.quota import Quota
from votestream.memory.statistics import ClassStatistics, extended
from votestream.memory.store import ExemplarStore

ROUNDING = 1.2e-7  # of float32, relative


class MeanDistance:
    """Among a class's exemplars and the new sample, the one farthest from the updated mean goes.

    Algorithm 1 as printed measures every exemplar again for every sample, since the mean has moved. Here
    the farthest distance found last (`radius`, to the mean of that moment, `reference`) is kept. The mean
    has since drifted by some length; by the triangle inequality no exemplar is farther now than radius +
    drift, so a sample beyond that is refused at once. Most are. The others go through the printed
    loop. The outcome is that of Algorithm 1, sample by sample, however the stream is cut into batches.

    >>> statistics, store = ClassStatistics(1), ExemplarStore(2, (1,))
    >>> rule = MeanDistance(Quota(2), statistics)
    >>> X, labels = np.array([[0.0], [9.0], [4.0]], np.float32), np.zeros(3, int)
    >>> rule.grow(store, 1)
    >>> rule.offer(store, X, labels, statistics.add(X, labels))
    >>> store.items.tolist()
    [[0.0], [4.0]]
    """

    class_by_class = True

    def __init__(self, quota: Quota, statistics: ClassStatistics) -> None:
        self._quota = quota
        self._statistics = statistics
        self._reference = np.zeros((0, statistics.width))
        self._radius = np.full(0, np.inf)  # infinite while the class is below its quota
        self._held: list[int] = []  # exemplars of each class
        self._moved: set[int] = set()  # classes whose scores (distances to the mean) are out of date
        self._slots: tuple[int, dict[int, NDArray[np.intp]]] = (-1, {})  # slots by class, for one layout

    def grow(self, store: ExemplarStore, n_classes: int) -> None:
        self._reserve(n_classes)
        quota = self._quota.per_class
        crowded = [label for label, held in enumerate(self._held) if held > quota]
        if not crowded:
            return
        for label in self._moved.intersection(crowded):
            slots = store.members(label)
            store.score[slots] = _lengths(store.items[slots] - self._statistics.mean(label))
            self._moved.discard(label)
        store.remove(self._quota.excess(store.labels, store.score))
        for label in crowded:
            self._held[label] = quota

    def _reserve(self, n_classes: int) -> None:
        self._quota.grow(n_classes)
        self._held.extend([0] * (n_classes - len(self._held)))
        if n_classes > len(self._radius):
            capacity = max(8, n_classes, 2 * len(self._radius))
            self._reference = extended(self._reference, capacity)
            self._radius = extended(self._radius, capacity, np.inf)

    def offer(
        self,
        store: ExemplarStore,
        items: NDArray[Any],
        labels: NDArray[np.int64],
        means: NDArray[np.float64],
    ) -> None:
        distances = _lengths(items.astype(np.float64) - means)
        bounds = _lengths(means - self._reference.take(labels, axis=0))
        bounds += self._radius.take(labels)
        near = (distances <= bounds).tolist()
        classes = labels.tolist()
        self._moved.update(classes)
        if True not in near:
            return
        far = distances.tolist()
        changed: set[int] = set()  # classes whose bound has changed since
        for row, label in enumerate(classes):
            if label in changed:
                drift = means[row] - self._reference[label]
                if far[row] > self._radius[label] + math.sqrt(drift.dot(drift)):
                    continue
            elif not near[row]:
                continue
            self._consider(store, items[row], label, means[row], far[row])
            changed.add(label)

    def _consider(
        self, store: ExemplarStore, item: NDArray[Any], label: int, mean: NDArray[np.float64], distance: float
    ) -> None:
        """Algorithm 1, lines 5 to 15, for one sample."""
        if self._held[label] < self._quota.per_class:
            if not store.full:
                store.add(item, label)
                self._held[label] += 1
            return
        slots = self._members(store, label)
        offsets = store.items.take(slots, axis=0)
        offsets -= mean.astype(np.float32)
        squared = np.einsum("ij,ij->i", offsets, offsets)
        farthest = squared.argmax()
        far = math.sqrt(squared[farthest])
        doubt = ROUNDING * (100 * far + math.sqrt(mean.dot(mean)))  # how wrong float32 may be about it
        if distance <= far + doubt:
            if distance >= far - doubt or np.count_nonzero(squared >= (far - 2 * doubt) ** 2) > 1:
                exact = _lengths(store.items[slots] - mean)
                farthest = exact.argmax()
                if distance < exact[farthest]:  # a tie drops the new one
                    store.replace(slots[farthest], item, label)
            else:
                store.replace(slots[farthest], item, label)
        self._reference[label] = mean
        self._radius[label] = far + doubt

    def _members(self, store: ExemplarStore, label: int) -> NDArray[np.intp]:
        if self._slots[0] != store.layout:
            self._slots = store.layout, {}
        known = self._slots[1]
        if label not in known:
            known[label] = store.members(label)
        return known[label]

    def forget(self, label: int) -> None:
        """The class is gone from the store; the others are measured anew, as after loading."""
        del self._held[label]
        self._reference, self._radius = self._reference[:0], self._radius[:0]
        self._reserve(len(self._held))
        self._moved = set(range(len(self._held)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Only what cannot be found again: a restored rule measures anew, with the same outcome."""
        return {"held": np.array(self._held, np.int64)}

    def restore(self, state: dict[str, NDArray[Any]], store: ExemplarStore, n_classes: int) -> None:
        held = take(state, "held", np.int64, (n_classes,))
        check_held("held", held, store.labels)
        self._reserve(n_classes)
        self._held = held.tolist()
        self._moved = set(range(len(self._held)))


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return found
