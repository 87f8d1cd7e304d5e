"""Training of a model on a folder of photos, saved often, so that it can be stopped at any moment."""

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
from votestream.model_store.lock import model_lock
from votestream.model_store.model_file import open_model
from votestream.model_store.paths import check_model_path, resolve_link
from votestream.model_store.stored_model import StoredModel
from votestream.photos.decode import DecodedPhoto, decode_photos
from votestream.photos.features import Features, extract_features
from votestream.photos.photo_list import Photo, PhotoList
from votestream.pipeline import ImageClassifier

SAVE_SHARE = 0.1  # share of the time that saving may take: small models are saved after every batch


class MovedPhoto(NamedTuple):
    """A photo that lies in another class folder than the one in which it was learned."""

    photo: Photo
    digest: str
    before: str  # the class in which it was learned


@dataclass
class LearnResult:
    """What a run of `votestream learn` did, or would do."""

    model: ImageClassifier | None = None
    task: str | None = None
    new: list[str] = field(default_factory=list)  # new classes, in order of appearance
    learned: dict[str, int] = field(default_factory=dict)  # photos of each class
    known: Counter[str] = field(default_factory=Counter)  # photos that an earlier run has learned
    copies: Counter[str] = field(default_factory=Counter)  # copies of another photo of the same class in this run
    twice: Counter[str] = field(default_factory=Counter)  # copies that several workers learned
    corrected: list[MovedPhoto] = field(default_factory=list)
    in_both: list[MovedPhoto] = field(default_factory=list)  # moved, but no longer in the journal
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


def learn_photos(
    path: Path, found: PhotoList, settings: dict[str, Any], task: str | None, seed: int, keep: int
) -> LearnResult:
    """Train the model on the new photos of a list, in random order, and save it as it goes.

    `settings` (backbone, views, stages, learner, budget, device, max_pixels) are None where the user gave no value;
    `keep` is the number of photos in the journal.
    """
    path = resolve_link(path)
    check_model_path(path)
    with model_lock(path):
        return PhotoTraining(path, found, settings, task, seed, keep).run()


def preview_photos(
    path: Path, found: PhotoList, settings: dict[str, Any], task: str | None, seed: int, keep: int
) -> LearnResult:
    """What `learn_photos` would do, without decoding any photo and without writing anything."""
    path = resolve_link(path)
    check_model_path(path)
    return PhotoTraining(path, found, settings, task, seed, keep).preview()


