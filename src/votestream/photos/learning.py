"""Teaching a model from a folder of photos, so that stopping at any moment loses next to nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from votestream.common.progress import progress_bar
from votestream.compute.place import one_thread
from votestream.images.class_folders import composed, some
from votestream.photos.finding import Offer, Photo
from votestream.photos.lock import alone
from votestream.photos.looking import Features, looked_at
from votestream.photos.opening import check_target, open_model
from votestream.photos.reading import Reading, readings
from votestream.photos.sidecar import followed
from votestream.photos.taught_model import TaughtModel
from votestream.pipeline import ImageClassifier

SAVING = 0.1  # share of the time that saving may take: small models are saved after every batch


class Moved(NamedTuple):
    """A photo that lies in another class than the one it was learned in."""

    photo: Photo
    digest: str
    before: str  # the class it was learned in


@dataclass
class Lesson:
    """What a run did, or would do."""

    model: ImageClassifier | None = None
    task: str | None = None
    new: list[str] = field(default_factory=list)  # classes met for the first time, in order of appearance
    learned: dict[str, int] = field(default_factory=dict)  # photos of each class
    known: Counter[str] = field(default_factory=Counter)  # photos that an earlier run has learned
    copies: Counter[str] = field(default_factory=Counter)  # of another photo of the same class in this run
    twice: Counter[str] = field(default_factory=Counter)  # copies that were learned, as other workers had the photo
    corrected: list[Moved] = field(default_factory=list)
    in_both: list[Moved] = field(default_factory=list)  # moved, but the journal does not reach them
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


def teach(path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int, keep: int) -> Lesson:
    """Learn what is new in the offer, mixed across classes, saving as it goes.

    `settings` (backbone, views, stages, learner, budget, device, max_pixels) are None where nobody asked for a value;
    `keep` is the number of lessons in the journal.
    """
    path = followed(path)
    check_target(path)
    with alone(path):
        return Teacher(path, offer, settings, task, seed, keep).run()


def rehearse(path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int, keep: int) -> Lesson:
    """What `teach` would do, as far as that can be told without decoding a photo; nothing is written."""
    path = followed(path)
    check_target(path)
    return Teacher(path, offer, settings, task, seed, keep).rehearse()


class Teacher:
    """A run of `votestream learn`: the model, what the folder offers to it, and what became of that."""

    def __init__(
        self, path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int, keep: int
    ) -> None:
        opened = open_model(path, settings, seed, [photo.path for photo in offer.photos])
        backbone, learner = opened.backbone, opened.learner
        if settings["max_pixels"] is not None:
            backbone.max_pixels = settings["max_pixels"]
        self.backbone = backbone
        self.taught = TaughtModel(path, ImageClassifier(backbone, learner), keep)
        labels = self.taught.labels
        # A model made in Python may have numbers for labels, and names whose accents are letters of their own.
        self.own = {composed(str(label)): label for label in labels} | {str(label): label for label in labels}
        notes = [opened.remark, *self._about_journal()]  # why this backbone was chosen, or which would see more
        self.lesson = Lesson(problems=list(offer.problems), notes=[text for text in notes if text])
        self.photos = [offer.photos[i] for i in np.random.default_rng(seed).permutation(len(offer.photos))]
        self.old, self.offered = set(self.own), offer.labels
        self.met: dict[str, set[str]] = {}  # classes in which this run found each photo
        self.set_aside: list[Reading] = []  # learned in another class before
        # Without new classes the last task goes on learning; a new one would freeze it and have nothing to learn.
        if set(offer.labels) - self.old:
            taken = self.taught.model.tasks_ if labels else []
            self.lesson.task = task or self.taught.sidecar.task_for(offer.labels, taken)
        rows = learner.batch_size  # whole mini-batches, so that an interrupted run ends where one ends
        self.batch_size = max(1, backbone.batch_size // rows) * rows
        self.saved_at, self.saving_took = -1e9, 0.0

    def _about_journal(self) -> list[str]:
        if self.taught.finished:
            return ["A change of this model had been interrupted: it is finished now."]
        if self.taught.problem and self.taught.keep:
            return [f"{self.taught.problem}: a new one is begun, and undo reaches no further back."]
        return []

    def run(self) -> Lesson:
        with _asked_to_stop() as asked, progress_bar("Learning", len(self.photos)) as advance:
            self._learn_all(self._new(readings(self.photos, self.backbone, self.taught.sidecar), asked, advance), asked)
            if not asked():
                self.taught.trim()  # how far it reaches must not depend on when the model was saved
                again = self._settle_moved()
                if self.lesson.corrected:
                    self._correct()
                self._learn_all(self._read_again(again, asked), asked)
            self.lesson.interrupted = asked()
            self.taught.close()
        return self._finish()

    def rehearse(self) -> Lesson:
        with progress_bar("Looking", len(self.photos)) as advance:
            for reading in readings(self.photos, None, self.taught.sidecar):
                if self._is_new(reading):
                    self._count(reading.photo.label)
                advance(1)
        for reading in self._settle_moved():
            self._count(reading.photo.label)
        return self._finish()

    def _new(
        self, found: Generator[Reading, None, None], asked: Callable[[], bool], advance: Callable[[int], None]
    ) -> Iterator[Reading]:
        """Those to learn now, until somebody asks to stop."""
        with closing(found):
            for reading in found:
                if asked():
                    return
                if self._is_new(reading):
                    yield reading
                advance(1)

    def _read_again(self, before: list[Reading], asked: Callable[[], bool]) -> Iterator[Reading]:
        """Photos whose digests are known, decoded now."""
        with closing(readings([reading.photo for reading in before], self.backbone)) as found:
            for old, reading in zip(before, found, strict=True):
                if asked():
                    return
                if reading.problem:
                    self.lesson.problems.append(reading.problem)
                else:
                    yield replace(reading, digests=old.digests)

    def _learn_all(self, found: Iterator[Reading], asked: Callable[[], bool]) -> None:
        for batch, features in looked_at(self._batches(found, asked), self.backbone):
            self._learn(batch, features)

    def _batches(self, found: Iterator[Reading], asked: Callable[[], bool]) -> Iterator[list[Reading]]:
        batch: list[Reading] = []
        for reading in found:
            batch.append(reading)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not asked():
            yield batch

    def _is_new(self, reading: Reading) -> bool:
        """Whether there is something to learn now; everything else is counted, or set aside."""
        if reading.problem:
            self.lesson.problems.append(reading.problem)
            return False
        label, digest, sidecar = reading.photo.label, reading.digests.content, self.taught.sidecar
        classes = self.met.setdefault(digest, set())
        copy, known = label in classes, sidecar.knows(reading.digests, label)
        classes.add(label)
        self.lesson.copies[label] += copy
        self.lesson.known[label] += known and not copy
        if copy or known:
            return False
        if sidecar.classes_of(digest):
            self.set_aside.append(reading)
            return False
        return True

    def _settle_moved(self) -> list[Reading]:
        """Which photos set aside were moved to another class; the others are to be learned."""
        again, taken = [], set()
        for reading in self.set_aside:
            photo, digest = reading.photo, reading.digests.content
            left = [label for label in self.taught.sidecar.classes_of(digest) if label not in self.met[digest]]
            left = [label for label in left if (digest, label) not in taken]
            reached = [label for label in left if self.taught.lesson_of(digest, label) is not None]
            if reached:
                taken.add((digest, reached[0]))
                self.lesson.corrected.append(Moved(photo, digest, reached[0]))
                continue
            if left:
                self.lesson.in_both.append(Moved(photo, digest, left[0]))
            again.append(reading)
        return again

    def _correct(self) -> None:
        changes = {}
        for moved in self.lesson.corrected:
            lesson = self.taught.lesson_of(moved.digest, moved.before)
            assert lesson is not None
            changes[lesson] = self.own.get(moved.photo.label, moved.photo.label)
        self.taught.correct(changes)

    def _count(self, label: str) -> None:
        self.lesson.learned[label] = self.lesson.learned.get(label, 0) + 1

    def _learn(self, batch: list[Reading], features: Features) -> None:
        labels = [reading.photo.label for reading in batch]
        mine = [self.own.get(label, label) for label in labels]
        digests = [reading.digests.content for reading in batch]
        with one_thread():  # steps too small to share, while the other cores read and look
            names = [str(reading.photo.path) for reading in batch]
            self.taught.learn(features, mine, self.lesson.task, digests, names)
        for label in labels:
            self._count(label)
        if time.monotonic() - self.saved_at >= self.saving_took * (1 / SAVING - 1):
            start = time.monotonic()
            self.taught.save()
            self.saved_at = time.monotonic()
            self.saving_took = self.saved_at - start

    def _finish(self) -> Lesson:
        lesson, model = self.lesson, self.taught.model
        if model.fitted:
            lesson.model = model
        now = {*lesson.learned, *(moved.photo.label for moved in lesson.corrected)}
        lesson.new = [label for label in lesson.learned if label not in self.old]
        nobody = [label for label in self.offered if label not in self.old and label not in now]
        if nobody and not lesson.interrupted:
            one = len(nobody) == 1
            told = f"the class {nobody[0]}" if one else f"the classes {some(nobody, 5)}"
            lesson.problems.append(f"Of {told} no photo could be read: {'it was' if one else 'they were'} not learned.")
        return lesson


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the batch in hand is finished first. Pressed again, it stops at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # signals go to the main thread only
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
