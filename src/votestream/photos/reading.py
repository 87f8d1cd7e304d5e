"""Reading photos ahead in threads, each file once; a broken one is told of and stops nobody."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from votestream.backbones.backbone import Backbone
from votestream.common.cores import usable_cores
from votestream.images.convert import explained
from votestream.images.files import MAX_PIXELS, ImageError, decode, identify, open_image
from votestream.images.urls import Url
from votestream.photos.finding import Photo
from votestream.photos.sidecar import Digests

CHUNK = 1 << 20
UNTAKEN = Digests("")
# Photos read before they are needed: so many, or so many batches of a backbone whose batches are large, so that threads
# have something to decode while the network looks at one. What waits is already of the network's input size.
AHEAD, BATCHES_AHEAD = 32, 4


@dataclass(frozen=True)
class Reading:
    """What became of one photo: pixels, or digests that were known already, or a problem."""

    photo: Photo
    digests: Digests = UNTAKEN
    pixels: NDArray[np.uint8] | None = None
    problem: str | None = None


class Met(Protocol):
    """What knows photos by their digests."""

    @property
    def holds_dated(self) -> bool: ...

    def has_met(self, digests: Digests) -> bool: ...


def readings(
    photos: Iterable[Photo], backbone: Backbone | None, learned: Met | None = None
) -> Generator[Reading, None, None]:
    """Every photo in its order, as the backbone wants it; without a backbone none is decoded.

    Digests are taken only where it is given what was `learned`, and photos met before are not decoded.
    """

    def attempt(photo: Photo) -> Reading:
        try:
            return read(photo, backbone, learned)
        except ImageError as problem:
            return Reading(photo, problem=str(problem))

    return _ahead(attempt, photos, max(AHEAD, BATCHES_AHEAD * backbone.batch_size) if backbone else AHEAD)


def read(photo: Photo, backbone: Backbone | None, learned: Met | None = None) -> Reading:
    """One photo, as the backbone wants it; an ImageError says why it cannot be read. See `readings`."""
    name, digests = str(photo.path), UNTAKEN
    with explained(name):
        if not isinstance(photo.path, Url) and not stat.S_ISREG(photo.path.stat().st_mode):
            raise ImageError(f"{name} is not a file.")  # a pipe would keep us waiting for ever
        with open_image(photo.path) as file:
            if not file.seek(0, os.SEEK_END):
                raise ImageError(f"{name} is an empty file.")
            most = backbone.max_pixels if backbone else MAX_PIXELS
            least = backbone.least if backbone else 1
            identify(file, name, most, least)  # reads the first bytes only: a film need not be digested
            if isinstance(photo.path, Url):
                file.seek(0)
                file = io.BytesIO(file.read())  # it comes over the net once
            if learned is not None:
                digests = digests_of(file, photo.label if learned.holds_dated else None)
                if backbone is None or learned.has_met(digests):
                    return Reading(photo, digests)
            assert backbone is not None
            prepare = backbone.prepare
            pixels = decode(file, name, lambda image: prepare(image, name, most), most, least)
            return Reading(photo, digests, pixels)


def digests_of(file: BinaryIO, dated_label: str | None) -> Digests:
    """32 hex digits over the file's bytes; where a label is given, also those of version 0.1.0, over both."""
    made = [hashlib.blake2b(digest_size=16)]
    if dated_label is not None:
        made.append(hashlib.blake2b(f"{dated_label}\0".encode(), digest_size=16))
    file.seek(0)
    while chunk := file.read(CHUNK):
        for digest in made:
            digest.update(chunk)
    return Digests(*(digest.hexdigest() for digest in made))


def _ahead(read: Callable[[Photo], Reading], photos: Iterable[Photo], most: int) -> Generator[Reading, None, None]:
    pool = ThreadPoolExecutor(usable_cores())
    waiting: deque[Future[Reading]] = deque()
    try:
        for photo in photos:
            waiting.append(pool.submit(read, photo))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops asking does not wait for what was read ahead


def as_photos(paths: Iterable[Path]) -> list[Photo]:
    """Photos whose class nobody knows yet."""
    return [Photo(path, "") for path in paths]
