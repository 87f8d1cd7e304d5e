"""What a worker does with a chunk: look at it, have a learner of its own learn it, send that back."""

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
from votestream.distributed.chunks import Chunk, Look
from votestream.distributed.parts import FORMAT, Part, joined_parts
from votestream.distributed.store import PartStore
from votestream.io.model_files import ModelFileError
from votestream.model_store.journal import fingerprint
from votestream.tracking.calibration import CalibrationSums
from votestream.tracking.tracker import Tests

TESTED = 64  # rows tested at once: calibration makes tables of them with every class


@dataclass(frozen=True)
class ChunkWork:
    """Sent to each worker once, and called there for the function that groups of chunks are given to.

    look : how images become features.
    learner : one that has begun and learned nothing, for learners that can be merged; None: a part is features.
    task : what new classes belong to.
    judge : a model with a track record that rows are tested by before they are learned.
    store : a folder or URL where parts are kept, and looked for.
    """

    look: Look
    learner: Learner | None
    task: str | int
    judge: Learner | None = None
    store: str | None = None

    def __call__(self) -> Callable[[list[Chunk]], bytes]:
        one = self.part_of if self.store is None else partial(self._stored, PartStore(self.store), self._about())
        return lambda group: joined_parts(map(one, group)).to_bytes()

    def _stored(self, store: PartStore, about: str, chunk: Chunk) -> Part:
        key = hashlib.sha256(f"{about}\n{self.look.state_of(chunk)}".encode()).hexdigest()
        blob = store.get(key)
        if blob is not None:
            with suppress(ModelFileError):  # it is damaged, and made again
                return Part.from_bytes(blob)
        part = self.part_of(chunk)
        store.put(key, part.to_bytes())
        return part

    def _about(self) -> str:
        """All that decides about a part, beside the chunk."""
        about: dict[str, Any] = {"part": FORMAT, "version": __version__, "look": self.look.about()}
        if self.learner is not None:
            about |= {"task": self.task, "learner": self.learner.header()}
            state = self.learner.state_
            about["begun"] = repr((state.unit, state.memory.shared_traits()))
        if self.judge is not None:
            about["judge"] = fingerprint(self.judge)
        return json.dumps(about, sort_keys=True)

    def part_of(self, chunk: Chunk) -> Part:
        looked = self.look(chunk)
        part = Part(len(chunk.labels), problems=looked.problems, notes=[looked.notes])
        if not len(looked.labels):
            return part
        labels = as_labels(looked.labels, len(looked.features))
        part.learned = len(labels)
        if self.learner is None:
            part.features, part.labels = looked.features, labels
            return part
        learner = copy.deepcopy(self.learner)
        if self.judge is not None:
            part.tests, part.sums = tested(self.judge, looked.features, labels)
        elif (tracker := learner.state_.tracker) is not None:
            tracker.skip(len(labels))
        learn_untested(learner, looked.features, labels, self.task)
        settle(learner)
        part.learner = learner
        return part


def tested(judge: Learner[Any], X: NDArray[np.float32], labels: list[str | int]) -> tuple[Tests, CalibrationSums]:
    """How the model predicts these rows; classes that it does not know have the number after its last."""
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
