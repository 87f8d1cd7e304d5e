"""The preprocessing of images for a network: resizing, cropping, normalising."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image

from votestream.common.cores import usable_cores
from votestream.images.convert import ImageLike, as_rgb, decode_path, load_image, to_rgb
from votestream.images.files import KEPT, MAX_PIXELS, check_pixels, is_file

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing that a network needs.

    Args:
        input_size: Height and width of what the network reads.
        mean, std: Per channel, of pixels from 0 to 1.
        resize: `"crop"` scales the shorter side to `shorter_side`, `"squash"` both sides, whatever the
            image's proportions; then the middle is cut out.
        shorter_side: In pixels; `input_size` unless given.
        interpolation: A filter of Pillow; all of them average over what they shrink.

    Example:
        >>> how = Preprocessing(32)
        >>> how.fit(np.zeros((48, 64, 3), np.uint8)).shape
        (32, 32, 3)
    """

    input_size: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    resize: str = "crop"
    shorter_side: int | None = None
    interpolation: str = "bicubic"

    def __post_init__(self) -> None:
        # Equal settings get one form, because the digest is computed from them.
        for field, value in (
            ("mean", tuple(float(v) for v in self.mean)),
            ("std", tuple(float(v) for v in self.std)),
            ("shorter_side", None if self.shorter_side == self.input_size else self.shorter_side),
            ("interpolation", self.interpolation.lower()),
        ):
            object.__setattr__(self, field, value)
        if self.input_size < 1:
            raise ValueError(f"input_size must be at least 1, not {self.input_size}.")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(f"mean and std need 3 values, std above 0: got {self.mean} and {self.std}.")
        if self.resize not in ("crop", "squash"):
            raise ValueError(f"resize must be 'crop' or 'squash', not {self.resize!r}.")
        if self.interpolation.upper() not in Image.Resampling.__members__:
            known = ", ".join(name.lower() for name in Image.Resampling.__members__)
            raise ValueError(f"interpolation must be one of {known}, not {self.interpolation!r}.")
        if self.shorter_side is not None and self.shorter_side < self.input_size:
            raise ValueError(f"shorter_side {self.shorter_side} is below input_size {self.input_size}.")

    def describe(self) -> str:
        """All settings as one line of text, the same on every machine."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def least(self) -> int:
        """Pixels that the shorter side of a photo decoded at reduced size keeps, for the resizing to average over."""
        return KEPT * (self.shorter_side or self.input_size)

    def fit(self, image: ImageLike, name: str | None = None, max_pixels: int = MAX_PIXELS) -> np.ndarray:
        """Bring one image to uint8 RGB (input_size, input_size, 3); for `max_pixels` see `load_image`."""
        if is_file(image):
            called = name or str(image)
            return decode_path(image, lambda image: self.fit(image, called, max_pixels), max_pixels, self.least)
        name = name or "the image"
        if isinstance(image, Image.Image):
            check_pixels(image.size, name, max_pixels)
            image = as_rgb(image, name)
            if self._ready(image.size):
                return np.asarray(image)
        else:
            pixels = load_image(image, name)
            if self._ready(pixels.shape[:2]):
                return pixels
            image = Image.fromarray(np.ascontiguousarray(pixels))
        size = self.input_size
        width, height = self._scaled(*image.size)
        check_pixels((width, height), f"{name}, scaled to what the network reads,", max(max_pixels, MAX_PIXELS))
        left, top = round((width - size) / 2), round((height - size) / 2)
        image = image.resize((width, height), Image.Resampling[self.interpolation.upper()])
        return np.asarray(image.crop((left, top, left + size, top + size)))

    def _scaled(self, width: int, height: int) -> tuple[int, int]:
        """Width and height before the crop; a longer side is rounded down, as torchvision does."""
        short = self.shorter_side or self.input_size
        if self.resize == "squash":
            return short, short
        if width <= height:
            return short, int(short * height / width)
        return int(short * width / height), short

    def box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Which part of an image of that size is read: left, top, right and bottom, as shares of the image.

        >>> Preprocessing(32).box(64, 32)
        (0.25, 0.0, 0.75, 1.0)
        """
        size = self.input_size
        wide, high = (size, size) if self._ready((width, height)) else self._scaled(width, height)
        left, top = round((wide - size) / 2), round((high - size) / 2)
        return left / wide, top / high, (left + size) / wide, (top + size) / high

    def of_size(self, size: int) -> Preprocessing:
        """The same preprocessing for another input size; the crop removes the same share."""
        if size == self.input_size:
            return self
        short = None if self.shorter_side is None else round(self.shorter_side * size / self.input_size)
        return replace(self, input_size=size, shorter_side=short)

    def batches(
        self,
        images: np.ndarray | list[Any],
        size: int,
        max_pixels: int = MAX_PIXELS,
        fit: Callable[[ImageLike, str, int], np.ndarray] | None = None,
    ) -> Iterator[np.ndarray]:
        """Yield uint8 batches of at most `size` images as `fit` makes them, decoding ahead in threads."""
        if fit is None and isinstance(images, np.ndarray) and self._ready(images.shape[1:3]):
            for start in range(0, len(images), size):
                yield to_rgb(images[start : start + size])
            return
        # Pillow releases the interpreter lock while it decodes and resizes, so threads use every core.
        with ThreadPoolExecutor(usable_cores()) as pool:
            ahead: deque[list[Future[np.ndarray]]] = deque()
            for start in range(0, len(images), size):
                stop = min(start + size, len(images))
                ahead.append([submit(pool, fit or self.fit, images[i], i, max_pixels) for i in range(start, stop)])
                if len(ahead) == 2:
                    yield np.stack([future.result() for future in ahead.popleft()])
            if ahead:
                yield np.stack([future.result() for future in ahead.popleft()])

    def _ready(self, shape: tuple[int, ...]) -> bool:
        """Whether an image of this height and width needs no resizing."""
        return self.shorter_side is None and shape == (self.input_size, self.input_size)

    def normalise(self, batch: np.ndarray, device: torch.device) -> torch.Tensor:
        """Turn uint8 images (n, height, width, 3) into the network's float input (n, 3, height, width)."""
        if not batch.flags.writeable or not batch.flags.c_contiguous:
            batch = np.array(batch)  # torch warns about memory it could not write to
        # A view: channels stay last in memory, which is fastest for the network.
        pixels = torch.from_numpy(batch).to(device).permute(0, 3, 1, 2)
        scale = torch.tensor([1 / (255 * s) for s in self.std], device=device).view(1, 3, 1, 1)
        shift = torch.tensor([m / s for m, s in zip(self.mean, self.std, strict=True)], device=device)
        return pixels.float().mul_(scale).sub_(shift.view(1, 3, 1, 1))


def submit(
    pool: ThreadPoolExecutor,
    fit: Callable[[ImageLike, str, int], np.ndarray],
    image: ImageLike,
    index: int,
    max_pixels: int,
) -> Future[np.ndarray]:
    """Prepare an image of a list in a thread."""
    name = str(image) if is_file(image) else f"image {index}"
    if isinstance(image, Image.Image):  # here, because a lazily opened image may be in the list twice
        image = load_image(image, name, max_pixels=max_pixels)
    return pool.submit(fit, image, name, max_pixels)
