"""The driver of a job: hands out chunks, merges the parts that come back along a fixed tree, then into the model."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.learner import Learner
from votestream.core.merge import begun_like, settle
from votestream.core.settings import check_settings
from votestream.core.tasks import next_task
from votestream.distributed.chunk_work import ChunkWork, is_registered
from votestream.distributed.chunks import Chunk, FeatureExtractor
from votestream.distributed.executor import Executor, single_threaded
from votestream.distributed.groups import Groups
from votestream.distributed.merge_tree import MergeTree
from votestream.distributed.parts import Part, merged

BUSY = 0.5  # of the driver's time: from there on workers merge before they send
WINDOW = 256  # parts, at most, after which that is measured
LARGE = 1 << 20  # bytes of a part


@dataclass
class Outcome:
    """What a job made of a learner, which itself is as it was."""

    learner: Learner | None  # None where no image could be learned
    images: int = 0  # offered
    learned: int = 0
    problems: list[str] = field(default_factory=list)  # in the order of the list


def learn_chunks(
    learner: Learner,
    chunks: Iterable[Chunk],
    extract: FeatureExtractor,
    place: Executor,
    *,
    task: str | int | None = None,
    store: str | None = None,
    advance: Callable[[int], None] = lambda images: None,
    noted: Callable[[Any], None] = lambda notes: None,
) -> Outcome:
    """Have workers extract the features of the chunks and train on them; `noted` gets each chunk's notes, in order."""
    check_settings(learner)
    if learner.fitted:
        learner.check_fitted()
    named = next_task(learner.tasks_ if learner.fitted else []) if task is None else task
    names = learner.state_.feature_names if learner.fitted else None  # workers get arrays
    driver: _Merging | _InOrder
    if learner.mergeable and is_registered(learner):
        first, chunks = _first_rows(learner, extract, chunks)
        if not learner.fitted and first is None:
            return Outcome(None, *_nothing(extract, chunks))
        driver = _Merging(learner, first)
    else:
        driver = _InOrder(learner, named, opened=task is not None)
    work = ChunkWork(extract, driver.begun, named, driver.judge, store)
    groups, load = Groups(chunks), _Load(min(2 * place.workers, WINDOW))
    outcome, waiting, turn = Outcome(None), {}, 0
    with single_threaded():  # the driver's part of the arithmetic, too, is the same wherever it is done
        for number, blob in place.run(work, groups):
            began = time.perf_counter()
            part = Part.from_bytes(blob)
            branch = groups.branch(number)
            if driver.merges and _is_heavy(blob, part):
                groups.grow(beyond=branch[0])
            driver.take(branch, part)
            part.learner = None  # it is in the tree
            advance(part.images)
            waiting[number] = part
            while turn in waiting:
                part = waiting.pop(turn)
                turn += 1
                outcome.learned += driver.follow(part)
                outcome.images += part.images
                outcome.problems += part.problems
                for notes in part.notes:
                    noted(notes)
            if load.is_high(time.perf_counter() - began) and driver.merges:
                groups.grow()
        outcome.learner = driver.result()
    if outcome.learner is not None and names is not None:
        outcome.learner.state_.feature_names = names
    return outcome


def _is_heavy(blob: bytes, part: Part) -> bool:
    """Whether a part is large, and larger than its features: a covariance is shared by all the images of a part."""
    return part.learner is not None and len(blob) > max(LARGE, 4 * part.learner.n_features_in_ * part.learned)


