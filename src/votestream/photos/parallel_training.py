"""Training of a model on a folder of photos by several workers, whose parts are merged."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from votestream.backbones.backbone import Backbone
from votestream.common.progress import progress_bar
from votestream.common.validation import as_device
from votestream.distributed.chunks import Chunk, ExtractedChunk, ImageExtractor, ahead, chunks_of
from votestream.distributed.executor import CannotStart, Executor, WorkerDied, executor
from votestream.distributed.job import learn_chunks
from votestream.distributed.learning import chunk_for
from votestream.distributed.ray_cluster import ClusterError
from votestream.images.files import ImageError
from votestream.images.urls import as_place
from votestream.model_store.lock import model_lock
from votestream.model_store.model_file import check_device
from votestream.model_store.paths import ModelStoreError, as_sentence, check_model_path, resolve_link
from votestream.model_store.sidecar import PhotoDigests, PhotoEntry
from votestream.photos.decode import DecodedPhoto, decode_photo
from votestream.photos.photo_list import Photo, PhotoList
from votestream.photos.training import LearnResult, MovedPhoto, PhotoTraining

DIGEST_BYTES, CLASS_BYTES = 16, 4  # of an entry: the photo's digest, and the number of its class
DATED = (1 << 8 * CLASS_BYTES) - 1  # in place of the class: the digest is one of version 0.1.0, over class and photo


def learn_photos_in_parallel(
    path: Path,
    found: PhotoList,
    settings: dict[str, Any],
    task: str | None,
    seed: int,
    keep: int,
    place: Executor,
    store: str | None = None,
    chunk: int | None = None,
) -> LearnResult:
    """Do what `training.learn_photos` does with an executor's workers, and save once, at the end.

    If the learner can be merged, photos are taken in the folder's order, class by class. Copies of a photo within a
    chunk are skipped; copies in different chunks are learned twice, and counted in the result. A photo that was moved
    to another class counts in both. The journal is deleted, because it does not contain these photos.
    """
    path = resolve_link(path)
    check_model_path(path)
    with model_lock(path):
        return ParallelPhotoTraining(path, found, settings, task, seed, keep).run_on(found, place, store, chunk)


def make_executor(on: str, workers: int | None, device: str | None = None) -> Executor:
    """The executor of that name, or a ModelStoreError that says why it cannot be used."""
    check_device(device)
    try:
        return executor(on, workers, cuda=as_device(device or "auto").type == "cuda")
    except (ValueError, ModuleNotFoundError, ClusterError) as problem:
        raise ModelStoreError(as_sentence(problem)) from None


class DigestTable:
    """The learned photos as a sorted table of 20 bytes a photo, small enough to send to every worker.

    >>> table = DigestTable([("ab" * 16, "oak"), ("01" * 16, "elm")])
    >>> table.has_digest(PhotoDigests("ab" * 16)), table.has_learned(PhotoDigests("ab" * 16), "elm"), table.nbytes
    (True, False, 40)
    """

    def __init__(self, entries: Iterable[PhotoEntry]) -> None:
        self._numbers: dict[str, int] = {}
        rows = [bytes.fromhex(digest) + self._class(label) for digest, label in entries]
        self.holds_dated = any(row.endswith(DATED.to_bytes(CLASS_BYTES, "big")) for row in rows)
        self._table = b"".join(sorted(rows))

    @property
    def nbytes(self) -> int:
        return len(self._table)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self._table + repr(list(self._numbers)).encode()).hexdigest()

    def has_digest(self, digests: PhotoDigests) -> bool:
        """Whether an earlier run learned the photo, in any class."""
        found = any(number != DATED for number in self._numbers_of(digests.content))
        return found or DATED in self._numbers_of(digests.dated)

    def has_learned(self, digests: PhotoDigests, label: str) -> bool:
        """Whether the photo was learned in this class."""
        number = self._numbers.get(label)
        known = number is not None and number in self._numbers_of(digests.content)
        return known or DATED in self._numbers_of(digests.dated)

    def _class(self, label: str | None) -> bytes:
        number = DATED if label is None else self._numbers.setdefault(label, len(self._numbers))
        return number.to_bytes(CLASS_BYTES, "big")

    def _numbers_of(self, digest: str) -> list[int]:
        """The class numbers of a photo, found by binary search."""
        wanted, size, found = bytes.fromhex(digest), DIGEST_BYTES + CLASS_BYTES, []
        low, high = 0, len(self._table) // size if digest else 0
        while low < high:
            middle = (low + high) // 2
            if self._table[middle * size : middle * size + DIGEST_BYTES] < wanted:
                low = middle + 1
            else:
                high = middle
        while digest and self._table[low * size : low * size + DIGEST_BYTES] == wanted:
            found.append(int.from_bytes(self._table[low * size + DIGEST_BYTES : (low + 1) * size], "big"))
            low += 1
        return found


class NewPhotoExtractor(ImageExtractor):
    """Extracts the features of photos that the model has not learned, and reports which photos these are."""

    def __init__(self, backbone: Backbone, known: DigestTable, own: dict[str, Any]) -> None:
        super().__init__(backbone)
        self._known = known
        self._own = own  # labels of the model that differ from their folders' names

    def about(self) -> str:
        return f"{super().about()} {self._known.digest} {json.dumps(sorted(self._own.items()))}"

    def __call__(self, chunk: Chunk) -> ExtractedChunk:
        found = _ChunkPhotos()
        photos = ahead(lambda n: self._decode(chunk, n), len(chunk.items), 2 * self.backbone.batch_size)
        features = self._features(photo.pixels for photo in photos if found.is_new(photo, self._known))
        labels = [self._own.get(label, label) for _, label in found.learned]
        return ExtractedChunk(features, labels, found.problems, found.notes())

    def _decode(self, chunk: Chunk, number: int) -> DecodedPhoto:
        photo = Photo(chunk.items[number], chunk.labels[number])
        try:
            decoded = decode_photo(photo, self.backbone, self._known)
            if decoded.pixels is None and not self._known.has_learned(decoded.digests, photo.label):
                moved = decode_photo(photo, self.backbone)  # learned in another class, and so not decoded above
                return DecodedPhoto(photo, decoded.digests, moved.pixels)
        except ImageError as problem:
            return DecodedPhoto(photo, problem=str(problem))
        return decoded


class _ChunkPhotos:
    """Which photos of a chunk are new, known, copies or moved."""

    def __init__(self) -> None:
        self.learned: list[tuple[str, str]] = []  # digest and class
        self.problems: list[str] = []
        self._moved: list[tuple[int, str]] = []
        self._known: Counter[str] = Counter()
        self._copies: Counter[str] = Counter()
        self._found: set[tuple[str, str]] = set()

    def is_new(self, photo: DecodedPhoto, known: DigestTable) -> bool:
        if photo.problem:
            self.problems.append(photo.problem)
            return False
        label, digest = photo.photo.label, photo.digests.content
        if (digest, label) in self._found:
            self._copies[label] += 1
            return False
        self._found.add((digest, label))
        if photo.pixels is None:
            self._known[label] += 1
            return False
        if known.has_digest(photo.digests):
            self._moved.append((len(self.learned), str(photo.photo.path)))
        self.learned.append((digest, label))
        return True

    def notes(self) -> dict[str, Any]:
        """The result as plain values that can be written as JSON."""
        return {"learned": self.learned, "moved": self._moved, "known": self._known, "copies": self._copies}


class ParallelPhotoTraining(PhotoTraining):
    """One run of `votestream learn --on`: workers extract the features and train."""

    def run_on(self, found: PhotoList, place: Executor, store: str | None, size: int | None) -> LearnResult:
        result, learner = self.result, self.stored.model.current_learner()
        own = {name: label for name, label in self.own.items() if name != label}
        extract = NewPhotoExtractor(self.backbone, DigestTable(self.stored.sidecar.entries()), own)
        photos = found.photos if learner.mergeable else self.photos  # other learners need mixed classes
        size = size or chunk_for(len(photos))
        chunks = chunks_of([photo.path for photo in photos], [photo.label for photo in photos], size)
        title = f"Learning, {place.workers} worker{'s' * (place.workers > 1)}"
        learned: list[tuple[str, str]] = []
        in_run: set[tuple[str, str]] = set()

        def note(notes: Any) -> None:
            self._note(notes)
            for digest, label in notes["learned"]:
                result.twice[label] += (digest, label) in in_run
                in_run.add((digest, label))
                learned.append((digest, label))

        try:
            with progress_bar(title, len(photos)) as advance:
                run = partial(learn_chunks, task=result.task, store=store, advance=advance, noted=note)
                outcome = run(learner, chunks, extract, place)
        except KeyboardInterrupt:
            result.interrupted = True
            result.learned.clear()
            return self._finish()
        except (CannotStart, WorkerDied, ClusterError) as problem:
            raise ModelStoreError(as_sentence(problem)) from None
        result.problems += outcome.problems
        if outcome.learner is not None and learned:
            if len(self.stored.journal):
                result.notes.append("The journal was deleted: photos that workers learned cannot be undone.")
            self.stored.replace(outcome.learner, learned)
        return self._finish()

    def _note(self, notes: Any) -> None:
        """Count what a worker found."""
        result = self.result
        result.known.update(notes["known"])
        result.copies.update(notes["copies"])
        for _, label in notes["learned"]:
            self._count(label)
        for number, path in notes["moved"]:
            digest, label = notes["learned"][number]
            before = self.stored.sidecar.classes_of(digest)[0]
            result.in_both.append(MovedPhoto(Photo(as_place(path), label), digest, before))
