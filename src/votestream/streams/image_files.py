"""Many image files as one sequence of pixels that is read only where it is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from votestream.images.convert import load_image
from votestream.images.files import KEPT, MAX_PIXELS, ImageError
from votestream.images.urls import Place, as_place


class ImageFiles:
    """Image files that index like an array (n, height, width, 3) of uint8, without being in memory.

    A number gives one image, an array of rows a stack of them; `select` narrows down without reading anything.

    Args:
        paths: The files, or their URLs.
        size: Resize and cut every image to a square of so many pixels; by default they come as they are, and
            images of different sizes cannot be stacked.
        max_pixels: See `load_image`.

    Example:
        >>> for name, shade in (("a.png", 0), ("b.png", 255)):
        ...     Image.new("RGB", (6, 4), (shade,) * 3).save(name)
        >>> files = ImageFiles(["a.png", "b.png"], size=2)
        >>> files[[1, 0, 1]][:, 0, 0, 0]
        array([255,   0, 255], dtype=uint8)
        >>> files
        ImageFiles(2 files, size=2)
    """

    def __init__(
        self, paths: Sequence[str | os.PathLike[str]], size: int | None = None, max_pixels: int = MAX_PIXELS
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"size must be a number of pixels, at least 1, not {size}.")
        self.paths = [as_place(path) for path in paths]
        self.size = size
        self.max_pixels = max_pixels

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self)} files{'' if self.size is None else f', size={self.size}'})"

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self._read(path) for path in self.paths)

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, (int, np.integer)):
            return self._read(self.paths[rows])
        return self.select(rows).load()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("Image files have to be read: they cannot become an array without a copy.")
        return self.load().astype(dtype or np.uint8, copy=False)

    def select(self, rows: Any) -> ImageFiles:
        """Some of the files, in the order of `rows`; nothing is read."""
        chosen = np.arange(len(self))[rows]
        return ImageFiles([self.paths[row] for row in chosen], self.size, self.max_pixels)

    def load(self) -> np.ndarray:
        """All of them, stacked (n, height, width, 3)."""
        images = list(self)
        if not images:
            return np.empty((0, self.size or 0, self.size or 0, 3), np.uint8)
        for path, image in zip(self.paths, images, strict=True):
            if image.shape != images[0].shape:
                raise ImageError(
                    f"{path} is {shape(image)}, {self.paths[0]} is {shape(images[0])}: images of different sizes do "
                    "not stack. Give `size=64`, say, to have them resized, or a backbone, which sees them as they are."
                )
        return np.stack(images)

    def _read(self, path: Place) -> np.ndarray:
        pixels = load_image(path, max_pixels=self.max_pixels, least=self.size and KEPT * self.size)
        if self.size is None or pixels.shape[:2] == (self.size, self.size):
            return pixels
        return np.asarray(ImageOps.fit(Image.fromarray(pixels), (self.size, self.size), Image.Resampling.BILINEAR))


def shape(image: np.ndarray) -> str:
    """Width and height as people say them.

    Example:
        >>> shape(np.zeros((4, 6, 3)))
        '6 x 4'
    """
    return f"{image.shape[1]} x {image.shape[0]}"
