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
from votestream.memory import Memory
from votestream.memory.statistics import extended


class AllRows(Memory):
    """Every row of the stream and its class."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows = np.empty((0, width), np.float32)
        self._classes = np.empty(0, np.int64)
        self._size = 0

    @property
    def rows(self) -> NDArray[np.float32]:
        """A view, (n, D)."""
        return self._rows[: self._size]

    @property
    def classes(self) -> NDArray[np.int64]:
        """A view, (n,)."""
        return self._classes[: self._size]

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        start, self._size = self._size, self._size + len(X)
        if self._size > len(self._rows):
            room = max(256, self._size, 2 * len(self._rows))
            self._rows, self._classes = extended(self._rows, room), extended(self._classes, room)
        self._rows[start : self._size] = X
        self._classes[start : self._size] = classes

    def forget(self, number: int) -> None:
        """Take the class out; classes above it count one less from now on."""
        kept = self.classes != number
        self._rows, classes = self.rows[kept], self.classes[kept]
        self._classes, self._size = classes - (classes > number), len(classes)

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another; afterwards classes above `number` count one less."""
        classes = np.where(self.classes == number, into, self.classes)
        self._rows, self._classes = self.rows, classes - (classes > number)

    def merge(self, other: AllRows, numbers: NDArray[np.int64]) -> None:
        """Add the rows of another stream; its class i is class numbers[i] here."""
        self.add(other.rows, numbers[other.classes])

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"rows": self.rows, "classes": self.classes}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        classes = take_classes(arrays, "classes", None, n_classes)
        check_all_met(classes, 0, n_classes)
        self._rows = take(arrays, "rows", np.float32, (len(classes), self._rows.shape[1]))
        self._classes, self._size = classes, len(classes)


@register("joint")
class JointProbe(Learner[AllRows]):
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

    def new_memory(self, width: int) -> AllRows:
        return AllRows(width)

    def new_predictor(self) -> LinearRule:
        rows, numbers, n_classes = self.memory_.rows, self.memory_.classes, len(self.state_.numbers)
        place = Place(self.device)
        mean = rows.mean(0, dtype=np.float64).astype(np.float32)
        deviation = rows.std(0, dtype=np.float64).astype(np.float32)
        deviation[deviation <= 1e-6 * np.abs(mean)] = 1  # a feature that never changes, but for rounding
        batches = []
        for part, own in zip(slices(rows, n_classes), slices(numbers, n_classes), strict=True):
            standard = np.pad((part - mean) / deviation, ((0, 0), (0, 1)), constant_values=1)
            batches.append((torch.tensor(standard, device=place.device), torch.tensor(own, device=place.device)))
        W, n_iter = self._minimised(batches, len(rows), n_classes)
        rule = LinearRule(W[:, :-1].astype(np.float64) / deviation, W[:, -1], mean, place)
        rule.n_iter = n_iter
        return rule

    def _minimised(
        self, batches: list[tuple[torch.Tensor, torch.Tensor]], n: int, n_classes: int
    ) -> tuple[NDArray[np.float32], int]:
        """Weights on standardised features that end in a 1, so that the last column is the intercept; steps taken."""
        W = torch.zeros(n_classes, batches[0][0].shape[1], device=batches[0][0].device)
        decay = torch.full_like(W, self.weight_decay)
        decay[:, -1] = 0

        def loss_and_gradient() -> float:
            loss, W.grad = float((decay * W * W).sum()) / 2, decay * W
            for rows, numbers in batches:
                log_p = (rows @ W.T).log_softmax(1)
                own = log_p.gather(1, numbers[:, None])
                loss -= float(own.sum(dtype=torch.float64)) / n
                error = log_p.exp().scatter_(1, numbers[:, None], own.exp() - 1)  # softmax less one-hot
                W.grad += error.T @ rows / n
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
        return self.by_class(self.prepared().predictor.weights) * np.float32(self.state_.unit)

    @learned
    def n_iter_(self) -> int:
        """Steps of L-BFGS that the last prediction took."""
        steps: int = self.prepared().predictor.n_iter
        return steps

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples kept of each class, (C,), as `classes_`."""
        return self.by_class(np.bincount(self.memory_.classes))

    @learned
    def class_means_(self) -> NDArray[np.float64]:
        """The mean of each class, (C, D), as `classes_`."""
        sums = np.zeros((len(self.state_.numbers), self.n_features_in_))
        np.add.at(sums, self.memory_.classes, self.memory_.rows)
        return self.by_class(sums) / self.class_counts_[:, None] / self.state_.unit
