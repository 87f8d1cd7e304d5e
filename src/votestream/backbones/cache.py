"""The feature cache: the features of a data set are computed once and kept on disk."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from votestream.backbones.backbone import Backbone
from votestream.backbones.cache_entry import Entry
from votestream.common.cache_folder import cache_folder
from votestream.common.progress import note, progress_bar
from votestream.images.convert import ImagesLike, as_sequence, load_image
from votestream.images.files import MAX_PIXELS, ImageError, is_file, open_image


def cached_features(
    backbone: Backbone,
    images: ImagesLike,
    *,
    folder: str | os.PathLike[str] | None = None,
    chunk: int = 512,
    progress: bool | None = None,
) -> np.ndarray:
    """Extract the features of these images (n, feature_dim), or read them from the cache, memory-mapped.

    Entries are found by the backbone's digest and the contents of the images, so files that move keep
    theirs. When two processes ask for the same features at once, one computes and the other waits for its
    result. After an interruption the next call continues; damaged chunks are found and computed again.

    Args:
        folder: See `cache_folder`.
        chunk: Images between two writes to disk: what an interruption can cost.
        progress: Show a progress bar; by default where standard error is a terminal.

    Example:
        >>> import tempfile
        >>> from torch import nn
        >>> from votestream.backbones import from_module
        >>> backbone = from_module(nn.Conv2d(3, 4, 3), input_size=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cached_features(backbone, np.zeros((5, 8, 8, 3), np.uint8), folder=folder).shape
        (5, 4)
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, not {chunk}.")
    sequence = as_sequence(images)
    if not len(sequence):
        return np.empty((0, backbone.feature_dim), np.float32)
    about = {
        "backbone": backbone.name,
        "backbone_digest": backbone.digest,
        "data_digest": digest_of_images(sequence, backbone.max_pixels),
        "images": len(sequence),
        "feature_dim": backbone.feature_dim,
        "chunk": chunk,
        "created": time.time(),
    }
    key = hashlib.sha256(f"{about['backbone_digest']} {about['data_digest']}".encode()).hexdigest()
    root = cache_folder(folder)
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f"{key}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        note("Another process is computing these features; waiting for it.", progress)
        lock.acquire()
    try:
        entry = Entry.start(root / key, about)
        if missing := entry.missing():
            rows = [entry.rows(index) for index in missing]
            todo = sum(each.stop - each.start for each in rows)
            with progress_bar(f"{backbone.name}", len(sequence), len(sequence) - todo, progress) as advance:
                for index, each in zip(missing, rows, strict=True):
                    entry.write(index, backbone(sequence[each]))
                    advance(each.stop - each.start)
        return entry.features()
    finally:
        lock.release()


def digest_of_images(images: np.ndarray | list[Any], max_pixels: int = MAX_PIXELS) -> str:
    """sha256 over images in their order: pixels of arrays and PIL images, contents of files.

    Example:
        >>> pixels = np.zeros((2, 8, 8, 3), np.uint8)
        >>> digest_of_images(pixels) == digest_of_images(pixels.copy())
        True
    """
    digest = hashlib.sha256()
    if isinstance(images, np.ndarray):
        digest.update(f"array {images.dtype.str} {images.shape}\n".encode())
        for start in range(0, len(images), 4096):  # in pieces, so that a memory-mapped data set need not fit in memory
            digest.update(np.ascontiguousarray(images[start : start + 4096]).data)
        return digest.hexdigest()
    for index, image in enumerate(images):
        if is_file(image):
            try:
                with open_image(image) as file:
                    content = file.read()
            except OSError as error:
                raise ImageError(f"{image} cannot be read: {error.strerror or error}.") from error
            digest.update(f"file {len(content)}\n".encode() + content)
        else:
            if not isinstance(image, np.ndarray):
                image = load_image(image, f"image {index}", max_pixels=max_pixels)
            digest.update(digest_of_images(image[None]).encode())
    return digest.hexdigest()
