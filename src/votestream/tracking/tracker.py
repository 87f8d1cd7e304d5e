"""What a learner keeps of its own tests: record, calibration, unknowns and drift, in step with what is learned."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.io.model_files import joined, part_of
from votestream.tracking.calibration import Calibration, CalibrationSums
from votestream.tracking.drift import DriftWatch
from votestream.tracking.record import Record
from votestream.tracking.report import Drift, Label, Score, TrackReport
from votestream.tracking.unit_moments import UnitMoments, unit_rows
from votestream.tracking.unknowns import Distances, Metric, NewestScores, Unknowns


class Answers(NamedTuple):
    """Immutable: what the record adds to a predictor."""

    calibration: Calibration
    unknowns: Unknowns


class Tests(NamedTuple):
    """How tests of some rows went, an entry a row; `distance` of rows of unknown classes is 0."""

    classes: NDArray[np.int64]
    chosen: NDArray[np.int64]
    stated: NDArray[np.float64]
    scores: NDArray[np.float64]
    ood: NDArray[np.float32]  # see `Distances.ood_scores`
    left_out: NDArray[np.float32]  # what it would be if the class were unknown; nan where it is, or is the only one
    distance: NDArray[np.float64]


class Tracker:
    """Everything under `track=True`. Its size depends on the width of the rows and the number of classes alone.

    `test` before a mini-batch is learned, `learn` after; `answers` in between. Classes are numbers, in order of first
    appearance; those from the number of classes on are unknown. `fade` is how fast records lose weight for calibration
    as classes come; None leaves probabilities as they are.
    """

    def __init__(self, width: int, fade: float | None) -> None:
        self._moments = UnitMoments(width)
        self._record = Record()
        self._calibrates = fade is not None
        self._sums = CalibrationSums(fade or 0.0)
        self._ood, self._left_out = NewestScores(), NewestScores()
        self._drift = DriftWatch()

    @staticmethod
    def bytes_for(width: int, n_classes: int) -> int:
        by_class = (Record, NewestScores, NewestScores, DriftWatch)
        more = sum(part.bytes_for(n_classes) for part in by_class) + CalibrationSums.nbytes()
        return UnitMoments.bytes_for(width, n_classes) + more

    @property
    def counts(self) -> NDArray[np.int64]:
        """Samples of each class."""
        return self._moments.counts

    @property
    def learned(self) -> int:
        """Samples."""
        return int(self._moments.counts.sum())

    @property
    def samples(self) -> int:
        """Those that the record knows of."""
        return self._record.samples

    def is_due(self, samples: int, growth: float) -> bool:
        """Whether to test on the next so many samples: on all, or whenever the stream is `growth` times as long.

        It follows from the count alone, so that a model that was saved and loaded is tested on the same samples.
        """
        before = self.learned
        return growth == 1 or _marks(before + samples, growth) > _marks(before, growth)

    def answers(self, before: Answers | None) -> Answers:
        """What is known now; made quicker from an earlier one."""
        moments = self._moments
        metric = None if before is None else before.unknowns.distances.metric
        if metric is None or metric.samples != moments.held_samples:
            metric = Metric.of(moments.held, moments.held_samples)
        distances = Distances.of(metric, moments.counts, moments.means)
        calibration = self._sums.now(moments.counts) if self._calibrates else Calibration()
        return Answers(calibration, Unknowns(distances, self._ood.sorted(), self._left_out.sorted()))

    def test(
        self, answers: Answers, shares: NDArray[np.float64], X: NDArray[np.float32], classes: NDArray[np.int64]
    ) -> None:
        """Rows that are about to be learned, and the probabilities that a predictor gave them, as they come."""
        tests = self.examine(answers, shares, X, classes)
        self.calibrate(self._sums, shares, tests)
        self.note(tests, self.learned)

    def examine(
        self, answers: Answers, shares: NDArray[np.float64], X: NDArray[np.float32], classes: NDArray[np.int64]
    ) -> Tests:
        """How such a test goes; nothing is changed."""
        known = classes < shares.shape[1]
        distances = answers.unknowns.distances
        z = distances.whitened(unit_rows(X))
        apart = distances.to_classes(z)
        ood, left_out = distances.ood_scores(z, apart), np.full(len(X), np.nan, np.float32)
        stated = answers.calibration(shares.copy()).max(1)
        relative, rows = np.zeros(len(X)), np.flatnonzero(known)
        if shares.shape[1] > 1:
            left_out[rows] = distances.left_out_scores(z[rows], apart[rows], classes[rows])
        relative[rows] = np.log(np.maximum(apart[rows, classes[rows]] / distances.metric.expected, 1e-6))
        return Tests(classes, shares.argmax(1), stated, answers.unknowns.among(ood), ood, left_out, relative)

    def calibrate(self, sums: CalibrationSums, shares: NDArray[np.float64], tests: Tests) -> None:
        """Add what calibration learns from the tests to these sums: the tracker's own, or such as `add_sums` takes."""
        known = tests.classes < shares.shape[1]
        own = tests.classes[known]
        if len(own) and shares.shape[1] > 1:
            sums.add(shares[known], tests.chosen[known] == own, self._moments.counts[own])

    def no_sums(self) -> CalibrationSums:
        """For tests that are carried out elsewhere, by a copy of this model."""
        return CalibrationSums(0.0)

    def add_sums(self, sums: CalibrationSums) -> None:
        self._sums.merge(sums)

    def note(self, tests: Tests, before: int) -> None:
        """Keep how tests went; `before` samples have been learned before the first of them."""
        known = tests.classes < self._record.n_classes
        self._record.add(tests.classes, tests.chosen, tests.stated, tests.scores)
        own, rows = tests.classes[known], np.flatnonzero(known)
        self._ood.add(own, tests.ood[known])
        told = known & ~np.isnan(tests.left_out)
        self._left_out.add(tests.classes[told], tests.left_out[told])
        for row, number, distance in zip(rows.tolist(), own.tolist(), tests.distance[known].tolist(), strict=True):
            self._drift.add(number, bool(tests.chosen[row] != number), distance, before + row + 1)

    def test_nothing_known(self, samples: int) -> None:
        """The first rows of all."""
        self._record.add_unknown(samples)

    def skip(self, samples: int) -> None:
        """Rows that are learned without a test."""
        self._record.add_untested(samples)

    def learn(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Rows that have just been learned."""
        before = self._moments.n_classes
        self._moments.add(unit_rows(X), classes)
        now = self._moments.n_classes
        if now > before:
            self._sums.grow(before, now)
            for part in (self._record, self._ood, self._left_out, self._drift):
                part.grow(now)

    def forget(self, number: int) -> None:
        """Drop a class; those above it count one less."""
        for part in self._by_class():
            part.forget(number)

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another."""
        for part in self._by_class():
            part.join(number, into)

    def merge(self, other: Tracker, numbers: NDArray[np.int64]) -> None:
        """Go on as if the other's stream had come after this one; its class i is class numbers[i] here."""
        self._drift.merge(other._drift, numbers, self._record.samples)
        self._moments.merge(other._moments, numbers)
        self._record.merge(other._record, numbers)
        self._ood.merge(other._ood, numbers)
        self._left_out.merge(other._left_out, numbers)
        self._sums.merge(other._sums)

    def _by_class(self) -> tuple[Any, ...]:
        return self._moments, self._record, self._ood, self._left_out, self._drift

    def lately(self) -> Score:
        """How the newest tests went."""
        return self._record.lately()

    def report(
        self, labels: list[Label], order: list[int], tasks: list[int], task_names: list[Label | None]
    ) -> TrackReport:
        """Labels and tasks are by class number; `order` lists these as the report does."""
        drift = tuple(Drift(labels[alarm[0]], *alarm[1:]) for alarm in self._drift.alarms())
        return TrackReport(**self._record.parts(labels, order, self._moments.counts, tasks, task_names), drift=drift)

    def state(self) -> dict[str, NDArray[Any]]:
        return joined({name: part.state() for name, part in self._parts().items()})

    def _parts(self) -> dict[str, Any]:
        return {
            "moments": self._moments,
            "record": self._record,
            "sums": self._sums,
            "ood": self._ood,
            "left_out": self._left_out,
            "drift": self._drift,
        }

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        self._sums.restore(part_of(state, "sums"))
        for name in ("moments", "record", "ood", "left_out", "drift"):
            self._parts()[name].restore(part_of(state, name), n_classes)


def record_bytes(width: int, n_classes: int) -> int:
    """Bytes of a track record; a function that files of other formats, such as skops, can name."""
    return Tracker.bytes_for(width, n_classes)


def _marks(samples: int, growth: float) -> int:
    return int(math.log(samples, growth)) if samples else -1
