"""The size of images, read without decoding them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from votestream.images.files import MAX_PIXELS, TIMES_REDUCED, identify, is_file, open_image

SAMPLE = 32  # images measured


def usual_side(images: np.ndarray | Sequence[Any]) -> int | None:
    """The median of the shorter sides, in pixels, of a sample of images; None where none of them can be read.

    >>> usual_side(np.zeros((5, 48, 64, 3), np.uint8))
    48
    """
    if not len(images):
        return None
    if isinstance(images, np.ndarray) and images.dtype != object:
        return min(images.shape[1:3])
    step = max(1, len(images) // SAMPLE)
    sides = sorted(side for image in images[::step][:SAMPLE] if (side := _shorter_side(image)))
    return sides[len(sides) // 2] if sides else None


def _shorter_side(image: Any) -> int | None:
    try:
        if is_file(image):
            with open_image(image) as file:
                return min(identify(file, str(image), TIMES_REDUCED * MAX_PIXELS)[0].size)
        return min(image.size if isinstance(image, Image.Image) else np.shape(image)[:2])
    except Exception:  # the code that decodes it reports the error
        return None
