"""How many exemplars a class may have, and which are too many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Quota:
    """q = floor(Q / C), with C the classes seen so far, or a number of classes fixed beforehand.

    With more classes than budget the quota stays at one, and the store's budget decides who gets in.

    >>> quota = Quota(budget=10)
    >>> quota.grow(3)
    >>> quota.per_class
    3
    """

    def __init__(self, budget: int, expected_classes: int = 1) -> None:
        self.budget = budget
        self._expected_classes = expected_classes
        self.n_classes = 0

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes

    @property
    def per_class(self) -> int:
        return max(1, self.budget // max(self.n_classes, self._expected_classes))

    def excess(self, labels: NDArray[np.int64], badness: NDArray[Any]) -> NDArray[np.intp]:
        """The slots over quota, the worst of each class first to go."""
        counts = np.bincount(labels, minlength=1)
        if counts.max() <= self.per_class:
            return np.empty(0, np.intp)
        order = np.lexsort((badness, labels))
        first_of_class = np.concatenate(([0], counts.cumsum()[:-1]))
        rank = np.arange(len(labels)) - first_of_class[labels[order]]
        return order[rank >= self.per_class]
