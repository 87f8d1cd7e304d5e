"""Turning what people have (files, PIL images, arrays of all kinds) into uint8 RGB arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageOps

# One picture, and several; an array may hold either.
Picture: TypeAlias = "np.ndarray | Image.Image | str | os.PathLike[str]"
Pictures: TypeAlias = "Picture | Sequence[Picture]"


class ImageError(ValueError):
    """A picture that cannot be used; the message names it and says why."""


def as_sequence(images: Pictures) -> np.ndarray | list[Any]:
    """Make one picture or many into a sequence of pictures, without reading any file.

    A stack of arrays stays one array (n, height, width, channels); everything else becomes a list.

    Example:
        >>> as_sequence("cat.jpg")
        ['cat.jpg']
        >>> as_sequence(np.zeros((8, 6, 3), np.uint8)).shape
        (1, 8, 6, 3)
        >>> as_sequence(np.zeros((5, 28, 28), np.uint8)).shape
        (5, 28, 28, 1)
    """
    if isinstance(images, (str, os.PathLike, Image.Image)):
        return [images]
    if isinstance(images, np.ndarray) and images.dtype != object:
        if images.ndim == 2 or (images.ndim == 3 and images.shape[-1] <= 4):
            return as_sequence(images[None, ..., None] if images.ndim == 2 else images[None])
        if images.ndim == 3:
            images = images[..., None]
        _check_array(images, "the array of images", stacked=True)
        return images
    if isinstance(images, (bytes, dict)) or not hasattr(images, "__iter__"):
        raise ImageError(_UNKNOWN.format(name="what was given", kind=type(images).__name__))
    return list(images)


def load_image(source: Picture, name: str | None = None) -> np.ndarray:
    """Read one picture as a uint8 RGB array (height, width, 3), upright as a viewer would show it.

    Transparent pixels are laid on white. 16-bit values are scaled down over their full range. Of an animation
    the first frame is taken. Colour profiles are not applied.

    Args:
        source: A path, a PIL image, or an array (height, width) or (height, width, channels) of uint8 or
            uint16, with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha) channels.
        name: What an error calls the picture; a path names itself.

    Raises:
        ImageError: The file is missing, empty, broken, too large or no image, or the array is no picture.

    Example:
        >>> half_transparent_black = np.array([[[0, 128]]], np.uint8)
        >>> load_image(half_transparent_black).tolist()
        [[[127, 127, 127]]]
    """
    if isinstance(source, (str, os.PathLike)):
        return _read_file(Path(source))
    name = name or "the image"
    if isinstance(source, Image.Image):
        return _from_pil(source, name)
    if not isinstance(source, np.ndarray):
        raise ImageError(_UNKNOWN.format(name=name, kind=type(source).__name__))
    if source.ndim == 2:
        source = source[..., None]
    _check_array(source, name)
    return to_rgb(source)


def to_rgb(pixels: np.ndarray) -> np.ndarray:
    """Bring arrays (..., 1 to 4 channels) of uint8, uint16 or bool to uint8 RGB, transparency on white.

    Example:
        >>> to_rgb(np.array([[0, 257, 65535]], np.uint16)).tolist()
        [[0, 1, 255]]
    """
    if pixels.dtype == np.uint8 and pixels.shape[-1] == 3:
        return pixels
    if pixels.dtype.kind == "b":
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    elif pixels.dtype != np.uint8:
        pixels = ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if pixels.shape[-1] in (2, 4):
        alpha = pixels[..., -1:].astype(np.uint16)
        on_white = pixels[..., :-1] * alpha + 255 * (255 - alpha)
        pixels = ((on_white + 127) // 255).astype(np.uint8)
    return pixels if pixels.shape[-1] == 3 else np.repeat(pixels, 3, axis=-1)


def _read_file(path: Path) -> np.ndarray:
    with explained(str(path)):
        if path.stat().st_size == 0:
            raise ImageError(f"{path} is an empty file.")
        with Image.open(path) as image:
            return _from_pil(image, str(path))


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Whatever goes wrong while this file is read becomes an ImageError that names it and says why."""
    try:
        yield
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(f"There is no file {path}.") from None
    except Image.UnidentifiedImageError:
        raise ImageError(f"{path} is not an image, or of a kind that Pillow cannot read.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"{path} is too large: {error}") from None
    except Exception as error:  # a decoder raises whatever it stumbles over: OSError, SyntaxError, ...
        raise ImageError(f"{path} cannot be read: {error or type(error).__name__}.") from error


def _from_pil(image: Image.Image, name: str) -> np.ndarray:
    check_pixels(image.size, name)
    try:
        image = ImageOps.exif_transpose(image)
        if image.mode in ("RGB", "L", "1") and not image.has_transparency_data:
            return to_rgb(np.asarray(image.convert("RGB")))
        if image.mode.startswith("I;16"):
            return to_rgb(np.asarray(image).astype(np.uint16)[..., None])
        if image.mode in ("I", "F"):
            return to_rgb(_wide_grey(np.asarray(image), name)[..., None])
        return to_rgb(np.asarray(image.convert("RGBA" if image.has_transparency_data else "RGB")))
    except ImageError:
        raise
    except Exception as error:  # lazily opened files are decoded only here
        raise ImageError(f"{name} cannot be read: {error or type(error).__name__}.") from error


def _wide_grey(pixels: np.ndarray, name: str) -> np.ndarray:
    """32-bit pixels have no fixed white; files that hold 16-bit values in them can still be read."""
    if pixels.dtype.kind == "f" or pixels.min() < 0 or pixels.max() > 65535:
        raise ImageError(f"{name} has 32-bit pixels of unknown range: scale them to 8 bits first.")
    return pixels.astype(np.uint16)


def check_pixels(size: tuple[int, int], name: str) -> None:
    """Refuse pictures with more pixels than Pillow's own limit, which `PIL.Image.MAX_IMAGE_PIXELS` moves."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        raise ImageError(
            f"{name} is too large: {size[0]} x {size[1]} pixels, the limit is {limit} in all. "
            "Raise PIL.Image.MAX_IMAGE_PIXELS if you trust it."
        )


_UNKNOWN = "{name} is a {kind}: give paths, PIL images, or uint8 NumPy arrays (height, width, channels)."


def _check_array(pixels: np.ndarray, name: str, stacked: bool = False) -> None:
    wanted = "(n, height, width, channels)" if stacked else "(height, width, channels)"
    if pixels.ndim != 3 + stacked or not 1 <= pixels.shape[-1] <= 4:
        shape = pixels.shape[stacked:]
        hint = " Move the channels last." if len(shape) == 3 and shape[0] in (1, 3, 4) else ""
        raise ImageError(f"{name} has shape {pixels.shape}, not {wanted} with 1 to 4 channels.{hint}")
    if 0 in pixels.shape[stacked:]:
        raise ImageError(f"{name} has shape {pixels.shape}: there are no pixels in it.")
    if pixels.dtype not in (np.uint8, np.uint16, np.bool_):
        raise ImageError(
            f"{name} has dtype {pixels.dtype}, whose white is unknown: give uint8, such as "
            "`(255 * x).round().astype('uint8')` for values from 0 to 1."
        )
