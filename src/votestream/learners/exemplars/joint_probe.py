"""JointProbe: a linear classifier trained on everything at once, the bound that learning from a stream aims at."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.parameters import Ranges, real, whole
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.core.registry import register
from votestream.io.array_checks import check_all_met, take, take_classes
from votestream.learners.statistics.linear_rule import LinearRule, slices
from votestream.memory.statistics import extended


@register("joint")
class JointProbe(Learner):
    r"""Keeps every feature and, when an answer is asked for, fits a multinomial logistic regression to them all.

    .. math::
        \min_{W, b} \; \frac1n \sum_i -\log \operatorname{softmax}(W x_i + b)_{y_i}
        + \frac{\lambda}{2} \lVert W \rVert^2

    Not a method for streams but what they are measured against: it alone keeps the data, 4 D + 8 bytes a
    sample (the room for them doubles when full), and its memory grows with the stream. The loss, with
    lambda the `weight_decay` and features of zero mean and unit variance, is minimised by L-BFGS from zero:
    from the last answer it would be quicker, but then answers would depend on when one had asked before.

    Take it as an upper bound to compare linear learners with; it keeps all features.

    Reference: Dong Liu and Jorge Nocedal, "On the Limited Memory BFGS Method for Large Scale Optimization",
    Mathematical Programming 1989, for the solver.

    Parameters
    ----------
    weight_decay : the weight of |W|² / 2; the intercept is free.
    max_iter : steps of L-BFGS at most; it stops earlier when no gradient is larger than 1e-5.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" is the GPU if there is one.

    >>> import votestream as vs
    >>> model = vs.JointProbe().partial_fit([[0.0], [1.0]], ["a", "a"]).partial_fit([[9.0], [8.0]], ["b", "b"])
    >>> model.predict([[2.0], [7.0]]).tolist()
    ['a', 'b']
    """

    bounded = False

    parameter_ranges: ClassVar[Ranges] = {"weight_decay": real(1e-12, 1e6), "max_iter": whole(1, 10_000)}

    def __init__(
        self,
        weight_decay: float = 1e-3,
        max_iter: int = 300,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])

    def _allocate(self, width: int) -> None:
        self._place = Place(self.device)
        self._rows = np.empty((256, width), np.float32)
        self._numbers = np.empty(256, np.int64)
        self._size = 0

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        start, self._size = self._size, self._size + len(X)
        if self._size > len(self._rows):
            capacity = max(self._size, 2 * len(self._rows))
            self._rows, self._numbers = extended(self._rows, capacity), extended(self._numbers, capacity)
        self._rows[start : self._size] = X
        self._numbers[start : self._size] = classes

    def _predictor(self) -> LinearRule:
        rows = self._rows[: self._size]
        mean = rows.mean(0, dtype=np.float64).astype(np.float32)
        deviation = rows.std(0, dtype=np.float64).astype(np.float32)
        deviation[deviation <= 1e-6 * np.abs(mean)] = 1  # a feature that never changes, but for rounding
        device, n_classes, batches = self._place.device, len(self._index), []
        for part, numbers in zip(slices(rows, n_classes), slices(self._numbers[: self._size], n_classes), strict=True):
            standard = np.pad((part - mean) / deviation, ((0, 0), (0, 1)), constant_values=1)
            batches.append((torch.tensor(standard, device=device), torch.tensor(numbers, device=device)))
        W, n_iter = self._fit(batches)
        rule = LinearRule(W[:, :-1].astype(np.float64) / deviation, W[:, -1], mean, self._place)
        rule.n_iter = n_iter
        return rule

    def _fit(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[NDArray[np.float32], int]:
        """Weights on standardised features that end in a 1, so that the last column is the intercept; steps taken."""
        W = torch.zeros(len(self._index), self.n_features_in_ + 1, device=self._place.device)
        decay = torch.full_like(W, self.weight_decay)
        decay[:, -1] = 0

        def loss_and_gradient() -> float:
            loss, W.grad = float((decay * W * W).sum()) / 2, decay * W
            for rows, numbers in batches:
                log_p = (rows @ W.T).log_softmax(1)
                own = log_p.gather(1, numbers[:, None])
                loss -= float(own.sum(dtype=torch.float64)) / self._size
                error = log_p.exp().scatter_(1, numbers[:, None], own.exp() - 1)  # softmax less one-hot
                W.grad += error.T @ rows / self._size
            return loss

        optimiser = torch.optim.LBFGS(
            [W], max_iter=self.max_iter, tolerance_grad=1e-5, tolerance_change=1e-9, line_search_fn="strong_wolfe"
        )
        with torch.no_grad():
            optimiser.step(loss_and_gradient)
        return W.cpu().numpy(), max(1, optimiser.state[W]["n_iter"])

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the classifier, (C, D), as `classes_`."""
        return self._sorted(self._now().predictor.weights) * np.float32(self._unit)

    @learned
    def n_iter_(self) -> int:
        """Steps of L-BFGS that the last answer took."""
        return self._now().predictor.n_iter

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples kept of each class, (C,), as `classes_`."""
        return self._sorted(np.bincount(self._numbers[: self._size]))

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        sums = np.zeros((len(self._index), self.n_features_in_))
        np.add.at(sums, self._numbers[: self._size], self._rows[: self._size])
        return self._sorted(sums) / self.class_counts_[:, None] / self._unit

    mergeable = True

    def _forget(self, number: int) -> None:
        kept = self._numbers[: self._size] != number
        self._rows, numbers = self._rows[: self._size][kept], self._numbers[: self._size][kept]
        self._numbers, self._size = numbers - (numbers > number), len(numbers)

    def _join(self, number: int, into: int) -> None:
        numbers = np.where(self._numbers == number, into, self._numbers)
        self._numbers = numbers - (numbers > number)

    def _merge(self, other: JointProbe, numbers: NDArray[np.int64]) -> None:
        self._learn(other._rows[: other._size], numbers[other._numbers[: other._size]], 0)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"rows": self._rows[: self._size], "classes": self._numbers[: self._size]}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_classes = len(self._index)
        classes = take_classes(arrays, "classes", None, n_classes)
        check_all_met(classes, 0, n_classes)
        rows = take(arrays, "rows", np.float32, (len(classes), self.n_features_in_))
        self._place, self._rule = Place(self.device), None
        self._rows, self._numbers, self._size = rows, classes, len(classes)
