"""A memory of images that lies where the network is: bytes on the device, decisions on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.io.array_checks import MANY, demand, take, take_classes, take_generator, take_number
from votestream.io.model_files import joined, part_of
from votestream.memory.keep import KEEP_RULES
from votestream.memory.quota import Quota
from votestream.memory.statistics import ClassStatistics, capacity
from votestream.memory.store import ExemplarStore


class ImageStore:
    """At most `budget` images and their class numbers, on a device, in one block.

    Slots `0 .. len(store) - 1` are in use. Writing and taking never wait for the device.

    >>> store = ImageStore(budget=2, shape=(1, 1, 3), device=torch.device("cpu"))
    >>> store.write(np.array([0]), torch.full((1, 1, 1, 3), 7, dtype=torch.uint8), torch.tensor([4]))
    >>> len(store), store.labels.tolist(), store.images.flatten().tolist()
    (1, [4], [7, 7, 7])
    """

    def __init__(self, budget: int, shape: tuple[int, ...], device: torch.device) -> None:
        self.budget = budget
        self.device = device
        self._images = torch.zeros((0, *shape), dtype=torch.uint8, device=device)
        self._labels = torch.zeros(0, dtype=torch.int64, device=device)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def images(self) -> Tensor:
        """A view, (n, height, width, 3)."""
        return self._images[: self._size]

    @property
    def labels(self) -> Tensor:
        return self._labels[: self._size]

    @property
    def room(self) -> int:
        """Slots that memory is taken for."""
        return len(self._labels)

    @property
    def full(self) -> bool:
        return self._size == self.budget

    def write(self, slots: NDArray[np.intp], images: Tensor, labels: Tensor) -> None:
        """Put images into these slots, each named once; free ones are taken in order, without a gap."""
        if len(slots):
            self._size = max(self._size, int(slots.max()) + 1)
            if self._size > len(self._labels):
                room = capacity(self._size, len(self._labels), self.budget)
                self._images, self._labels = longer(self._images, room), longer(self._labels, room)
            self.overwrite(to_device(slots, self.device), images, labels)

    def overwrite(self, slots: Tensor, images: Tensor, labels: Tensor) -> None:
        """The same for slots in use that the device itself has chosen."""
        self._images.index_copy_(0, slots, images)
        self._labels.index_copy_(0, slots, labels)

    def take(self, slots: NDArray[np.intp] | Tensor) -> tuple[Tensor, Tensor]:
        """Copies of the images in these slots, and their class numbers."""
        where = slots if isinstance(slots, Tensor) else to_device(slots, self.device)
        return self._images.index_select(0, where), self._labels.index_select(0, where)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"images": self.images.cpu().numpy(), "labels": self.labels.cpu().numpy()}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        labels = take_classes(state, "labels", None, n_classes)
        n = len(labels)
        demand(n <= self.budget, f"there are {n} images, but the budget is {self.budget}")
        images = take(state, "images", np.uint8, (n, *self._images.shape[1:]))
        self._images, self._labels, self._size = to_device(images, self.device), to_device(labels, self.device), n


class ImageMemory:
    """An `ImageStore` filled by a keep rule that decides from labels and counts alone.

    So the rule runs on the host, over a ledger of what lies in which slot, and never waits for the device.
    What is kept does not depend on how the stream was cut into batches.

    >>> memory = ImageMemory(budget=2, shape=(1, 1, 3), keep="balanced", seed=0, device=torch.device("cpu"))
    >>> images, classes = torch.arange(9, dtype=torch.uint8).view(3, 1, 1, 3), np.array([0, 0, 1])
    >>> memory.observe(images, torch.from_numpy(classes), classes)
    >>> sorted(memory.classes.tolist()), memory.earlier(1).size
    ([0, 1], 1)
    """

    def __init__(self, budget: int, shape: tuple[int, ...], keep: str, seed: int, device: torch.device) -> None:
        self._generator = torch.Generator().manual_seed(int(seed))
        self.store = ImageStore(budget, shape, device)
        self.keep = KEEP_RULES[keep](Quota(budget), ClassStatistics(0), self._generator)
        self._ledger = ExemplarStore(budget, (), np.int64)  # an item is an image's place in the stream
        self._seen = 0

    def __len__(self) -> int:
        return len(self.store)

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class in each slot, on the host."""
        return self._ledger.labels

    def slots(self) -> NDArray[np.intp]:
        return np.arange(len(self.store))

    def earlier(self, block_start: int) -> NDArray[np.intp]:
        """The slots of classes below `block_start`: those of the tasks before the current one."""
        return (self._ledger.labels < block_start).nonzero()[0]

    def observe(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        """Take in the rows; `classes` are the `labels`, on the host."""
        first, ledger = self._seen, self._ledger
        self._seen += len(classes)
        self.keep.offer(ledger, np.arange(first, self._seen), classes, np.empty((len(classes), 0)))
        slots = (ledger.items >= first).nonzero()[0]
        if len(slots):
            rows = to_device(ledger.items[slots] - first, self.store.device)
            self.store.write(slots, images.index_select(0, rows), labels.index_select(0, rows))

    def state(self) -> dict[str, NDArray[Any]]:
        parts = {"store": self.store.state(), "ledger": self._ledger.state(), "keep": self.keep.state()}
        return {"random": self._generator.get_state().numpy(), "seen": np.array(self._seen), **joined(parts)}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        take_generator(state, "random", self._generator)
        store, ledger = part_of(state, "store"), part_of(state, "ledger")
        self.store.restore(store, n_classes)
        self._ledger.restore(ledger, n_classes)
        demand(np.array_equal(store["labels"], ledger["labels"]), "the ledger is of other images than there are")
        self._seen = take_number(state, "seen", low=int(self._ledger.items.max(initial=-1)) + 1, high=MANY)
        self.keep.restore(part_of(state, "keep"), self._ledger, n_classes)


def longer(table: Tensor, rows: int) -> Tensor:
    """The table with room for `rows` rows."""
    whole = table.new_zeros((rows, *table.shape[1:]))
    whole[: len(table)] = table
    return whole


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array over there, without waiting for what the device is doing; on the CPU nothing is copied."""
    return torch.from_numpy(array).to(device, non_blocking=True)
