"""Keep rules: which samples of the stream stay as exemplars.

A rule is notified of every new class (`grow`) and is offered every sample, in stream order (`offer`); it
writes to the store it is given and never lets it pass its budget. `KEEP_RULES` names them all,
`register_keep` adds one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.plugins import Registry
from votestream.io.array_checks import MANY, check_held, take, take_number
from votestream.memory.mean_distance import MeanDistance
from votestream.memory.quota import Quota
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore


class KeepRule(Protocol):
    """The methods that learners call on a keep rule."""

    class_by_class: bool  # a sample changes its own class's exemplars only

    def grow(self, store: ExemplarStore, n_classes: int) -> None:
        """From now on there are this many classes."""

    def offer(
        self, store: ExemplarStore, items: NDArray[Any], labels: NDArray[np.int64], means: NDArray[np.float64]
    ) -> None:
        """Keep what is worth keeping of these samples; `means` are their class means just after each."""

    def forget(self, label: int) -> None:
        """The class is gone from the store, and later ones count one less."""

    def state(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, state: dict[str, NDArray[Any]], store: ExemplarStore, n_classes: int) -> None: ...


class Reservoir:
    """Every sample of the stream is kept with the same probability, whatever its class (Vitter's R).

    >>> import numpy as np, torch
    >>> store, labels = ExemplarStore(2, (1,)), np.zeros(100, int)
    >>> Reservoir(torch.Generator().manual_seed(0)).offer(store, np.arange(100.0)[:, None], labels)
    >>> len(store)
    2
    """

    class_by_class = False

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._seen = 0

    def grow(self, store: ExemplarStore, n_classes: int) -> None:
        """New classes need no room made: the draw makes it."""

    def offer(self, store: ExemplarStore, items: NDArray[Any], labels: NDArray[np.int64], means: object = None) -> None:
        draws = torch.rand(len(items), generator=self._generator, dtype=torch.float64).tolist()
        for item, label, draw in zip(items, labels.tolist(), draws, strict=True):
            self._seen += 1  # counted inside the batch, sample by sample
            slot = int(draw * self._seen)
            if not store.full:
                store.add(item, label)
            elif slot < store.budget:
                store.replace(slot, item, label)

    def forget(self, label: int) -> None:
        """Samples seen stay counted: those kept of other classes are no more likely than before."""

    def state(self) -> dict[str, NDArray[Any]]:
        return {"seen": np.array(self._seen)}

    def restore(self, state: dict[str, NDArray[Any]], store: ExemplarStore, n_classes: int) -> None:
        self._seen = take_number(state, "seen", low=len(store), high=MANY)


class Balanced:
    """GDumb's greedy sampler: a class below its fair share pushes out a random exemplar of the largest.

    >>> import numpy as np, torch
    >>> store = ExemplarStore(4, (1,))
    >>> labels = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    >>> Balanced(torch.Generator().manual_seed(0)).offer(store, np.arange(8.0)[:, None], labels)
    >>> np.bincount(store.labels).tolist()
    [2, 2]
    """

    class_by_class = False

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._counts: list[int] = []  # exemplars held, class by class

    def grow(self, store: ExemplarStore, n_classes: int) -> None:
        """Room is made as samples come, one by one."""

    def offer(self, store: ExemplarStore, items: NDArray[Any], labels: NDArray[np.int64], means: object = None) -> None:
        counts = self._counts
        for item, label in zip(items, labels.tolist(), strict=True):
            counts.extend([0] * (label + 1 - len(counts)))
            if counts[label] >= store.budget / len(counts):
                continue
            if not store.full:
                store.add(item, label)
            else:
                largest = counts.index(max(counts))
                slots = store.members(largest)
                drawn = int(torch.randint(len(slots), (), generator=self._generator))
                store.replace(int(slots[drawn]), item, label)
                counts[largest] -= 1
            counts[label] += 1

    def forget(self, label: int) -> None:
        del self._counts[label]

    def state(self) -> dict[str, NDArray[Any]]:
        return {"counts": np.array(self._counts, np.int64)}

    def restore(self, state: dict[str, NDArray[Any]], store: ExemplarStore, n_classes: int) -> None:
        counts = take(state, "counts", np.int64, (n_classes if len(store) else 0,))
        check_held("counts", counts, store.labels)
        self._counts = counts.tolist()


class FirstIn:
    """The first samples of each class stay, up to its quota; when the quota shrinks, the latest go.

    >>> import numpy as np
    >>> store, rule = ExemplarStore(2, (1,)), FirstIn(Quota(2))
    >>> rule.grow(store, 1)
    >>> rule.offer(store, np.array([[1.0], [2.0], [3.0]]), np.zeros(3, int))
    >>> rule.grow(store, 2)
    >>> store.items.tolist()
    [[1.0]]
    """

    class_by_class = True

    def __init__(self, quota: Quota) -> None:
        self._quota = quota

    def grow(self, store: ExemplarStore, n_classes: int) -> None:
        self._quota.grow(n_classes)
        store.remove(self._quota.excess(store.labels, store.arrivals))

    def offer(self, store: ExemplarStore, items: NDArray[Any], labels: NDArray[np.int64], means: object = None) -> None:
        for item, label in zip(items, labels.tolist(), strict=True):
            if not store.full and len(store.members(label)) < self._quota.per_class:
                store.add(item, label)

    def forget(self, label: int) -> None:
        self._quota.grow(self._quota.n_classes - 1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"classes": np.array(self._quota.n_classes)}

    def restore(self, state: dict[str, NDArray[Any]], store: ExemplarStore, n_classes: int) -> None:
        self._quota.grow(take_number(state, "classes", low=n_classes, high=n_classes))


MakeRule = Callable[[Quota, ClassStatistics, torch.Generator], KeepRule]
KEEP_RULES: Registry[MakeRule] = Registry(
    "keep rule",
    {
        "mean_distance": lambda quota, statistics, generator: MeanDistance(quota, statistics),
        "reservoir": lambda quota, statistics, generator: Reservoir(generator),
        "balanced": lambda quota, statistics, generator: Balanced(generator),
        "first_in": lambda quota, statistics, generator: FirstIn(quota),
    },
)
M = TypeVar("M", bound=MakeRule)


def register_keep(name: str) -> Callable[[M], M]:
    """Decorator: makes a keep rule known to every learner with an argument `keep`.

    It is called with a `Quota` (exemplars a class may have), the running `ClassStatistics` and a torch generator for
    what is drawn at random, and returns what has the methods of `KeepRule`.
    """
    return KEEP_RULES.decorator(name)


def list_keep_rules() -> list[str]:
    """Names that `keep` takes.

    >>> list_keep_rules()
    ['balanced', 'first_in', 'mean_distance', 'reservoir']
    """
    return sorted(KEEP_RULES)
