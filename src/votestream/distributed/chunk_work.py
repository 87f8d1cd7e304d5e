"""The work of a worker on a chunk: extract features, train a learner of its own on them, send that back."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream._version import __version__
from votestream.common.validation import as_labels
from votestream.core.learner import Learner
from votestream.core.merge import learn_untested, settle
from votestream.core.predictor import leading
from votestream.core.registry import LEARNERS
from votestream.distributed.chunks import Chunk, FeatureExtractor
from votestream.distributed.parts import FORMAT, Part, joined_parts
from votestream.distributed.store import PartStore
from votestream.io.model_files import ModelFileError
from votestream.model_store.journal import fingerprint
from votestream.tracking.calibration import CalibrationSums
from votestream.tracking.tracker import Tests

TESTED = 64  # rows tested at once: calibration makes tables of them with every class


@dataclass(frozen=True)
class ChunkWork:
    """Sent to each worker once; calling it there gives the function for groups of chunks.

    extract : turns images into features.
    learner : an untrained one that can be merged; None: a part holds features.
    task : the task of new classes.
    judge : a model with a track record, which predicts rows before they are learned.
    store : a folder or URL where parts are kept and found again.
    """

    extract: FeatureExtractor
    learner: Learner | None
    task: str | int
    judge: Learner | None = None
    store: str | None = None

    def __call__(self) -> Callable[[list[Chunk]], bytes]:
        one = self.part_of if self.store is None else partial(self._stored, PartStore(self.store), self._about())
        return lambda group: joined_parts(map(one, group)).to_bytes()

    def _stored(self, store: PartStore, about: str, chunk: Chunk) -> Part:
        key = hashlib.sha256(f"{about}\n{self.extract.state_of(chunk)}".encode()).hexdigest()
        blob = store.get(key)
        if blob is not None:
            with suppress(ModelFileError):  # it is damaged, and is made again
                return Part.from_bytes(blob)
        part = self.part_of(chunk)
        store.put(key, part.to_bytes())
        return part

    def _about(self) -> str:
        """A text that differs where the part of the same chunk would differ."""
        about: dict[str, Any] = {"part": FORMAT, "version": __version__, "look": self.extract.about()}
        if self.learner is not None:
            about |= {"task": self.task, "learner": self.learner.header()}
            state = self.learner.state_
            about["begun"] = repr((state.unit, state.memory.shared_traits()))
        if self.judge is not None:
            about["judge"] = fingerprint(self.judge)
        return json.dumps(about, sort_keys=True)

    def part_of(self, chunk: Chunk) -> Part:
        extracted = self.extract(chunk)
        part = Part(len(chunk.labels), problems=extracted.problems, notes=[extracted.notes])
        if not len(extracted.labels):
            return part
        labels = as_labels(extracted.labels, len(extracted.features))
        part.learned = len(labels)
        if self.learner is None:
            part.features, part.labels = extracted.features, labels
            return part
        learner = copy.deepcopy(self.learner)
        if self.judge is not None:
            part.tests, part.sums = tested(self.judge, extracted.features, labels)
        elif (tracker := learner.state_.tracker) is not None:
            tracker.skip(len(labels))
        learn_untested(learner, extracted.features, labels, self.task)
        settle(learner)
        part.learner = learner
        return part


def tested(judge: Learner[Any], X: NDArray[np.float32], labels: list[str | int]) -> tuple[Tests, CalibrationSums]:
    """Test the model on these rows; classes that it does not have get the number after its last."""
    state, now = judge.state_, judge.prepared()
    tracker, index = state.tracker, state.numbers
    assert tracker is not None
    assert now.answers is not None
    sums, parts = tracker.no_sums(), []
    rows = judge.rows_of(X, state.n_features)
    for start in range(0, len(rows), TESTED):
        some = rows[start : start + TESTED]
        numbers = np.array([index.get(label, len(index)) for label in labels[start : start + TESTED]], np.int64)
        shares = leading(now.predictor.probabilities(some))
        parts.append(tracker.examine(now.answers, shares, some, numbers))
        tracker.calibrate(sums, shares, parts[-1])
    return Tests(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), sums


def is_registered(learner: Learner) -> bool:
    """Whether a part of such a learner can be read again, by the name it is registered under."""
    return LEARNERS.get(learner.name) is type(learner)
