"""Classes whose samples have changed: more errors, or farther from where the class was, than chance explains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import MANY, take
from votestream.tracking.tables import grown, room_for, without

WARM_UP = 30  # tests of a class before it is watched
ALARM = 14.0  # log likelihood ratio; `benchmarks/drift.py` has what it costs and finds
FARTHER = 1.5  # standard deviations that a class has moved by, if it has
LARGEST_STEP = 4.0  # standard deviations that one sample counts for, at most
SIGNS = ("accuracy", "distance")

# Columns of the table of a class.
TESTS, WRONG, MEAN, SQUARES = range(4)  # its past
EVIDENCE, RISING = slice(4, 6), slice(6, 8)  # of each sign, and since when it rises
BEGIN, END = (
    slice(8, 10),
    slice(10, 12),
)  # of the newest alarm: since when, and its last sample so far; 0 where none was
COLUMNS = 12


class DriftWatch:
    """A cumulative sum test (Page, 1954) of each class for errors and one for the distance to its own mean.

    Evidence is the log likelihood ratio of "changed" against "as it was", summed up, never below zero: half of the
    right answers now wrong; or samples 1.5 standard deviations farther away. It begins to rise when the change begins,
    which is when an alarm says. While it is high the past is not updated, so that a change does not become the norm.

    >>> watch = DriftWatch()
    >>> watch.grow(1)
    >>> for place in range(100):
    ...     watch.add(0, wrong=place >= 60, distance=1.0 + place % 3, place=place)
    >>> watch.alarms()
    [(0, 'accuracy', 60, None)]
    """

    def __init__(self) -> None:
        self.n_classes = 0
        self._table = np.zeros((0, COLUMNS))

    @staticmethod
    def bytes_for(n_classes: int) -> int:
        return room_for(n_classes) * 8 * COLUMNS

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self._table = grown(self._table, n_classes)

    def add(self, number: int, wrong: bool, distance: float, place: int) -> None:
        """A tested sample of a known class, `place` samples into the stream."""
        row = self._table[number]
        tests, wrongs, mean, squares = row[:4].tolist()
        if tests >= WARM_UP:
            usual = (wrongs + 1) / (tests + 2)
            steps = (
                math.log((1 + usual) / (2 * usual)) if wrong else math.log(0.5),
                FARTHER * (_standardised(distance, mean, squares / tests) - FARTHER / 2),
            )
            for sign, step in enumerate(steps):
                before = row[EVIDENCE][sign]
                if before == 0:
                    row[RISING][sign] = place
                row[EVIDENCE][sign] = min(max(0.0, before + step), 2 * ALARM)
                if row[EVIDENCE][sign] >= ALARM:
                    row[BEGIN][sign], row[END][sign] = row[RISING][sign], place
        if row[EVIDENCE].max() < ALARM / 2:
            row[TESTS] = tests + 1
            row[WRONG] = wrongs + wrong
            row[MEAN] = mean + (distance - mean) / (tests + 1)
            row[SQUARES] = squares + (distance - mean) * (distance - row[MEAN])

    def forget(self, number: int) -> None:
        self._table = without(self._table, number, self.n_classes)
        self.n_classes -= 1

    def join(self, number: int, into: int) -> None:
        """The class's own past is dropped: the other's goes on."""
        self.forget(number)

    def merge(self, other: DriftWatch, numbers: NDArray[np.int64], samples: int) -> None:
        """Of a class that both have met, the longer past goes on; the other's stream comes after so many samples."""
        self.grow(max(self.n_classes, int(numbers.max()) + 1))
        for row, number in zip(other._table, numbers.tolist(), strict=False):
            if row[TESTS] > self._table[number, TESTS]:
                self._table[number] = row
                for places in (self._table[number, RISING], self._table[number, BEGIN], self._table[number, END]):
                    places[places > 0] += samples

    def alarms(self) -> list[tuple[int, str, int, int | None]]:
        """The class, "accuracy" or "distance", from which place of the stream to which; None where it goes on.

        An alarm ends when the class has been learned as it is now, or is again as it was.
        """
        found = []
        for number, row in enumerate(self._table[: self.n_classes]):
            for sign, name in enumerate(SIGNS):
                if row[END][sign]:
                    over = row[EVIDENCE][sign] < ALARM
                    found.append((number, name, int(row[BEGIN][sign]), int(row[END][sign]) if over else None))
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        return {"table": self._table[: self.n_classes]}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        table = take(state, "table", np.float64, (n_classes, COLUMNS), -1e12, MANY)
        for column in (TESTS, WRONG, SQUARES, EVIDENCE, RISING, BEGIN, END):
            take(
                {"table": np.ascontiguousarray(table[:, column])}, "table", np.float64, table[:, column].shape, 0, MANY
            )
        self.grow(n_classes)
        self._table[:n_classes] = table


def _standardised(value: float, mean: float, variance: float) -> float:
    spread = math.sqrt(variance)
    if spread <= 1e-9 * abs(mean):  # a class whose samples are all the same
        return 0.0 if value <= mean else LARGEST_STEP
    return min(max((value - mean) / spread, -LARGEST_STEP), LARGEST_STEP)
