"""The track record: counts of how tests went before samples were learned. No sample is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import MANY, check_below, demand, take
from votestream.io.model_files import joined, part_of
from votestream.tracking.report import (
    Confusion,
    Label,
    OfClass,
    OfTask,
    Period,
    Score,
    Stated,
    Strange,
)
from votestream.tracking.tables import grown, room_for, without
from votestream.tracking.tallies import Confusions, Course, Lately

STRANGE = 0.95  # an unknown_score above which a sample is called unknown here
BINS = 10  # of stated confidence
KNOWN, UNKNOWN = 0, 1


class Record:
    """Counts by class, by confidence and over time, and the most frequent confusions."""

    def __init__(self) -> None:
        self.n_classes = 0
        self._met = np.zeros((2, 2), np.int64)  # known and unknown samples, and those scored as strange
        self._classes = np.zeros((0, 2), np.int64)  # tested, right
        self._stated = np.zeros((BINS, 3))  # tests, right ones, sum of the confidence stated
        self._confusions, self._course, self._lately = Confusions(), Course(), Lately()

    @staticmethod
    def bytes_for(n_classes: int) -> int:
        fixed = 32 + 8 * BINS * 3 + Course.nbytes() + Lately.nbytes()
        return fixed + room_for(n_classes) * 16 + Confusions.bytes_for(n_classes)

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self._classes = grown(self._classes, n_classes)
        self._confusions.grow(n_classes)

    def add(
        self,
        classes: NDArray[np.int64],
        chosen: NDArray[np.int64],
        stated: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> None:
        """Samples that came together: their classes, what was answered, how sure, and how strange they were."""
        known = classes < self.n_classes
        right = (chosen == classes)[known]
        own, strange = classes[known], scores > STRANGE
        self._met[KNOWN] += (known.sum(), strange[known].sum())
        self._met[UNKNOWN] += ((~known).sum(), strange[~known].sum())
        np.add.at(self._classes, own, np.stack((np.ones_like(own), right), axis=1))
        bins = np.minimum((stated[known] * BINS).astype(np.int64), BINS - 1)
        np.add.at(self._stated, bins, np.stack((np.ones(len(own)), right, stated[known]), axis=1))
        for number, taken_for in zip(own[~right].tolist(), chosen[known][~right].tolist(), strict=True):
            self._confusions.add(number, taken_for)
        self._lately.add(right)
        self._course.add(len(classes), len(own), int(right.sum()), int((~known).sum()))

    def add_unknown(self, samples: int) -> None:
        """Samples that came when nothing was known."""
        self._met[UNKNOWN, 0] += samples
        self._course.add(samples, 0, 0, samples)

    def add_untested(self, samples: int) -> None:
        """Samples that were learned without a test."""
        self._course.add(samples, 0, 0, 0)

    def forget(self, number: int) -> None:
        """Nothing of the class is left by name; it stays in sums over all classes, as those over time.

        The newest tests are not known by class, so they begin anew.
        """
        self._classes = without(self._classes, number, self.n_classes)
        self._lately = Lately()
        self._confusions.forget(number)
        self.n_classes -= 1

    def join(self, number: int, into: int) -> None:
        self._classes[into] += self._classes[number]
        self._classes = without(self._classes, number, self.n_classes)
        self._confusions.join(number, into)
        self.n_classes -= 1

    def merge(self, other: Record, numbers: NDArray[np.int64]) -> None:
        self.grow(max(self.n_classes, int(numbers.max()) + 1))
        self._classes[numbers] += other._classes[: other.n_classes]
        self._met += other._met
        self._stated += other._stated
        self._confusions.merge(other._confusions, numbers)
        self._course.merge(other._course)
        self._lately.merge(other._lately)

    @property
    def samples(self) -> int:
        return self._course.samples

    def lately(self) -> Score:
        return Score.of(*self._lately.counts())

    def parts(
        self,
        labels: list[Label],
        order: list[int],
        counts: NDArray[np.int64],
        tasks: list[int],
        task_names: list[Label | None],
    ) -> dict[str, Any]:
        """Fields of a report; `labels`, `counts` and `tasks` are by class number, `order` those of `classes_`."""
        scores = [Score.of(*row) for row in self._classes[: self.n_classes].tolist()]
        by_task = np.zeros((len(task_names), 2), np.int64)
        np.add.at(by_task, tasks, self._classes[: self.n_classes])
        met = [Strange(*row) for row in self._met.tolist()]
        return {
            "samples": self._course.samples,
            "so_far": Score.of(*self._classes.sum(0).tolist()),
            "lately": self.lately(),
            "known": met[KNOWN],
            "unknown": met[UNKNOWN],
            "classes": tuple(OfClass(labels[i], task_names[tasks[i]], int(counts[i]), scores[i]) for i in order),
            "tasks": tuple(OfTask(task_names[i], i, Score.of(*row)) for i, row in enumerate(by_task.tolist())),
            "confusions": tuple(
                Confusion(labels[own], labels[other], times)
                for times, own, other in self._confusions.most_frequent()[:10]
            ),
            "stated": tuple(_stated(i, *row) for i, row in enumerate(self._stated.tolist())),
            "over_time": self._periods(),
        }

    def _periods(self) -> tuple[Period, ...]:
        length, samples = self._course.length, self._course.samples
        return tuple(
            Period(i * length + 1, min(samples, (i + 1) * length), unknown, Score.of(tested, right))
            for i, (tested, right, unknown) in enumerate(self._course.periods().tolist())
        )

    def state(self) -> dict[str, NDArray[Any]]:
        parts: dict[str, Any] = {"confusions": self._confusions, "course": self._course, "lately": self._lately}
        own = {"met": self._met, "classes": self._classes[: self.n_classes], "stated": self._stated}
        return {**own, **joined({name: part.state() for name, part in parts.items()})}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        met = take(state, "met", np.int64, (2, 2), 0, MANY)
        classes = take(state, "classes", np.int64, (n_classes, 2), 0, MANY)
        stated = take(state, "stated", np.float64, (BINS, 3), 0, MANY)
        check_below("met", met[:, 1], met[:, 0])
        check_below("classes", classes[:, 1], classes[:, 0])
        check_below("stated", stated[:, 1:], stated[:, :1] * (1 + 1e-9))
        fits = int(classes[:, 0].sum()) <= int(met[KNOWN, 0]) == int(stated[:, 0].sum())  # less where one was forgotten
        demand(fits, "the track record's counts do not agree")
        self.grow(n_classes)
        self._met, self._stated = met, stated
        self._classes[:n_classes] = classes
        self._confusions.restore(part_of(state, "confusions"), n_classes)
        self._course.restore(part_of(state, "course"))
        self._lately.restore(part_of(state, "lately"))


def _stated(number: int, tested: float, right: float, confidence: float) -> Stated:
    mean = confidence / tested if tested else None
    return Stated(number / BINS, (number + 1) / BINS, mean, Score.of(int(tested), int(right)))
