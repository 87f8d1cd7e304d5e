"""What the learners on class moments (ncm, slda, rls, fecam) share: streaming them, saving them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import LARGEST
from votestream.compute.place import Place, one_thread
from votestream.core.guard import Predictor, learned
from votestream.core.refresh import held_samples
from votestream.core.weighted import Weighted
from votestream.io.array_checks import take
from votestream.io.model_files import joined, part_of
from votestream.learners.statistics.linear_rule import LinearRule
from votestream.memory import ClassMoments, Pending


class MomentLearner(Weighted):
    """Keeps class moments, merged block by block; a subclass says which (`scatter`) and has a `_rule` to decide by.

    Rows wait until a block of the stream is full. Answering merges those that wait into a copy of the
    moments, so that asking leaves no trace in what is learned.
    """

    scatter: str | None = None
    block = 256  # rows merged at once

    _largest = LARGEST  # of the numbers that the moments are taken of, as a model file may have them

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

    def _moments(self, waiting: int | None = None) -> ClassMoments:
        """Of everything learned, waiting rows too, or the first so many of them."""
        rows, classes = self._pending.rows[:waiting], self._pending.classes[:waiting]
        if not len(rows):
            return self._merged
        moments = self._merged.copy()
        with one_thread():
            moments.add(self._seen(rows), classes)
        return moments

    def _predictor(self) -> Predictor:
        return self._rule(self._moments())

    def _rule(self, moments: ClassMoments) -> Predictor:
        """How to decide by the moments, which are not the learner's own to change."""
        raise NotImplementedError

    # ---- corrections ----------------------------------------------------------------------------

    mergeable = True

    def _forget(self, number: int) -> None:
        self._pending.forget(number)
        if number < self._merged.n_classes:
            self._merged.forget(number)

    def _join(self, number: int, into: int) -> None:
        self._settle()
        self._merged.join(number, into)

    def _merge(self, other: MomentLearner, numbers: NDArray[np.int64]) -> None:
        self._settle()
        self._merged.merge(other._moments(), numbers)

    def _settle(self) -> None:
        self._merged = self._moments()
        self._pending.drop()

    # ---- what was learned -----------------------------------------------------------------------

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


class LinearLearner(MomentLearner):
    """A linear rule whose rows are each made from one class's count and mean, and from what all classes share.

    A class's own row is always up to date. What is shared, such as a covariance, is as it was at the last refresh, less
    than 1 % of the samples ago: after a sample, only the row of its class is made anew.
    """

    def _predictor(self) -> LinearRule:
        merged, held = self._held()
        moments = self._moments(held - merged)
        shared = self._shared(moments)
        rows = self._rows(shared, moments.counts, moments.means)
        rule = LinearRule(*rows, shared[0], self._place, self._link, basis=((merged, held), shared))
        return self._with(rule, set(self._pending.classes[held - merged :].tolist()))

    def _updated(self, predictor: LinearRule, changed: set[int]) -> LinearRule:
        return self._with(predictor, changed) if predictor.basis[0] == self._held() else self._predictor()

    def _held(self) -> tuple[int, int]:
        """Samples that are merged, and those that what is shared is made of."""
        return held_samples(int(self._merged.counts.sum()), len(self._pending))

    def _with(self, rule: LinearRule, classes: set[int]) -> LinearRule:
        """The rule with the rows of these classes as they are now."""
        rows = {}
        for number in sorted(classes):
            own = self._pending.rows[self._pending.classes == number]
            before, mean = self._merged.of_class(number)
            count = before + len(own)
            mean = (before * mean + own.sum(0, dtype=np.float64)) / count
            weights, bias = self._rows(rule.basis[1], np.array([count]), mean[None])
            rows[number] = weights[0], bias[0]
        return rule.with_classes(rows) if rows else rule

    _link: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None  # of the scores to probabilities

    def _shared(self, moments: ClassMoments) -> tuple[Any, ...]:
        """What every class's row is made with; the centre of the rule first."""
        raise NotImplementedError

    def _rows(
        self, shared: Any, counts: NDArray[np.int64], means: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (k, D) and biases (k,) of k classes."""
        raise NotImplementedError
