"""Reading photos ahead in threads, each file once; a broken one is told of and stops nobody."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from votestream.backbones.backbone import Backbone
from votestream.images.convert import explained
from votestream.images.files import MAX_PIXELS, ImageError, decode, identify
from votestream.photos.finding import Photo

CHUNK = 1 << 20
AHEAD = 32  # photos read before they are needed; what waits is already of the network's input size


@dataclass(frozen=True)
class Reading:
    """What became of one photo: pixels, or a digest that was known already, or a problem."""

    photo: Photo
    digest: str = ""
    pixels: NDArray[np.uint8] | None = None
    problem: str | None = None


def readings(
    photos: Iterable[Photo], backbone: Backbone | None, known: Container[str] | None = None
) -> Iterator[Reading]:
    """Every photo in its order, as the backbone wants it; without a backbone none is decoded.

    Digests are taken only where `known` is given.
    """

    def read(photo: Photo) -> Reading:
        try:
            return _read(photo, backbone, known)
        except ImageError as problem:
            return Reading(photo, problem=str(problem))

    return _ahead(read, photos)


def _read(photo: Photo, backbone: Backbone | None, known: Container[str] | None) -> Reading:
    name, digest = str(photo.path), ""
    with explained(name):
        about = photo.path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise ImageError(f"{name} is not a file.")  # a pipe would keep us waiting for ever
        if not about.st_size:
            raise ImageError(f"{name} is an empty file.")
        with photo.path.open("rb") as file:
            most = backbone.max_pixels if backbone else MAX_PIXELS
            least = backbone.least if backbone else 1
            identify(file, name, most, least)  # reads the first bytes only: a film need not be digested
            if known is not None:
                digest = digest_of(file, photo.label)
                if digest in known or backbone is None:
                    return Reading(photo, digest)
            assert backbone is not None
            prepare = backbone.prepare
            pixels = decode(file, name, lambda image: prepare(image, name, most), most, least)
            return Reading(photo, digest, pixels)


def digest_of(file: BinaryIO, label: str) -> str:
    """32 hex digits over the label and the file's bytes: a photo moved to another class is another photo."""
    digest = hashlib.blake2b(f"{label}\0".encode(), digest_size=16)
    file.seek(0)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _ahead(read: Callable[[Photo], Reading], photos: Iterable[Photo]) -> Iterator[Reading]:
    pool = ThreadPoolExecutor(os.cpu_count())
    waiting: deque[Future[Reading]] = deque()
    try:
        for photo in photos:
            waiting.append(pool.submit(read, photo))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops asking does not wait for what was read ahead


def as_photos(paths: Iterable[Path]) -> list[Photo]:
    """Photos whose class nobody knows yet."""
    return [Photo(path, "") for path in paths]
