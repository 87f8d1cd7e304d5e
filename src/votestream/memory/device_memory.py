"""Memories of images whose contents the device decides on: no step waits to hear which images stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.compute.random_pool import RandomPool
from votestream.io.array_checks import take
from votestream.io.model_files import joined, part_of
from votestream.memory.image_memory import ImageStore, longer, to_device

TINY = 1e-30  # the rate of slots that are drawn after all others; a double still holds when its clocks go off


class DeviceMemory:
    """An `ImageStore` that fills in stream order; what stays afterwards is decided elsewhere and written to the store.

    >>> memory = DeviceMemory(budget=2, shape=(1, 1, 3), device=torch.device("cpu"))
    >>> images = torch.arange(9, dtype=torch.uint8).view(3, 1, 1, 3)
    >>> memory.fill(images, torch.tensor([0, 1, 2])), memory.store.labels.tolist()
    (2, [0, 1])
    """

    def __init__(self, budget: int, shape: tuple[int, ...], device: torch.device) -> None:
        self.store = ImageStore(budget, shape, device)

    def __len__(self) -> int:
        return len(self.store)

    def slots(self) -> NDArray[np.intp]:
        return np.arange(len(self.store))

    def fill(self, images: Tensor, labels: Tensor) -> int:
        """Put images into free slots while there are any; how many went in."""
        first = len(self.store)
        fit = min(self.store.budget - first, len(labels))
        self.store.write(np.arange(first, first + fit), images[:fit], labels[:fit])
        return fit

    def state(self) -> dict[str, NDArray[Any]]:
        return joined({"store": self.store.state()})

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.store.restore(part_of(state, "store"), n_classes)


class GreedyMemory(DeviceMemory):
    """GSS's greedy keep rule: images that resemble others in memory make room for those that resemble none.

    >>> memory = GreedyMemory(budget=2, shape=(1, 1, 3), device=torch.device("cpu"))
    >>> images, labels = torch.arange(9, dtype=torch.uint8).view(3, 1, 1, 3), torch.tensor([0, 1, 2])
    >>> memory.observe(images, labels, torch.tensor([1.9, 0.1, 0.0]), RandomPool(seed=0))
    >>> memory.store.labels.tolist()
    [2, 1]
    """

    def __init__(self, budget: int, shape: tuple[int, ...], device: torch.device) -> None:
        super().__init__(budget, shape, device)
        self.scores = torch.zeros(0, device=device)  # C of Algorithm 2

    def observe(
        self, images: Tensor, labels: Tensor, scores: Tensor, random: RandomPool, gate: Tensor | None = None
    ) -> None:
        """Lines 8 to 18 of Algorithm 2: scores are c, the largest cosine to others in memory plus 1.

        `gate`, one truth value on the device, is the rule of the authors' code: it lets all of the images contest a
        slot, or none. Without it each image does whose own score is below 1.
        """
        first, new = len(self), self.fill(images, labels)
        if len(self) > len(self.scores):
            self.scores = longer(self.scores, self.store.room)
        self.scores[first : first + new] = scores[:new]
        for begin in range(new, len(labels), self.store.budget):  # at once, unless there are more than slots
            rows = slice(begin, begin + self.store.budget)
            self._contest(images[rows], labels[rows], scores[rows], random, gate)

    def _contest(self, images: Tensor, labels: Tensor, c: Tensor, random: RandomPool, gate: Tensor | None) -> None:
        budget, n = self.store.budget, len(labels)
        draws = to_device(random.uniform(budget + n), self.store.device)
        # Line 10, i ~ C_i / sum of C, for each of the n, no slot twice: clocks that go off at the rates C_i. Behind a
        # gate C is first brought to [0, 1] by its smallest and its largest, of which the largest changes no draw.
        rates = self.scores if gate is None else (self.scores - self.scores.min()).clamp(min=TINY)
        slots = (-(1 - draws[:budget]).log() / rates).topk(n, largest=False).indices
        if gate is None:
            unlike = (c >= 1).long().argsort(stable=True)  # those that may enter come first, so they draw first
            images, labels, c = images[unlike], labels[unlike], c[unlike]
        (old_images, old_labels), C = self.store.take(slots), self.scores[slots]
        enters = (c < 1 if gate is None else gate) & (draws[budget:] < C / (C + c))  # lines 9 and 12
        kept = torch.where(enters[:, None, None, None], images, old_images), torch.where(enters, labels, old_labels)
        self.store.overwrite(slots, *kept)
        self.scores.index_copy_(0, slots, torch.where(enters, c, C))

    def state(self) -> dict[str, NDArray[Any]]:
        return {**super().state(), "scores": self.scores[: len(self)].cpu().numpy()}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        super().restore(state, n_classes)
        self.scores = to_device(take(state, "scores", np.float32, (len(self),), -3, 3), self.store.device)
