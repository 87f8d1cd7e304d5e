"""The growing single-head classifier: one linear layer, a row a class, of which only a block learns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.validation import LARGEST, OUTLYING, warn_of_offsets
from votestream.compute.place import Array, Place, library_of, small_product
from votestream.compute.random_pool import RandomPool
from votestream.io.array_checks import TRAINED, take, take_scale
from votestream.io.model_files import joined, part_of
from votestream.learners.exemplars.modules import HeadModule
from votestream.memory import FeatureMemory, Memory

LEAST_WIDTH = 8  # with fewer features, the mean is too large a part of them to do without


class GrowingHead:
    """Logits for every class so far; softmax cross-entropy by plain SGD on the rows from `start` up.

    The gradient is written out: rows below `start` are not in it, so nothing can leak into them.

    With `centre`, each input is taken less the mean of its elements, and so is each row at its start; rows
    then stay that way, and logits of inputs as they come are the same as of centred ones. Features behind
    a ReLU share a large mean, which tells no class from another and makes every step push all logits.

    >>> import torch
    >>> head = GrowingHead(2, bias=False, init="zeros", centre=False, place=Place("cpu"))
    >>> head.grow(2, torch.Generator())
    >>> head.step(np.eye(2, dtype=np.float32), np.array([0, 1]), start=1, lr=1.0)
    >>> head.rows.tolist()
    [[0.0, 0.0], [-0.25, 0.25]]
    """

    def __init__(self, width: int, bias: bool, init: str, centre: bool, place: Place) -> None:
        self.width = width
        self.n_classes = 0
        self._bias = bias
        self._init = init
        self._centre = centre and width >= LEAST_WIDTH
        self.place = place
        self._rows = place.put(np.zeros((8, width + bias), np.float32))  # the bias is one more column
        self._numbers = place.put(np.arange(8))

    def begin(self, X: NDArray[np.float32]) -> None:
        """Warn where SGD will not get far: what these rows share swamps what tells them apart."""
        warn_of_offsets(X, common=1e5 if self._centre else 50, differing=50)

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        """Rows for new classes, drawn as a linear layer's by default: uniform in ±1/sqrt(D)."""
        new, columns = n_classes - self.n_classes, self.width + self._bias
        rows = np.zeros((new, columns), np.float32)
        if self._init == "uniform":
            rows = (2 * torch.rand(new, columns, generator=generator).numpy() - 1) * np.float32(self.width**-0.5)
        if self._centre:
            rows[:, : self.width] -= rows[:, : self.width].mean(1, keepdims=True)
        self._append(rows)

    def _append(self, rows: NDArray[np.float32]) -> None:
        n_classes = self.n_classes + len(rows)
        if n_classes > len(self._rows):
            longer = np.zeros((max(n_classes, 2 * len(self._rows)), self._rows.shape[1]), np.float32)
            longer[: self.n_classes] = self.rows
            self._rows = self.place.put(longer)
            self._numbers = self.place.put(np.arange(len(longer)))
        self._rows[self.n_classes : n_classes] = self.place.put(rows)
        self.n_classes = n_classes

    def step(self, X: NDArray[np.float32], classes: NDArray[np.int64], start: int, lr: float) -> None:
        """One SGD step on the mean cross-entropy of the rows, over all classes so far."""
        put, end = self.place.put, self.n_classes
        share = lr / len(X)
        batch = put(X)
        xp = library_of(batch)
        if self._centre:
            batch = batch - xp.sum(batch, axis=1, keepdims=True) / self.width
        batch = self._input(batch)
        error = small_product(self._rows[:end], batch.T)  # (C, n)
        error -= xp.amax(error, axis=0)
        xp.exp(error, out=error)
        error *= share / xp.sum(error, axis=0)  # the softmax, times lr / n
        block = error[start:]
        block -= share * (self._numbers[start:end, None] == put(classes))
        self._rows[start:end] -= small_product(block, batch)

    def frozen(self) -> GrowingHead:
        """As it is now; what this one learns later does not change it."""
        twin = copy.copy(self)
        twin._rows = self._rows[: self.n_classes] * 1  # copied, by NumPy and torch alike
        if self._centre:  # steps round: what is left of the rows' means would weigh all that the features share
            weights = twin._rows[:, : self.width]
            weights -= library_of(weights).sum(weights, axis=1, keepdims=True) / self.width
        return twin

    def logits(self, X: Array) -> Array:
        if self._centre:  # the rows' own means are 0, but float32 rounds what features share
            X = X - library_of(X).sum(X, axis=1, keepdims=True) / self.width
        return self._input(X) @ self._rows[: self.n_classes].T

    def as_module(self, scale: np.float32) -> HeadModule:
        """The logits of inputs that are yet to be scaled, as a torch module."""
        rows = self.rows
        bias = rows[:, self.width] if self._bias else np.zeros(len(rows), np.float32)
        clipped = bool(scale > LARGEST / OUTLYING)
        return HeadModule(
            float(scale), clipped, self._centre, weights=np.ascontiguousarray(rows[:, : self.width].T), bias=bias
        )

    def norms(self) -> Array:
        weights = self._rows[: self.n_classes, : self.width]
        return library_of(weights).sqrt((weights * weights).sum(1))

    @staticmethod
    def scaled(X: Array, scale: np.float32) -> Array:
        """Inputs times the scale, none so large that logits would overflow."""
        inputs = X * scale
        return inputs if scale <= LARGEST / OUTLYING else inputs.clip(-LARGEST, LARGEST)

    def _input(self, X: Array) -> Array:
        if not self._bias:
            return X
        ones = self.place.put(np.ones((len(X), 1), np.float32))
        return library_of(X).concatenate((X, ones), 1)

    def forget(self, label: int) -> None:
        """The class's row is gone, and later ones move up."""
        rows = np.delete(self.rows, label, axis=0)
        self._rows[:], self.n_classes = 0, 0
        self._append(rows)

    @property
    def rows(self) -> NDArray[np.float32]:
        """All that was learned, (C, D), or (C, D + 1) with the bias; on the host."""
        return self.place.get(self._rows[: self.n_classes])

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        shape = n_classes, self.width + self._bias
        self._append(take(state, "head", np.float32, shape, -TRAINED, TRAINED))


