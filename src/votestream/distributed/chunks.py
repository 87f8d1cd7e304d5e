"""Chunks of fixed size in a fixed order, and the extractors that turn a chunk into features."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from votestream.backbones.backbone import Backbone
from votestream.images.files import ImageBytes, ImageError, is_file
from votestream.images.labelled import LabelledImages
from votestream.images.urls import Url, is_url
from votestream.io.model_files import digest

READERS = 4  # threads of a worker that read and decode files ahead, most of all to wait for a network's answers


class Chunk(NamedTuple):
    first: int  # number of its first image in the list
    items: Any  # images, or rows (n, D)
    labels: list[Any]


@dataclass
class ExtractedChunk:
    """The result for a chunk: a row of features and a label for each image to train on."""

    features: NDArray[np.float32]
    labels: list[Any]
    problems: list[str] = field(default_factory=list)
    notes: Any = None


class FeatureExtractor(Protocol):
    """Turns a chunk into features; it is pickled and sent to the workers."""

    def about(self) -> str:
        """A text that differs where the result for the same chunk would differ."""

    def state_of(self, chunk: Chunk) -> str:
        """A text that differs for another chunk, or if one of its files has changed."""

    def __call__(self, chunk: Chunk) -> ExtractedChunk: ...


def chunks_of(items: Any, labels: Sequence[Any], size: int) -> Iterator[Chunk]:
    """Of images or rows with their labels.

    >>> [(chunk.first, chunk.items) for chunk in chunks_of("abcde", [0, 0, 0, 1, 1], 2)]
    [(0, 'ab'), (2, 'cd'), (4, 'e')]
    """
    for start in range(0, len(labels), size):
        yield Chunk(start, items[start : start + size], list(labels[start : start + size]))


def chunks_in(source: LabelledImages, size: int) -> Iterator[Chunk]:
    """Of images that bring their labels along, read as they are needed."""
    first = 0
    for images, labels in source.batches(size):
        yield Chunk(first, images, labels)
        first += len(images)


class RowExtractor:
    """Passes rows on, which are features already."""

    def about(self) -> str:
        return "rows"

    def state_of(self, chunk: Chunk) -> str:
        return digest(json.dumps(chunk.labels), {"rows": np.ascontiguousarray(chunk.items)})

    def __call__(self, chunk: Chunk) -> ExtractedChunk:
        return ExtractedChunk(np.asarray(chunk.items), chunk.labels)


class ImageExtractor:
    """Reads images and extracts their features with a backbone, in fixed batches.

    A file that cannot be read is left out and named. An array that is no image is refused: something is wrong with
    all of them.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "backbone": self.backbone._without_trainable()}  # what workers receive

    def about(self) -> str:
        backbone = self.backbone
        return f"{backbone.digest} {backbone.device.type} {backbone.batch_size} {backbone.max_pixels}"

    def state_of(self, chunk: Chunk) -> str:
        made = hashlib.sha256(repr(list(chunk.labels)).encode())
        for image in chunk.items:
            made.update(f"\n{_state_of(image)}".encode())
        return made.hexdigest()

    def __call__(self, chunk: Chunk) -> ExtractedChunk:
        labels: list[str | int] = []
        problems: list[str] = []

        def readable() -> Iterator[np.ndarray]:
            for place, made in enumerate(self._prepared(chunk)):
                if isinstance(made, ImageError):
                    problems.append(str(made))
                    continue
                labels.append(chunk.labels[place])
                yield made

        return ExtractedChunk(self._features(readable()), labels, problems)

    def _features(self, prepared: Iterator[np.ndarray]) -> NDArray[np.float32]:
        """Of images as the network reads them."""
        found = [np.empty((0, self.backbone.feature_dim), np.float32)]
        while batch := list(islice(prepared, self.backbone.batch_size)):
            found.append(self.backbone.of_prepared(np.stack(batch)))
        return np.concatenate(found)

    def _prepared(self, chunk: Chunk) -> Iterator[np.ndarray | ImageError]:
        """Each image as the network reads it, or why not."""
        yield from ahead(lambda place: self._prepare(chunk, place), len(chunk.items), 2 * self.backbone.batch_size)

    def _prepare(self, chunk: Chunk, place: int) -> np.ndarray | ImageError:
        image = chunk.items[place]
        backbone, name = self.backbone, str(image) if is_file(image) else f"image {chunk.first + place}"
        try:
            return backbone.prepare(image, name, backbone.max_pixels)
        except ImageError as problem:
            if is_file(image) or isinstance(image, Image.Image):
                return problem
            raise


def ahead(make: Any, count: int, most: int) -> Iterator[Any]:
    """make(0), make(1) and so on, made in threads, at most so many before they are needed.

    >>> list(ahead(str, 3, most=2))
    ['0', '1', '2']
    """
    with ThreadPoolExecutor(READERS) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for number in range(count):
                waiting.append(pool.submit(make, number))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _state_of(image: Any) -> str:
    """Something that is another once an image is; a file is not read for it."""
    if isinstance(image, ImageBytes):
        return f"{image.name} {hashlib.sha256(image.content).hexdigest()}"
    if is_url(image):
        return f"{image} {Url(image).state()}"
    if isinstance(image, (str, os.PathLike)):
        try:
            about = os.stat(image)
        except OSError as problem:
            return f"{image} {problem.strerror}"
        return f"{image} {about.st_size} {about.st_mtime_ns}"
    pixels = np.ascontiguousarray(image)
    return f"{pixels.dtype} {pixels.shape} {hashlib.sha256(pixels.tobytes()).hexdigest()}"
