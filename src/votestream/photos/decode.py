"""Decoding of photos: threads read each file once, ahead of its use; a broken file becomes a message."""

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
from votestream.model_store.sidecar import PhotoDigests
from votestream.photos.photo_list import Photo

READ_BYTES = 1 << 20  # bytes that are digested at a time
NO_DIGESTS = PhotoDigests("")
# Photos decoded before they are needed: this many, or this many batches if the backbone's batches are large, so that
# threads decode while the network computes. Photos that wait already have the network's input size.
PHOTOS_AHEAD, BATCHES_AHEAD = 32, 4


@dataclass(frozen=True)
class DecodedPhoto:
    """A photo with its pixels; without pixels if its digests were known, or if there was a problem."""

    photo: Photo
    digests: PhotoDigests = NO_DIGESTS
    pixels: NDArray[np.uint8] | None = None
    problem: str | None = None


class DigestIndex(Protocol):
    """Finds photos by their digests."""

    @property
    def holds_dated(self) -> bool: ...

    def has_digest(self, digests: PhotoDigests) -> bool: ...


def decode_photos(
    photos: Iterable[Photo], backbone: Backbone | None, learned: DigestIndex | None = None
) -> Generator[DecodedPhoto, None, None]:
    """Decode photos in their order, prepared for the backbone; without a backbone no pixels are decoded.

    Digests are computed only if `learned` is given; photos that it contains are not decoded.
    """

    def attempt(photo: Photo) -> DecodedPhoto:
        try:
            return decode_photo(photo, backbone, learned)
        except ImageError as problem:
            return DecodedPhoto(photo, problem=str(problem))

    return _ahead(attempt, photos, max(PHOTOS_AHEAD, BATCHES_AHEAD * backbone.batch_size) if backbone else PHOTOS_AHEAD)


def decode_photo(photo: Photo, backbone: Backbone | None, learned: DigestIndex | None = None) -> DecodedPhoto:
    """Decode one photo, prepared for the backbone, or raise ImageError. See `decode_photos`."""
    name, digests = str(photo.path), NO_DIGESTS
    with explained(name):
        if not isinstance(photo.path, Url) and not stat.S_ISREG(photo.path.stat().st_mode):
            raise ImageError(f"{name} is not a file.")  # reading from a pipe would block
        with open_image(photo.path) as file:
            if not file.seek(0, os.SEEK_END):
                raise ImageError(f"{name} is an empty file.")
            most = backbone.max_pixels if backbone else MAX_PIXELS
            least = backbone.least if backbone else 1
            identify(file, name, most, least)  # reads the first bytes only, so that a film is not digested
            if isinstance(photo.path, Url):
                file.seek(0)
                file = io.BytesIO(file.read())  # fetched once
            if learned is not None:
                digests = digests_of(file, photo.label if learned.holds_dated else None)
                if backbone is None or learned.has_digest(digests):
                    return DecodedPhoto(photo, digests)
            assert backbone is not None
            prepare = backbone.prepare
            pixels = decode(file, name, lambda image: prepare(image, name, most), most, least)
            return DecodedPhoto(photo, digests, pixels)


def digests_of(file: BinaryIO, dated_label: str | None) -> PhotoDigests:
    """The digest of the file's bytes, 32 hex digits; with a label also that of version 0.1.0, over label and bytes."""
    made = [hashlib.blake2b(digest_size=16)]
    if dated_label is not None:
        made.append(hashlib.blake2b(f"{dated_label}\0".encode(), digest_size=16))
    file.seek(0)
    while chunk := file.read(READ_BYTES):
        for digest in made:
            digest.update(chunk)
    return PhotoDigests(*(digest.hexdigest() for digest in made))


def _ahead(
    read: Callable[[Photo], DecodedPhoto], photos: Iterable[Photo], most: int
) -> Generator[DecodedPhoto, None, None]:
    pool = ThreadPoolExecutor(usable_cores())
    waiting: deque[Future[DecodedPhoto]] = deque()
    try:
        for photo in photos:
            waiting.append(pool.submit(read, photo))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # do not decode photos that nobody will use


def without_labels(paths: Iterable[Path]) -> list[Photo]:
    """Photos whose class is not known."""
    return [Photo(path, "") for path in paths]
