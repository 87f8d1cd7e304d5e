"""What a learner holds once it has learned: its memory, and what users call the classes in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import as_label_array
from votestream.core.tasks import TaskLedger
from votestream.memory import Memory
from votestream.tracking import Tracker

Label = str | int
M = TypeVar("M", bound=Memory)


class Naming(NamedTuple):
    """The labels of the classes; `order` lists class numbers as `classes_` does, sorted, numbers before strings."""

    seen: NDArray[Any]  # (C,) in order of first appearance
    order: NDArray[np.intp]

    @classmethod
    def of(cls, labels: list[Label]) -> Naming:
        order = sorted(range(len(labels)), key=lambda number: (isinstance(labels[number], str), labels[number]))
        return cls(as_label_array(labels), np.array(order, np.intp))

    @property
    def sorted(self) -> NDArray[Any]:
        return self.seen[self.order]


@dataclass
class State(Generic[M]):
    """All that learning leaves behind. Another state in its place makes a learner another model."""

    memory: M
    tasks: TaskLedger
    n_features: int
    numbers: dict[Label, int] = field(default_factory=dict)  # the number of each class, in order of first appearance
    # A power of two: what rows are multiplied by where features are so large or small, as 1e-30, that float32
    # products would overflow or vanish. It changes no digit.
    unit: float = 1.0
    feature_names: NDArray[Any] | None = None  # where the first rows came as a data frame
    tracker: Tracker | None = None  # with `track=True`
    frozen: dict[str, Any] = field(default_factory=dict)  # parameters that cannot change any more, as they were
    broken: bool = False  # a call that learned was interrupted: rows are half applied
    _naming: Naming | None = None

    @property
    def naming(self) -> Naming:
        """The labels so far."""
        if self._naming is None or len(self._naming.seen) != len(self.numbers):
            self._naming = Naming.of(list(self.numbers))
        return self._naming

    def number_classes(self, labels: list[Label]) -> NDArray[np.int64]:
        """The number of each label's class; unseen ones get the next numbers."""
        numbers = self.numbers
        return np.array([numbers.setdefault(label, len(numbers)) for label in labels])

    def rename(self, old: Label, new: Label) -> None:
        self.numbers = {new if label == old else label: number for label, number in self.numbers.items()}
        self._naming = None

    def drop_class(self, number: int) -> None:
        """The class has no label and no task any more; later ones count one less."""
        self.tasks.forget(number)
        kept = [label for label, own in self.numbers.items() if own != number]
        self.numbers = {label: place for place, label in enumerate(kept)}
        self._naming = None

    def task_numbers(self) -> NDArray[np.int64]:
        """The task of each class number."""
        return np.array(self.tasks.task_of_class, np.int64)