class PhotoTraining:
    """One run of `votestream learn`: the model, the photos, and the result so far."""

    def __init__(
        self, path: Path, found: PhotoList, settings: dict[str, Any], task: str | None, seed: int, keep: int
    ) -> None:
        opened = open_model(path, settings, seed, [photo.path for photo in found.photos])
        backbone, learner = opened.backbone, opened.learner
        if settings["max_pixels"] is not None:
            backbone.max_pixels = settings["max_pixels"]
        self.backbone = backbone
        self.stored = StoredModel(path, ImageClassifier(backbone, learner), keep)
        labels = self.stored.labels
        # A model made in Python may have numbers for labels, and names with decomposed accents.
        self.own = {composed(str(label)): label for label in labels} | {str(label): label for label in labels}
        notes = [opened.remark, *self._journal_notes()]
        self.result = LearnResult(problems=list(found.problems), notes=[text for text in notes if text])
        self.photos = [found.photos[i] for i in np.random.default_rng(seed).permutation(len(found.photos))]
        self.old, self.labels = set(self.own), found.labels
        self.classes_in_run: dict[str, set[str]] = {}  # the classes in which this run found each photo
        self.set_aside: list[DecodedPhoto] = []  # photos that were learned in another class before
        # Without new classes the last task is continued: a new task would be empty, and would freeze the last one.
        if set(found.labels) - self.old:
            used = self.stored.model.tasks_ if labels else []
            self.result.task = task or self.stored.sidecar.task_for(found.labels, used)
        rows = learner.batch_size  # whole mini-batches, so that an interrupted run ends between two of them
        self.batch_size = max(1, backbone.batch_size // rows) * rows
        self.saved_at, self.save_time = -1e9, 0.0

    def _journal_notes(self) -> list[str]:
        if self.stored.finished:
            return ["A change of this model had been interrupted: it is finished now."]
        if self.stored.problem and self.stored.keep:
            return [f"{self.stored.problem}: a new journal is begun, and older photos cannot be undone."]
        return []

    def run(self) -> LearnResult:
        with _stop_requested() as stop, progress_bar("Learning", len(self.photos)) as advance:
            decoded = decode_photos(self.photos, self.backbone, self.stored.sidecar)
            self._learn_all(self._new_photos(decoded, stop, advance), stop)
            if not stop():
                self.stored.trim()  # the journal's length must not depend on when the model was saved
                again = self._settle_moved()
                if self.result.corrected:
                    self._correct()
                self._learn_all(self._decode_again(again, stop), stop)
            self.result.interrupted = stop()
            self.stored.close()
        return self._finish()

    def preview(self) -> LearnResult:
        with progress_bar("Reading", len(self.photos)) as advance:
            for photo in decode_photos(self.photos, None, self.stored.sidecar):
                if self._is_new(photo):
                    self._count(photo.photo.label)
                advance(1)
        for photo in self._settle_moved():
            self._count(photo.photo.label)
        return self._finish()

    def _new_photos(
        self, decoded: Generator[DecodedPhoto, None, None], stop: Callable[[], bool], advance: Callable[[int], None]
    ) -> Iterator[DecodedPhoto]:
        """The photos to learn, until the user stops the run."""
        with closing(decoded):
            for photo in decoded:
                if stop():
                    return
                if self._is_new(photo):
                    yield photo
                advance(1)

    def _decode_again(self, before: list[DecodedPhoto], stop: Callable[[], bool]) -> Iterator[DecodedPhoto]:
        """Photos whose digests were known, decoded now."""
        with closing(decode_photos([photo.photo for photo in before], self.backbone)) as decoded:
            for old, photo in zip(before, decoded, strict=True):
                if stop():
                    return
                if photo.problem:
                    self.result.problems.append(photo.problem)
                else:
                    yield replace(photo, digests=old.digests)

    def _learn_all(self, photos: Iterator[DecodedPhoto], stop: Callable[[], bool]) -> None:
        for batch, features in extract_features(self._batches(photos, stop), self.backbone):
            self._learn_batch(batch, features)

    def _batches(self, photos: Iterator[DecodedPhoto], stop: Callable[[], bool]) -> Iterator[list[DecodedPhoto]]:
        batch: list[DecodedPhoto] = []
        for photo in photos:
            batch.append(photo)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not stop():
            yield batch

    def _is_new(self, photo: DecodedPhoto) -> bool:
        """Whether the photo is to be learned now; all others are counted or set aside."""
        if photo.problem:
            self.result.problems.append(photo.problem)
            return False
        label, digest, sidecar = photo.photo.label, photo.digests.content, self.stored.sidecar
        classes = self.classes_in_run.setdefault(digest, set())
        copy, known = label in classes, sidecar.has_learned(photo.digests, label)
        classes.add(label)
        self.result.copies[label] += copy
        self.result.known[label] += known and not copy
        if copy or known:
            return False
        if sidecar.classes_of(digest):
            self.set_aside.append(photo)
            return False
        return True

    def _settle_moved(self) -> list[DecodedPhoto]:
        """Find the photos that were moved to another class; returns those that are still to be learned."""
        again, corrected = [], set()
        for photo in self.set_aside:
            digest, here = photo.digests.content, self.classes_in_run[photo.digests.content]
            left = [label for label in self.stored.sidecar.classes_of(digest) if label not in here]
            left = [label for label in left if (digest, label) not in corrected]
            in_journal = [label for label in left if self.stored.place_in_journal(digest, label) is not None]
            if in_journal:
                corrected.add((digest, in_journal[0]))
                self.result.corrected.append(MovedPhoto(photo.photo, digest, in_journal[0]))
                continue
            if left:
                self.result.in_both.append(MovedPhoto(photo.photo, digest, left[0]))
            again.append(photo)
        return again

    def _correct(self) -> None:
        changes = {}
        for moved in self.result.corrected:
            place = self.stored.place_in_journal(moved.digest, moved.before)
            assert place is not None
            changes[place] = self.own.get(moved.photo.label, moved.photo.label)
        self.stored.correct(changes)

    def _count(self, label: str) -> None:
        self.result.learned[label] = self.result.learned.get(label, 0) + 1

    def _learn_batch(self, batch: list[DecodedPhoto], features: Features) -> None:
        labels = [photo.photo.label for photo in batch]
        own_labels = [self.own.get(label, label) for label in labels]
        digests = [photo.digests.content for photo in batch]
        with one_thread():  # the steps are too small to share, and the other cores decode and extract
            names = [str(photo.photo.path) for photo in batch]
            self.stored.learn(features, own_labels, self.result.task, digests, names)
        for label in labels:
            self._count(label)
        if time.monotonic() - self.saved_at >= self.save_time * (1 / SAVE_SHARE - 1):
            start = time.monotonic()
            self.stored.save()
            self.saved_at = time.monotonic()
            self.save_time = self.saved_at - start

    def _finish(self) -> LearnResult:
        result, model = self.result, self.stored.model
        if model.fitted:
            result.model = model
        now = {*result.learned, *(moved.photo.label for moved in result.corrected)}
        result.new = [label for label in result.learned if label not in self.old]
        unread = [label for label in self.labels if label not in self.old and label not in now]
        if unread and not result.interrupted:
            one = len(unread) == 1
            classes = f"the class {unread[0]}" if one else f"the classes {some(unread, 5)}"
            result.problems.append(
                f"No photo of {classes} could be read: {'it was' if one else 'they were'} not learned."
            )
        return result


@contextmanager
def _stop_requested() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the current batch is finished first. A second Ctrl-C stops at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # only the main thread receives signals
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