class _Merging:
    """For learners that can be merged: the tree takes parts as they come; tests are noted in the order of the list."""

    def __init__(self, learner: Learner, first: NDArray[np.float32] | None) -> None:
        self._old = _nameless(learner) if learner.fitted else None
        self.begun = begun_like(learner, first)
        self._settings = {name: getattr(learner, name) for name in learner.part_params()}
        self.judge = learner if self._old is not None and learner.state_.tracker is not None else None
        self._tree: MergeTree[Any] = MergeTree(merged)

    @property
    def merges(self) -> bool:
        """Whether workers may merge neighbours; tests are added up in the order of the list, here."""
        return self.judge is None

    def take(self, branch: tuple[int, int], part: Part) -> None:
        level, place = branch
        self._tree.add(place, part.learner, level)

    def follow(self, part: Part) -> int:
        tracker = None if self._old is None else self._old.state_.tracker
        if tracker is not None and part.tests is not None and part.sums is not None:
            tracker.note(part.tests, tracker.samples)
            tracker.add_sums(part.sums)
        return part.learned

    def result(self) -> Learner | None:
        new = self._tree.result()
        if new is None:
            return self._old
        new.set_params(**self._settings)
        if self._old is not None:
            return merged(self._old, new)
        settle(new)
        return new


def _nameless(learner: Learner) -> Learner:
    """A copy of the learner; its columns have no names."""
    twin = copy.deepcopy(learner)
    twin.state_.feature_names = None
    return twin


class _Load:
    """Measures whether the driver is busy for more than half of its time, after so many parts at the earliest."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._begin()

    def is_high(self, seconds: float) -> bool:
        """It was busy with a part for so long."""
        self._busy += seconds
        self._parts += 1
        if self._parts < self._after:
            return False
        high = self._busy > BUSY * (time.perf_counter() - self._began)
        self._begin()
        return high

    def _begin(self) -> None:
        self._began, self._busy, self._parts = time.perf_counter(), 0.0, 0


class _InOrder:
    """For learners that cannot: they learn the features in the order of the list, in whole mini-batches."""

    begun = judge = None
    merges = False

    def __init__(self, learner: Learner, named: str | int, opened: bool) -> None:
        self._learner = _nameless(learner) if learner.fitted else type(learner)(**learner.get_params(deep=False))
        self._named, self._open = named, opened  # whether new classes belong to the task from here on
        self._rows: list[NDArray[np.float32]] = []
        self._labels: list[str | int] = []

    def take(self, branch: tuple[int, int], part: Part) -> None:
        pass

    def follow(self, part: Part) -> int:
        if part.features is None:
            return 0
        self._rows.append(part.features)
        self._labels += part.labels
        size = self._learner.batch_size
        self._learn(len(self._labels) // size * size)
        return part.learned

    def _learn(self, count: int) -> None:
        if not count:
            return
        rows, learner = np.concatenate(self._rows), self._learner
        known = learner.state_.numbers if learner.fitted else {}
        self._open = self._open or any(label not in known for label in self._labels[:count])
        learner.partial_fit(rows[:count], self._labels[:count], task=self._named if self._open else None)
        self._rows, self._labels = [rows[count:]], self._labels[count:]

    def result(self) -> Learner | None:
        self._learn(len(self._labels))
        return self._learner if self._learner.fitted else None


def _first_rows(
    learner: Learner, extract: FeatureExtractor, chunks: Iterable[Chunk]
) -> tuple[NDArray[np.float32] | None, Iterator[Chunk]]:
    """The rows that a learner begins with, where it has not begun; and all chunks, the first ones among them."""
    rest, held = iter(chunks), []
    rows: list[NDArray[np.float32]] = []
    if learner.fitted:
        return None, rest
    size = learner.batch_size
    with single_threaded():
        for chunk in rest:
            held.append(chunk)
            for start in range(0, len(chunk.labels), size):
                end = start + size
                part = Chunk(chunk.first + start, chunk.items[start:end], chunk.labels[start:end])
                rows.append(extract(part).features)
                if sum(map(len, rows)) >= size:
                    return np.concatenate(rows)[:size], chain(held, rest)
    found = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
    return (found if len(found) else None), iter(held)


def _nothing(extract: FeatureExtractor, chunks: Iterable[Chunk]) -> tuple[int, int, list[str]]:
    """Images, none learned, and why."""
    chunks = list(chunks)
    return sum(len(chunk.labels) for chunk in chunks), 0, [text for chunk in chunks for text in extract(chunk).problems]
