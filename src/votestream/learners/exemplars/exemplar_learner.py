"""What learners on an exemplar memory (candidates_voting, knn, er_features) share: showing what they keep."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.memory import FeatureMemory, Memory

E = TypeVar("E", bound=Memory)


class ExemplarLearner(Learner[E]):
    """Keeps exemplars and statistics of the classes."""

    def kept(self) -> FeatureMemory:
        """The exemplars and statistics in its memory."""
        raise NotImplementedError

    @learned
    def exemplars_(self) -> Exemplars:
        """The features kept, class by class as `classes_`, in order of arrival, with their labels and tasks."""
        state, store = self.state_, self.kept().store
        order = np.lexsort((store.arrivals, state.naming.order.argsort()[store.labels]))
        numbers = store.labels[order]
        features = store.items[order] * np.float32(1 / state.unit)
        return Exemplars(features, state.naming.seen[numbers], state.task_numbers()[numbers])

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        return self.by_class(self.kept().statistics.means) / self.state_.unit

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self.by_class(self.kept().statistics.counts)
