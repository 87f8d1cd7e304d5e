"""Features of labelled images, batch by batch, so that a data set need not fit in memory."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

from votestream.backbones.backbone import Backbone
from votestream.backbones.preprocessing import submit
from votestream.common.cores import usable_cores
from votestream.images.files import DataWarning, ImageError, is_file
from votestream.images.labelled import LabelledImages

NAMED = 5  # images left out that the warning names
AHEAD = 32  # images read before they are needed: as arrays, photos take tens of megabytes each


def labelled_features(
    backbone: Backbone, source: LabelledImages, size: int, stacklevel: int = 2
) -> Iterator[tuple[np.ndarray, list[Any]]]:
    """Features and labels of `size` images at a time, decoded ahead in threads.

    Image files that cannot be read are left out; a warning at the end names them. Arrays and tensors that are no
    images are refused: something is wrong with all of them.

    Example:
        >>> from torch import nn
        >>> from votestream.backbones import from_module
        >>> from votestream.images.labelled import labelled_images
        >>> backbone = from_module(nn.Conv2d(3, 4, 3), input_size=8)
        >>> source = labelled_images([(np.zeros((8, 8, 3), np.uint8), "night")] * 3)
        >>> [(features.shape, labels) for features, labels in labelled_features(backbone, source, 2)]
        [((2, 4), ['night', 'night']), ((1, 4), ['night'])]
    """
    left_out: list[str] = []
    pixels: list[np.ndarray] = []
    labels: list[Any] = []
    read = 0
    for made, label in _prepared(backbone, source):
        if isinstance(made, ImageError):
            left_out.append(str(made))
            continue
        read += 1
        pixels.append(made)
        labels.append(label)
        if len(pixels) == size:
            yield backbone.of_prepared(np.stack(pixels)), labels
            pixels, labels = [], []
    if pixels:
        yield backbone.of_prepared(np.stack(pixels)), labels
    if left_out and not read:
        raise ImageError(f"None of the {len(left_out)} images of {source.name} can be read: {left_out[0]}")
    if left_out:
        reasons = " ".join(left_out[:NAMED]) + (" ..." if len(left_out) > NAMED else "")
        text = f"{len(left_out)} of the {read + len(left_out)} images of {source.name} were left out: {reasons}"
        warnings.warn(text, DataWarning, stacklevel=stacklevel + 1)


def _prepared(backbone: Backbone, source: LabelledImages) -> Iterator[tuple[np.ndarray | ImageError, Any]]:
    """Each image prepared for the network, or its error, with its label. Images are released once they are prepared."""
    pool = ThreadPoolExecutor(usable_cores())
    ahead: deque[tuple[bool, Future[np.ndarray] | ImageError, Any]] = deque()
    try:
        for index, (image, label) in enumerate(source):
            made: Future[np.ndarray] | ImageError
            try:
                made = submit(pool, backbone.prepare, image, index, backbone.max_pixels)
            except ImageError as error:
                made = error
            ahead.append((is_file(image) or isinstance(image, Image.Image), made, label))
            del image
            if len(ahead) >= AHEAD:
                yield _outcome(*ahead.popleft())
        while ahead:
            yield _outcome(*ahead.popleft())
    finally:
        pool.shutdown(cancel_futures=True)  # do not decode images that nobody will use


def _outcome(may_fail: bool, made: Future[np.ndarray] | ImageError, label: Any) -> tuple[np.ndarray | ImageError, Any]:
    try:
        if isinstance(made, ImageError):
            raise made
        return made.result(), label
    except ImageError as error:
        if may_fail:
            return error, label
        raise
