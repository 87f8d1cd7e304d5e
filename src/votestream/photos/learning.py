"""Teaching a model from a folder of photos, so that stopping at any moment loses next to nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from votestream.common.progress import progress_bar
from votestream.images.class_folders import composed, some
from votestream.photos.finding import Offer, PhotoError
from votestream.photos.opening import check_target, open_model
from votestream.photos.reading import Reading, readings
from votestream.photos.sidecar import LearnedPhotos, check_place, followed, sidecar_of
from votestream.pipeline import ImageClassifier

SAVING = 0.2  # share of the time that saving may take: small models are saved after every batch


@dataclass
class Lesson:
    """What a run did, or would do."""

    model: ImageClassifier | None = None
    task: str | None = None
    new: list[str] = field(default_factory=list)  # classes met for the first time, in order of appearance
    learned: dict[str, int] = field(default_factory=dict)  # photos of each class
    known: Counter[str] = field(default_factory=Counter)  # photos that an earlier run has learned
    copies: Counter[str] = field(default_factory=Counter)  # of another photo of the same class in this run
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False
    remark: str = ""  # about the backbone: why it was chosen, or which would see more


def teach(path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int) -> Lesson:
    """Learn what is new in the offer, mixed across classes, saving as it goes.

    `settings` (backbone, views, stages, learner, budget, device, max_pixels) are None where nobody asked for a value.
    """
    path = followed(path)
    check_target(path)
    with _alone(path):
        return _Teacher(path, offer, settings, task, seed).run()


def rehearse(path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int) -> Lesson:
    """What `teach` would do, as far as that can be told without decoding a photo; nothing is written."""
    path = followed(path)
    check_target(path)
    return _Teacher(path, offer, settings, task, seed).rehearse()


class _Teacher:
    def __init__(self, path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int) -> None:
        self.path = path
        opened = open_model(path, settings, seed, [photo.path for photo in offer.photos])
        self.backbone, self.learner = opened.backbone, opened.learner
        if settings["max_pixels"] is not None:
            self.backbone.max_pixels = settings["max_pixels"]
        labels = self.learner.classes_.tolist() if self.learner._is_fitted() else []
        total = int(self.learner.class_counts_.sum()) if labels else 0
        try:
            self.sidecar = LearnedPhotos(path, total)
        except OSError as problem:
            raise PhotoError(f"{sidecar_of(path)} cannot be read: {problem.strerror or problem}.") from None
        # A model made in Python may have numbers for labels, and names whose accents are letters of their own.
        self.own = {composed(str(label)): label for label in labels} | {str(label): label for label in labels}
        self.lesson = Lesson(problems=list(offer.problems), remark=opened.remark)
        self.photos = [offer.photos[i] for i in np.random.default_rng(seed).permutation(len(offer.photos))]
        self.old, self.offered, self.met = set(self.own), offer.labels, set[str]()
        # Without new classes the last task goes on learning; a new one would freeze it and have nothing to learn.
        if set(offer.labels) - self.old:
            taken = self.learner.tasks_ if labels else []
            self.lesson.task = task or self.sidecar.task_for(offer.labels, taken)
        rows = self.learner.batch_size  # whole mini-batches, so that an interrupted run ends where one ends
        self.batch_size = max(1, self.backbone.batch_size // rows) * rows
        self.unsaved, self.saved_at, self.saving_took = False, -1e9, 0.0

    def run(self) -> Lesson:
        with _asked_to_stop() as asked, progress_bar("Learning", len(self.photos)) as advance:
            batch: list[Reading] = []
            reader = readings(self.photos, self.backbone, self.sidecar)
            for reading in reader:
                if asked():
                    break
                if self._is_new(reading):
                    batch.append(reading)
                if len(batch) == self.batch_size:
                    self._learn(batch)
                    batch = []
                advance(1)
            else:
                if batch and not asked():
                    self._learn(batch)
            self.lesson.interrupted = asked()
            reader.close()  # type: ignore[attr-defined]
            self._save()
        return self._finish()

    def rehearse(self) -> Lesson:
        with progress_bar("Looking", len(self.photos)) as advance:
            for reading in readings(self.photos, None, self.sidecar):
                if self._is_new(reading):
                    self._count(reading.photo.label)
                advance(1)
        return self._finish()

    def _is_new(self, reading: Reading) -> bool:
        """Whether there is something to learn; everything else is counted."""
        if reading.problem:
            self.lesson.problems.append(reading.problem)
            return False
        copy, known = reading.digest in self.met, reading.digest in self.sidecar
        self.met.add(reading.digest)
        self.lesson.copies[reading.photo.label] += copy
        self.lesson.known[reading.photo.label] += known and not copy
        return not copy and not known

    def _count(self, label: str) -> None:
        self.lesson.learned[label] = self.lesson.learned.get(label, 0) + 1

    def _learn(self, batch: list[Reading]) -> None:
        features = self.backbone.of_prepared(
            np.stack([reading.pixels for reading in batch if reading.pixels is not None])
        )
        labels = [reading.photo.label for reading in batch]
        self.learner.partial_fit(features, [self.own.get(label, label) for label in labels], task=self.lesson.task)
        self.sidecar.note(reading.digest for reading in batch)
        for label in labels:
            self._count(label)
        self.unsaved = True
        if time.monotonic() - self.saved_at >= self.saving_took * (1 / SAVING - 1):
            self._save()

    def _save(self) -> None:
        if not self.unsaved:
            return
        start = time.monotonic()
        try:
            self.sidecar.write()
            ImageClassifier(self.backbone, self.learner).save(self.path)
        except OSError as problem:
            raise PhotoError(f"{self.path} cannot be written: {problem.strerror or problem}.") from None
        self.unsaved, self.saved_at = False, time.monotonic()
        self.saving_took = self.saved_at - start

    def _finish(self) -> Lesson:
        lesson = self.lesson
        if self.learner._is_fitted():
            lesson.model = ImageClassifier(self.backbone, self.learner)
        lesson.new = [label for label in lesson.learned if label not in self.old]
        nobody = [label for label in self.offered if label not in self.old and label not in lesson.new]
        if nobody and not lesson.interrupted:
            one = len(nobody) == 1
            told = f"the class {nobody[0]}" if one else f"the classes {some(nobody, 5)}"
            lesson.problems.append(f"Of {told} no photo could be read: {'it was' if one else 'they were'} not learned.")
        return lesson


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two runs on one model would each undo what the other has learned."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        check_place(Path(lock.lock_file), "keeps its lock", lambda start: not start)
        Path(lock.lock_file).touch()  # tells a place that cannot be written to from a lock that is taken
        lock.acquire(timeout=0)
    except Timeout:
        raise PhotoError(f"{path} is being taught by another run just now: wait until it is done.") from None
    except OSError as problem:
        raise PhotoError(f"{path} cannot be written: {problem.strerror or problem}.") from None
    try:
        yield
    finally:
        with suppress(OSError):  # some systems do not delete what is open
            Path(lock.lock_file).unlink()
        lock.release()


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