def unit_scale(X: NDArray[np.float32], scale: float | str | None) -> np.float32:
    """What the head's inputs are multiplied by: "auto" is what brings these rows to unit spread, None is 1.

    >>> float(unit_scale(np.array([[-2.0, 2.0]], np.float32), "auto"))
    0.5
    """
    if scale != "auto":
        return np.float32(1 if scale is None else scale)
    spread = float(X.std(dtype=np.float64))
    return np.float32(min(1 / spread, LARGEST) if spread else 1)


class HeadMemory(Memory):
    """Exemplars, a head that is trained, what its inputs are multiplied by, and random numbers.

    scale: see `unit_scale`.
    """

    def __init__(self, exemplars: FeatureMemory, head: GrowingHead, scale: float | str | None, seed: int) -> None:
        self.width = exemplars.width
        self.exemplars = exemplars
        self.head = head
        self.random = RandomPool(seed)
        self._scale_param = scale

    def begin(self, rows: NDArray[np.float32], unit: float = 1.0) -> None:
        self.head.begin(rows)
        self.scale = unit_scale(rows, self._scale_param)

    def forget(self, number: int) -> None:
        """Take the class out; classes above it count one less from now on."""
        self.exemplars.forget(number)
        self.head.forget(number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {"memory": self.exemplars.arrays(), "random": self.random.state()}
        return {"head": self.head.rows, "scale": np.array(self.scale), **joined(parts)}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.head.restore(arrays, n_classes)
        self.exemplars.restore(part_of(arrays, "memory"), n_classes)
        self.scale = take_scale(arrays)
        self.random.restore(part_of(arrays, "random"))
