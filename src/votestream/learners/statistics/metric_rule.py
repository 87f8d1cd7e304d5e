"""Quadratic rules: a mean and a metric of its own for each class (fecam, srda)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.compute.place import Array, Place, library_of
from votestream.learners.statistics.linear_rule import slices, softmax
from votestream.learners.statistics.modules import MetricModule
from votestream.memory.power import to_power


class MetricRule(NamedTuple):
    """A predictor: minus half the squared distance to each class's mean, by its own metric, plus a bias a class.

    >>> rule = MetricRule.of(np.array([[0.0], [2.0]]), np.array([[[1.0]], [[0.1]]]), np.log([1.0, 0.1]), Place("cpu"))
    >>> rule.decide(np.array([[1.0], [9.0]], np.float32)).tolist()  # the second class is ten times as wide
    [0, 1]
    """

    means: Array  # (C, D)
    whiten: Array  # (C, D, D)
    bias: NDArray[np.float64]  # (C,)
    place: Place
    power: float  # rows are taken to it
    unit_rows: bool  # and then to unit length

    @classmethod
    def of(
        cls,
        means: NDArray[Any],
        whiten: NDArray[Any],
        bias: NDArray[np.float64],
        place: Place,
        power: float = 1.0,
        unit_rows: bool = False,
    ) -> MetricRule:
        put = place.put
        tables = put(means.astype(np.float32)), put(whiten.astype(np.float32, copy=False))
        return cls(*tables, bias, place, power, unit_rows)

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._scores(X).argmax(1)
        return found

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return softmax(self._scores(X))

    def as_module(self) -> MetricModule:
        get = self.place.get
        arrays = {"means": get(self.means), "whiten": get(self.whiten), "bias": self.bias.astype(np.float32)}
        return MetricModule(self.power, self.unit_rows, **arrays)

    def _scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n, C)."""
        seen = to_power(X, np.float32(self.power))
        seen = seen / row_lengths(seen) if self.unit_rows else seen
        parts = [self._squared(self.place.put(rows)) for rows in slices(seen, 1024)]
        return -0.5 * np.concatenate(parts).astype(np.float64) + self.bias

    def _squared(self, X: Array) -> NDArray[np.float32]:
        columns = []
        for mean, table in zip(self.means, self.whiten, strict=True):
            z = (X - mean) @ table
            columns.append((z * z).sum(1)[:, None])
        return self.place.get(library_of(X).concatenate(columns, 1))


def row_lengths(rows: NDArray[Any]) -> NDArray[Any]:
    """(n, 1); 1 where a row is zero, which then stays so."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.where(length > 0, length, 1).astype(rows.dtype)
