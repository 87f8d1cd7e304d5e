"""Teaching a model from a folder of photos by many workers, whose parts are merged."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from votestream.backbones.backbone import Backbone
from votestream.common.progress import progress_bar
from votestream.common.validation import as_device
from votestream.distributed.chunks import Chunk, ImagesLook, Looked, ahead, chunks_of
from votestream.distributed.executor import CannotStart, Executor, WorkerDied, executor
from votestream.distributed.job import learn_chunks
from votestream.distributed.learning import chunk_for
from votestream.distributed.ray_cluster import ClusterError
from votestream.images.files import ImageError
from votestream.images.urls import as_place
from votestream.photos.finding import Offer, Photo, PhotoError
from votestream.photos.known_photos import KnownPhotos
from votestream.photos.learning import Lesson, Moved, Teacher
from votestream.photos.lock import alone
from votestream.photos.opening import as_sentence, check_device, check_target
from votestream.photos.reading import Reading, read
from votestream.photos.sidecar import followed


def teach_by_workers(
    path: Path,
    offer: Offer,
    settings: dict[str, Any],
    task: str | None,
    seed: int,
    keep: int,
    place: Executor,
    store: str | None = None,
    chunk: int | None = None,
) -> Lesson:
    """As `learning.teach`, but by the executor's workers, and saved once, when all is learned.

    Photos are taken in the folder's order, class by class, where learners can be merged. A copy of a photo in the same
    chunk is passed over; in another chunk nobody notices in time, and it counts twice: the lesson tells how many. A
    photo that was moved to another class counts in both. The journal, which no photo passed through, is cleared.
    """
    path = followed(path)
    check_target(path)
    with alone(path):
        return SharedTeacher(path, offer, settings, task, seed, keep).share(offer, place, store, chunk)


def on_workers(on: str, workers: int | None, device: str | None = None) -> Executor:
    """The executor of that name, or a sentence that says why there is none."""
    check_device(device)
    try:
        return executor(on, workers, cuda=as_device(device or "auto").type == "cuda")
    except (ValueError, ModuleNotFoundError, ClusterError) as problem:
        raise PhotoError(as_sentence(problem)) from None


class PhotosLook(ImagesLook):
    """Looks at photos that the model does not know yet, and tells which these are."""

    def __init__(self, backbone: Backbone, known: KnownPhotos, own: dict[str, Any]) -> None:
        super().__init__(backbone)
        self._known = known
        self._own = own  # labels of the model that are not their folders' names

    def about(self) -> str:
        return f"{super().about()} {self._known.digest} {json.dumps(sorted(self._own.items()))}"

    def __call__(self, chunk: Chunk) -> Looked:
        found = _Found()
        readings = ahead(lambda n: self._read(chunk, n), len(chunk.items), 2 * self.backbone.batch_size)
        features = self._features(reading.pixels for reading in readings if found.is_new(reading, self._known))
        labels = [self._own.get(label, label) for _, label in found.learned]
        return Looked(features, labels, found.problems, found.notes())

    def _read(self, chunk: Chunk, number: int) -> Reading:
        photo = Photo(chunk.items[number], chunk.labels[number])
        try:
            reading = read(photo, self.backbone, self._known)
            if reading.pixels is None and not self._known.knows(reading.digests, photo.label):
                moved = read(photo, self.backbone)  # learned in another class, and so not decoded
                return Reading(photo, reading.digests, moved.pixels)
        except ImageError as problem:
            return Reading(photo, problem=str(problem))
        return reading


class _Found:
    """What a worker finds out about the photos of a chunk."""

    def __init__(self) -> None:
        self.learned: list[tuple[str, str]] = []  # digest and class
        self.problems: list[str] = []
        self._moved: list[tuple[int, str]] = []
        self._known: Counter[str] = Counter()
        self._copies: Counter[str] = Counter()
        self._met: set[tuple[str, str]] = set()

    def is_new(self, reading: Reading, known: KnownPhotos) -> bool:
        if reading.problem:
            self.problems.append(reading.problem)
            return False
        label, digest = reading.photo.label, reading.digests.content
        if (digest, label) in self._met:
            self._copies[label] += 1
            return False
        self._met.add((digest, label))
        if reading.pixels is None:
            self._known[label] += 1
            return False
        if known.has_met(reading.digests):
            self._moved.append((len(self.learned), str(reading.photo.path)))
        self.learned.append((digest, label))
        return True

    def notes(self) -> dict[str, Any]:
        """Fit for JSON."""
        return {"learned": self.learned, "moved": self._moved, "known": self._known, "copies": self._copies}


class SharedTeacher(Teacher):
    """A teacher whose photos are looked at and learned by an executor's workers."""

    def share(self, offer: Offer, place: Executor, store: str | None, size: int | None) -> Lesson:
        lesson, learner = self.lesson, self.taught.model.current_learner()
        own = {name: label for name, label in self.own.items() if name != label}
        look = PhotosLook(self.backbone, KnownPhotos(self.taught.sidecar.entries()), own)
        photos = offer.photos if learner.mergeable else self.photos  # the others had better see classes mixed
        size = size or chunk_for(len(photos))
        chunks = chunks_of([photo.path for photo in photos], [photo.label for photo in photos], size)
        told = f"Learning, {place.workers} worker{'s' * (place.workers > 1)}"
        learned: list[tuple[str, str]] = []
        met: set[tuple[str, str]] = set()

        def note(notes: Any) -> None:
            self._note(notes)
            for digest, label in notes["learned"]:
                lesson.twice[label] += (digest, label) in met
                met.add((digest, label))
                learned.append((digest, label))

        try:
            with progress_bar(told, len(photos)) as advance:
                run = partial(learn_chunks, task=lesson.task, store=store, advance=advance, noted=note)
                outcome = run(learner, chunks, look, place)
        except KeyboardInterrupt:
            lesson.interrupted = True
            lesson.learned.clear()
            return self._finish()
        except (CannotStart, WorkerDied, ClusterError) as problem:
            raise PhotoError(as_sentence(problem)) from None
        lesson.problems += outcome.problems
        if outcome.learner is not None and learned:
            if len(self.taught.journal):
                lesson.notes.append("The journal was cleared: what workers learned cannot be undone photo by photo.")
            self.taught.replace(outcome.learner, learned)
        return self._finish()

    def _note(self, notes: Any) -> None:
        """Count what a worker found."""
        lesson = self.lesson
        lesson.known.update(notes["known"])
        lesson.copies.update(notes["copies"])
        for _, label in notes["learned"]:
            self._count(label)
        for number, path in notes["moved"]:
            digest, label = notes["learned"][number]
            before = self.taught.sidecar.classes_of(digest)[0]
            lesson.in_both.append(Moved(Photo(as_place(path), label), digest, before))
