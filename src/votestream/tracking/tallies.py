"""Counts that a track record is made of, each of bounded size."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import MANY, demand, take, take_number
from votestream.tracking.tables import grown, room_for

PLACES = 4  # confusions kept of a class
PERIODS = 64  # of the stream's course; full, they are joined two by two
LATELY = 500  # tests


class Confusions:
    """For each class the classes it was most often taken for (Misra and Gries, 1982): counts are never too high.

    >>> confusions = Confusions()
    >>> confusions.grow(3)
    >>> for taken_for in (2, 1, 2):
    ...     confusions.add(0, taken_for)
    >>> confusions.most_frequent()
    [(2, 0, 2), (1, 0, 1)]
    """

    def __init__(self) -> None:
        self.n_classes = 0
        self._others = np.zeros((0, PLACES), np.int32)
        self._counts = np.zeros((0, PLACES), np.int32)

    @staticmethod
    def bytes_for(n_classes: int) -> int:
        return room_for(n_classes) * 8 * PLACES

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self._others, self._counts = grown(self._others, n_classes), grown(self._counts, n_classes)

    def add(self, number: int, taken_for: int) -> None:
        others, counts = self._others[number], self._counts[number]
        there = np.flatnonzero((counts > 0) & (others == taken_for))
        free = there if len(there) else np.flatnonzero(counts == 0)
        if len(free):
            others[free[0]] = taken_for
            counts[free[0]] += 1
        else:
            counts -= 1

    def forget(self, number: int) -> None:
        rows = [_renumbered(row, number, None) for row in self._rows()]
        self._set(rows[:number] + rows[number + 1 :])

    def join(self, number: int, into: int) -> None:
        rows = self._rows()
        rows[into].update(rows[number])
        rows = [_renumbered(row, number, into) for row in rows[:number] + rows[number + 1 :]]
        place = into - (into > number)
        rows[place].pop(place, None)
        self._set(rows)

    def merge(self, other: Confusions, numbers: NDArray[np.int64]) -> None:
        self.grow(max(self.n_classes, int(numbers.max()) + 1))
        rows = self._rows()
        for theirs, number in zip(other._rows(), numbers.tolist(), strict=True):
            rows[number].update({int(numbers[taken_for]): times for taken_for, times in theirs.items()})
        self._set(rows)

    def _rows(self) -> list[Counter[int]]:
        pairs = zip(self._others[: self.n_classes].tolist(), self._counts[: self.n_classes].tolist(), strict=True)
        return [Counter({o: c for o, c in zip(*row, strict=True) if c}) for row in pairs]

    def _set(self, rows: list[Counter[int]]) -> None:
        self._others, self._counts = self._others[:0], self._counts[:0]
        self.grow(len(rows))
        for number, row in enumerate(rows):
            for place, (taken_for, times) in enumerate(row.most_common(PLACES)):
                self._others[number, place], self._counts[number, place] = taken_for, times

    def most_frequent(self) -> list[tuple[int, int, int]]:
        """(times, class, what it was taken for), the most frequent first."""
        rows, places = np.nonzero(self._counts[: self.n_classes])
        found = [(int(self._counts[i, j]), int(i), int(self._others[i, j])) for i, j in zip(rows, places, strict=True)]
        return sorted(found, key=lambda each: (-each[0], each[1], each[2]))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"others": self._others[: self.n_classes], "counts": self._counts[: self.n_classes]}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        others = take(state, "others", np.int32, (n_classes, PLACES), 0, n_classes - 1)
        counts = take(state, "counts", np.int32, (n_classes, PLACES))
        self.grow(n_classes)
        self._others[:n_classes], self._counts[:n_classes] = others, counts


def _renumbered(row: Counter[int], number: int, into: int | None) -> Counter[int]:
    """Without that class, or with another in its place; later classes count one less."""
    fresh: Counter[int] = Counter()
    for taken_for, times in row.items():
        now = into if taken_for == number else taken_for
        if now is not None:
            fresh[now - (now > number)] += times
    return fresh


class Course:
    """How it went over time: tested, right and unknown samples of up to 64 periods of equal length.

    >>> course = Course()
    >>> for _ in range(3):
    ...     course.add(10, 8, 5, 2)
    >>> course.length, course.periods().tolist()
    (16, [[8, 5, 2], [16, 10, 4]])
    """

    def __init__(self) -> None:
        self.length = 16  # samples of a period
        self.samples = 0
        self._table = np.zeros((PERIODS, 3), np.int64)

    @staticmethod
    def nbytes() -> int:
        return 8 * PERIODS * 3

    def add(self, samples: int, tested: int, right: int, unknown: int) -> None:
        """Of samples that came together; they count for the period in which the last of them falls."""
        self.samples += samples
        while self.samples > PERIODS * self.length:
            pairs = self._table.reshape(PERIODS // 2, 2, 3).sum(1)
            self._table[: PERIODS // 2], self._table[PERIODS // 2 :] = pairs, 0
            self.length *= 2
        self._table[(self.samples - 1) // self.length] += (tested, right, unknown)

    def merge(self, other: Course) -> None:
        """The other's periods after these."""
        for number, (tested, right, unknown) in enumerate(other.periods().tolist()):
            self.add(min(other.length, other.samples - number * other.length), tested, right, unknown)

    def periods(self) -> NDArray[np.int64]:
        """(n, 3), without those to come."""
        return self._table[: -(-self.samples // self.length)]

    def state(self) -> dict[str, NDArray[Any]]:
        return {"table": self._table, "samples": np.array(self.samples), "length": np.array(self.length)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._table = take(state, "table", np.int64, (PERIODS, 3), 0, MANY)
        self.samples, self.length = take_number(state, "samples", 0, MANY), take_number(state, "length", 1, MANY)
        power = self.length & (self.length - 1) == 0
        demand(power and self.samples <= PERIODS * self.length, "the track record's periods do not fit its samples")


class Lately:
    """Right or wrong, of the last 500 tests."""

    def __init__(self) -> None:
        self._right = np.zeros(LATELY, np.uint8)
        self._tested = 0

    @staticmethod
    def nbytes() -> int:
        return LATELY

    def add(self, right: NDArray[np.bool_]) -> None:
        self._right[(self._tested + np.arange(len(right))) % LATELY] = right
        self._tested += len(right)

    def merge(self, other: Lately) -> None:
        """The other's tests after these."""
        tested = min(LATELY, other._tested)
        self.add(np.roll(other._right[:tested], -(other._tested % tested) if tested else 0).astype(bool))

    def counts(self) -> tuple[int, int]:
        """Tests, and right ones."""
        tested = min(LATELY, self._tested)
        return tested, int(self._right[:tested].sum())

    def state(self) -> dict[str, NDArray[Any]]:
        return {"right": self._right, "tested": np.array(self._tested)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._right = take(state, "right", np.uint8, (LATELY,), 0, 1)
        self._tested = take_number(state, "tested", 0, MANY)
