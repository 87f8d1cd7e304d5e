"""What learners on an exemplar memory (candidates_voting, knn, er_features) share: showing what they keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.memory import FeatureMemory


class ExemplarLearner(Learner):
    """Has a `_memory` of features."""

    _memory: FeatureMemory

    @learned
    def exemplars_(self) -> Exemplars:
        """The features kept, class by class as `classes_`, in order of arrival, with their labels and tasks."""
        store, naming = self._memory.store, self._naming()
        order = np.lexsort((store.arrivals, naming.order.argsort()[store.labels]))
        numbers = store.labels[order]
        features = store.items[order] * np.float32(1 / self._unit)
        return Exemplars(features, naming.seen[numbers], self._task_numbers()[numbers])

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        return self._sorted(self._memory.statistics.means) / self._unit

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self._sorted(self._memory.statistics.counts)
