"""What the learners on class moments (ncm, slda, rls, fecam, srda) share: the memory they keep, and showing it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream.core.guard import learned
from votestream.core.weighted import WeightedLearner
from votestream.memory import Moments


class MomentLearner(WeightedLearner[Moments]):
    """Keeps class moments; a subclass says which (`scatter`), and has a `new_predictor`."""

    scatter: str | None = None

    def new_memory(self, width: int) -> Moments:
        return Moments(width, self.scatter)

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        return self.by_class(self.memory_.now().means) / self.state_.unit

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self.by_class(self.memory_.now().counts)
