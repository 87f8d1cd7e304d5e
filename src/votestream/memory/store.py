"""The exemplar store: one block of memory that never holds more than its budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from votestream.io.array_checks import demand, take, take_classes, take_number
from votestream.memory.statistics import capacity, extended

COLUMNS = ("_items", "_labels", "_arrivals", "_score")


class ExemplarStore:
    """Holds at most `budget` exemplars, features and images alike; what to keep is a keep rule's affair.

    Slots `0 .. len(store) - 1` are always the ones in use. `score` is a number that a keep rule may
    attach to each exemplar; it moves along when exemplars move.

    >>> import numpy as np
    >>> store = ExemplarStore(budget=2, shape=(3,))
    >>> store.add(np.ones(3), label=0), store.add(np.zeros(3), label=1)
    (0, 1)
    >>> store.remove(np.array([0]))
    >>> store.labels.tolist(), store.items.tolist()
    ([1], [[0.0, 0.0, 0.0]])
    """

    def __init__(self, budget: int, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> None:
        self.budget = budget
        self._items = np.empty((0, *shape), dtype)
        self._labels = np.empty(0, np.int64)
        self._arrivals = np.empty(0, np.int64)
        self._score = np.empty(0)
        self._size = 0
        self._clock = 0
        self.layout = 0  # changes whenever a slot's label does: cached slot lists are valid for one layout

    def __len__(self) -> int:
        return self._size

    @property
    def items(self) -> NDArray[Any]:
        """What is stored, slot by slot: a view, (n, *shape)."""
        return self._items[: self._size]

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._labels[: self._size]

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """When each exemplar was stored, counted in writes."""
        return self._arrivals[: self._size]

    @property
    def score(self) -> NDArray[np.float64]:
        return self._score[: self._size]

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever anything that is stored does."""
        return self._clock, self.layout

    @property
    def full(self) -> bool:
        return self._size == self.budget

    def members(self, label: int) -> NDArray[np.intp]:
        """The slots of one class."""
        found: NDArray[np.intp] = (self._labels[: self._size] == label).nonzero()[0]
        return found

    def add(self, item: NDArray[Any], label: int) -> int:
        """Store in a free slot, which is returned."""
        if self._size == self.budget:
            raise ValueError(f"the store is full: it holds its budget of {self.budget} exemplars")
        self._size += 1
        if self._size > len(self._labels):
            room = capacity(self._size, len(self._labels), self.budget)
            for name in COLUMNS:
                setattr(self, name, extended(getattr(self, name), room))
        self._labels[self._size - 1] = -1
        self.replace(self._size - 1, item, label)
        return self._size - 1

    def replace(self, slot: int, item: NDArray[Any], label: int) -> None:
        self._items[slot] = item
        self._arrivals[slot] = self._clock
        self._clock += 1
        if self._labels[slot] != label:
            self._labels[slot] = label
            self.layout += 1

    def remove(self, slots: NDArray[np.intp]) -> None:
        """Forget these slots; the others close ranks in their order."""
        if not len(slots):
            return
        keep = np.ones(self._size, bool)
        keep[slots] = False
        first = int(slots.min())
        kept = keep[first:].nonzero()[0] + first
        self._size -= len(slots)
        for column in (self._items, self._labels, self._arrivals, self._score):
            column[first : self._size] = column[kept]
        self.layout += 1

    def forget(self, label: int) -> None:
        """The class is gone, with nothing of its exemplars left in any slot, and later classes count one less."""
        self.remove(self.members(label))
        self._labels[: self._size] -= self._labels[: self._size] > label
        for name in COLUMNS:
            getattr(self, name)[self._size :] = 0
        self.layout += 1

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "items": self.items,
            "labels": self.labels,
            "arrivals": self.arrivals,
            "score": self.score,
            "clock": np.array(self._clock),
        }

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        labels = take_classes(state, "labels", None, n_classes)
        n, clock = len(labels), take_number(state, "clock")
        demand(n <= self.budget, f"there are {n} exemplars, but the budget is {self.budget}")
        self._items = take(state, "items", self._items.dtype, (n, *self._items.shape[1:]))
        self._labels = labels
        self._arrivals = take(state, "arrivals", np.int64, (n,), high=clock - 1)
        demand(len(np.unique(self._arrivals)) == n, "two exemplars arrived at the same moment")
        self._score = take(state, "score", np.float64, (n,), high=np.finfo(np.float64).max)
        self._size, self._clock = n, clock
        self.layout += 1
