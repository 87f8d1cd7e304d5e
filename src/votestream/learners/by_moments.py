"""What the learners on class moments (ncm, slda, rls, fecam) share: streaming them, saving them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.array_checks import take
from votestream.learners.base import Learner
from votestream.learners.guard import Predictor, learned
from votestream.memory import ClassMoments, Pending
from votestream.persistence import joined, part_of
from votestream.place import Place, one_thread
from votestream.validation import LARGEST, check_positive


class MomentLearner(Learner):
    """Keeps class moments, merged block by block; a subclass says which (`scatter`) and has a `_rule` to decide by.

    Rows wait until a block of the stream is full. Answering merges those that wait into a copy of the
    moments, so that asking leaves no trace in what is learned.
    """

    scatter: str | None = None
    block = 256  # rows merged at once

    _largest = LARGEST  # of the numbers that the moments are taken of, as a model file may have them

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("batch_size", "young"):
            check_positive(name, getattr(self, name), int)

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])

    def _allocate(self, width: int) -> None:
        self._place = Place(self.device)
        self._pending = Pending(width, self.block)
        self._merged = ClassMoments(width, self.scatter)

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for rows, numbers in self._pending.add(X, classes):
            with one_thread():
                self._merged.add(self._seen(rows), numbers)

    def _seen(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows as the moments take them."""
        return X

    def _moments(self) -> ClassMoments:
        """Of everything learned, waiting rows too."""
        if not len(self._pending):
            return self._merged
        moments = self._merged.copy()
        moments.add(self._seen(self._pending.rows), self._pending.classes)
        return moments

    def _predictor(self) -> Predictor:
        return self._rule(self._moments())

    def _rule(self, moments: ClassMoments) -> Predictor:
        """How to decide by the moments, which are not the learner's own to change."""
        raise NotImplementedError

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        return self._sorted(self._moments().means) / self._unit

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self._sorted(self._moments().counts)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return joined({"pending": self._pending.state(), "moments": self._merged.state()})

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_classes, width = len(self._index), self.n_features_in_
        if self.scatter == "shared":  # looked at before room is made for one
            take(arrays, "moments.scatter", np.float64, (width, width), -np.inf, np.inf)
        self._allocate(width)
        self._merged.restore(part_of(arrays, "moments"), n_classes, self._largest)
        self._pending.restore(part_of(arrays, "pending"), self._merged.n_classes, n_classes)
