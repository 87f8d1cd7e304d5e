"""What learners on an exemplar memory (knn, er_features) share: showing what they keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream.learners.base import Learner
from votestream.learners.exemplars import Exemplars
from votestream.memory import FeatureMemory


class ExemplarLearner(Learner):
    """Has a `_memory` of features."""

    _memory: FeatureMemory

    @property
    def exemplars_(self) -> Exemplars:
        """The features kept, class by class in order of arrival, with their labels and tasks."""
        self._check_fitted()
        store = self._memory.store
        order = np.lexsort((store.arrivals, store.labels))
        numbers = store.labels[order]
        return Exemplars(store.items[order], self.classes_[numbers], self.task_of_class_[numbers])

    @property
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        self._check_fitted()
        return self._memory.statistics.means

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        self._check_fitted()
        return self._memory.statistics.counts
