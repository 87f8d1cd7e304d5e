"""Teaching a model from a folder of photos, so that stopping at any moment loses next to nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from votestream.backbones.progress import progress_bar
from votestream.learners import ImageClassifier
from votestream.photos.finding import Offer, PhotoError
from votestream.photos.opening import check_target, open_model
from votestream.photos.reading import Reading, readings
from votestream.photos.sidecar import LearnedPhotos, sidecar_of

SAVING = 0.2  # share of the time that saving may take: small models are saved after every batch


@dataclass
class Lesson:
    """What a run did."""

    model: ImageClassifier | None = None
    task: str | None = None
    new: list[str] = field(default_factory=list)  # classes met for the first time, in order of appearance
    learned: dict[str, int] = field(default_factory=dict)  # photos of each class
    known: int = 0
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False


def teach(path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int) -> Lesson:
    """Learn what is new in the offer, mixed across classes, saving as it goes.

    `settings` (backbone, learner, budget, device, max_pixels) are None where nobody asked for a value.
    """
    check_target(path)
    with _alone(path):
        return _Teacher(path, offer, settings, task, seed).run()


class _Teacher:
    def __init__(self, path: Path, offer: Offer, settings: dict[str, Any], task: str | None, seed: int) -> None:
        self.path = path
        self.backbone, self.learner = open_model(path, settings, seed)
        if settings["max_pixels"] is not None:
            self.backbone.max_pixels = settings["max_pixels"]
        labels = self.learner.classes_.tolist() if self.learner._is_fitted() else []
        total = int(self.learner.class_counts_.sum()) if labels else 0
        try:
            self.sidecar = LearnedPhotos(path, total)
        except OSError as problem:
            raise PhotoError(f"{sidecar_of(path)} cannot be read: {problem.strerror or problem}.") from None
        self.own = {str(label): label for label in labels}  # a model made in Python may have numbers for labels
        self.lesson = Lesson(problems=list(offer.problems))
        self.photos = [offer.photos[i] for i in np.random.default_rng(seed).permutation(len(offer.photos))]
        self.old, self.offered = set(self.own), offer.labels
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
                self._sort(reading, batch)
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
        self._finish()
        return self.lesson

    def _sort(self, reading: Reading, batch: list[Reading]) -> None:
        if reading.problem:
            self.lesson.problems.append(reading.problem)
        elif reading.pixels is None or reading.digest in self.sidecar or reading.digest in (r.digest for r in batch):
            self.lesson.known += 1
        else:
            batch.append(reading)

    def _learn(self, batch: list[Reading]) -> None:
        features = self.backbone.of_prepared(
            np.stack([reading.pixels for reading in batch if reading.pixels is not None])
        )
        labels = [reading.photo.label for reading in batch]
        self.learner.partial_fit(features, [self.own.get(label, label) for label in labels], task=self.lesson.task)
        self.sidecar.note(reading.digest for reading in batch)
        for label in labels:
            self.lesson.learned[label] = self.lesson.learned.get(label, 0) + 1
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

    def _finish(self) -> None:
        lesson = self.lesson
        if self.learner._is_fitted():
            lesson.model = ImageClassifier(self.backbone, self.learner)
            lesson.new = [str(label) for label in self.learner.classes_.tolist() if str(label) not in self.old]
        if not lesson.interrupted:
            nobody = [label for label in self.offered if label not in self.old and label not in lesson.new]
            lesson.problems += [f"Of the class {label} no photo could be read: it was not learned." for label in nobody]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two runs on one model would each undo what the other has learned."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
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
