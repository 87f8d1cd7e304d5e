"""A memory of features: statistics of every class and a few exemplars, under one budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.io.array_checks import demand, take_generator
from votestream.io.model_files import joined, part_of
from votestream.memory.keep import KEEP_RULES
from votestream.memory.memory import Memory
from votestream.memory.quota import Quota
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore


class FeatureMemory(Memory):
    """Running class statistics and an exemplar store that a keep rule fills, fed in stream order.

    What is kept does not depend on how the stream was cut into batches.

    >>> memory = FeatureMemory(width=1, budget=4, keep="mean_distance", seed=0)
    >>> memory.add(np.array([[0.0], [9.0], [4.0], [5.0]], np.float32), np.array([0, 0, 1, 0]))
    >>> memory.store.items.tolist(), memory.store.labels.tolist()
    ([[5.0], [9.0], [4.0]], [0, 0, 1])
    """

    def __init__(self, width: int, budget: int, keep: str, seed: int, expected_classes: int = 1) -> None:
        self.width = width
        self._generator = torch.Generator().manual_seed(int(seed))  # for rules that draw
        self.statistics = ClassStatistics(width)
        self.store = ExemplarStore(budget, (width,))
        self.keep = KEEP_RULES[keep](Quota(budget, expected_classes), self.statistics, self._generator)

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        start, n = 0, len(X)
        while start < n:
            end, known = n, self.statistics.n_classes
            if max(classes[start:].tolist()) >= known:
                # A new class shrinks the quota of the others before its first sample comes in, so the
                # rows are cut where one appears.
                if classes[start] == known:
                    known += 1
                    self.keep.grow(self.store, known)
                new = (classes[start:] >= known).nonzero()[0]
                end = start + int(new[0]) if len(new) else n
            rows, own = X[start:end], classes[start:end]
            self.keep.offer(self.store, rows, own, self.statistics.add(rows, own))
            start = end

    def forget(self, number: int) -> None:
        """The class is gone, and later ones count one less."""
        if not hasattr(self.keep, "forget"):
            raise ValueError("the keep rule has no method `forget`, so no class can be taken out")
        self.statistics.forget(number)
        self.store.forget(number)
        self.keep.forget(number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {"statistics": self.statistics.state(), "store": self.store.state(), "keep": self.keep.state()}
        return {"random": self._generator.get_state().numpy(), **joined(parts)}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        take_generator(arrays, "random", self._generator)
        self.statistics.restore(part_of(arrays, "statistics"), n_classes)
        self.store.restore(part_of(arrays, "store"), n_classes)
        demand(len(self.store) > 0, "there are no exemplars")
        self.keep.restore(part_of(arrays, "keep"), self.store, n_classes)
