"""Conversion of images (files, PIL images, arrays and tensors of all kinds) to uint8 RGB arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from PIL import ExifTags, Image

from votestream.common.exits import READING
from votestream.images.files import MAX_PIXELS, ImageBytes, ImageError, T, check_pixels, decode, is_file, open_image
from votestream.images.tensors import is_tensor, tensor_pixels

# One image, and several; an array or a torch tensor may hold either.
ImageLike: TypeAlias = "np.ndarray | Tensor | Image.Image | str | os.PathLike[str] | ImageBytes"
ImagesLike: TypeAlias = "ImageLike | Sequence[ImageLike]"

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 300  # characters of a path that a message quotes
STRIP = 1 << 21  # pixels converted at once, so that what arithmetic needs on the way stays small


def as_sequence(images: ImagesLike) -> np.ndarray | list[Any]:
    """Make one image or many into a sequence of images, without reading any file.

    A stack of arrays stays one array (n, height, width, channels); everything else becomes a list. Tensors become
    arrays.

    Example:
        >>> as_sequence("cat.jpg")
        ['cat.jpg']
        >>> as_sequence(np.zeros((8, 6, 3), np.uint8)).shape
        (1, 8, 6, 3)
        >>> as_sequence(np.zeros((5, 28, 28), np.uint8)).shape
        (5, 28, 28, 1)
    """
    if is_file(images) or isinstance(images, Image.Image):
        return [images]
    if is_tensor(images):
        images = tensor_pixels(images, "the tensor of images")
    if isinstance(images, np.ndarray) and images.dtype != object:
        if images.ndim == 2 or (images.ndim == 3 and images.shape[-1] <= 4):
            return as_sequence(images[None, ..., None] if images.ndim == 2 else images[None])
        if images.ndim == 3:
            images = images[..., None]
        _check_array(images, "the array of images", stacked=True)
        return images
    if isinstance(images, (bytes, dict)) or not hasattr(images, "__iter__"):
        raise ImageError(_UNKNOWN.format(name="what was given", kind=type(images).__name__))
    listed: list[Any] = list(images)  # type: ignore[arg-type]  # it has __iter__
    return [tensor_pixels(image, f"image {i}") if is_tensor(image) else image for i, image in enumerate(listed)]


def load_image(
    source: ImageLike, name: str | None = None, *, max_pixels: int = MAX_PIXELS, least: int | None = None
) -> np.ndarray:
    """Read one image as a uint8 RGB array (height, width, 3), upright as a viewer would show it.

    Transparent pixels are laid on white. 16-bit values are scaled down over their full range. Of an animation
    the first frame is taken. Colour profiles are not applied.

    Args:
        source: A path or URL, a PIL image, or an array (height, width) or (height, width, channels) of uint8 or
            uint16, with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha) channels; or a torch tensor of uint8,
            or of floats from 0 to 1, whose channels may stand first.
        name: What an error calls the image; a path names itself.
        max_pixels: A file or PIL image with more pixels is refused, before it is decoded.
        least: Let a JPEG be decoded at 1/2, 1/4 or 1/8 of its size, as long as its shorter side keeps so many pixels.

    Raises:
        ImageError: The file is missing, empty, broken, too large or no image, or the array is no image.

    Example:
        >>> half_transparent_black = np.array([[[0, 128]]], np.uint8)
        >>> load_image(half_transparent_black).tolist()
        [[[127, 127, 127]]]
    """
    if is_file(source):
        return decode_path(source, lambda image: as_array(as_rgb(image, str(source))), max_pixels, least)
    name = name or "the image"
    if isinstance(source, Image.Image):
        check_pixels(source.size, name, max_pixels)
        return as_array(as_rgb(source, name))
    if is_tensor(source):
        source = tensor_pixels(source, name)
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


def decode_path(
    path: str | os.PathLike[str] | ImageBytes,
    what: Callable[[Image.Image], T],
    max_pixels: int,
    least: int | None = None,
) -> T:
    """Apply a function to the image file of that name; see `decode`."""
    with explained(str(path)), open_image(path) as file:
        if not file.seek(0, os.SEEK_END):
            raise ImageError(f"{path} is an empty file.")
        return decode(file, str(path), what, max_pixels, least)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn any error while this file is read into an ImageError that names the file and the reason.

    Commands name it too where a library warns of it.
    """
    before = READING.set(path)
    if len(path) > LONGEST:
        path = f"{path[: LONGEST // 2]}...{path[-LONGEST // 2 :]}"
    try:
        yield
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(f"There is no file {path}.") from None
    except Image.UnidentifiedImageError:
        raise ImageError(f"{path} is not an image, or of a kind that is not read.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"{path} is too large: {error}") from None
    except Exception as error:  # decoders raise errors of many types: OSError, SyntaxError, ...
        why = error.strerror if isinstance(error, OSError) and error.strerror else error  # the file is named already
        raise ImageError(f"{path} cannot be read: {why or type(error).__name__}.") from error
    finally:
        READING.reset(before)


def as_rgb(image: Image.Image, name: str) -> Image.Image:
    """Decode a PIL image, turn it upright and convert it; one that is RGB already comes back as it is."""
    try:
        image.load()
        image = _upright(image)
        clear = image.has_transparency_data
        if image.mode in ("RGB", "L", "1") and not clear:
            return image if image.mode == "RGB" else image.convert("RGB")
        if image.mode.startswith("I;16"):
            return _in_strips(image, lambda part: np.asarray(part).astype(np.uint16)[..., None])
        if image.mode in ("I", "F"):
            # 32-bit pixels have no fixed white; files that hold 16-bit values in them can still be read.
            darkest, brightest = cast("tuple[float, float]", image.getextrema())
            if image.mode == "F" or darkest < 0 or brightest > 65535:
                raise ImageError(f"{name} has 32-bit pixels of unknown range: scale them to 8 bits first.")
            return _in_strips(image, lambda part: np.asarray(part).astype(np.uint16)[..., None])
        if clear:
            return _in_strips(image, lambda part: np.asarray(part.convert("RGBA")))
        return image.convert("RGB")
    except ImageError:
        raise
    except Exception as error:  # lazily opened files are decoded only here
        raise ImageError(f"{name} cannot be read: {error or type(error).__name__}.") from error


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF says; one whose EXIF cannot be read stays as it is.

    Pillow's `exif_transpose` writes the other tags anew, and fails where one of them is damaged.
    """
    try:
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # parsers raise errors of many types
        return image
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = {key: value for key, value in image.info.items() if key == "transparency"}  # it is not turned twice
    return turned


def as_array(image: Image.Image) -> np.ndarray:
    """The pixels of an RGB image."""
    if image.size[0] * image.size[1] <= STRIP:
        return np.asarray(image)
    pixels = np.empty((image.size[1], image.size[0], 3), np.uint8)
    for top, part in _strips(image):
        pixels[top : top + part.size[1]] = np.asarray(part)
    return pixels


def _in_strips(image: Image.Image, convert: Callable[[Image.Image], np.ndarray]) -> Image.Image:
    """The same as `to_rgb`, with little memory besides the image and the result."""
    whole = Image.new("RGB", image.size)
    for top, part in _strips(image):
        whole.paste(Image.fromarray(to_rgb(convert(part))), (0, top))
    return whole


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    width, height = image.size
    rows = max(1, STRIP // width)
    if rows >= height:
        yield 0, image
        return
    for top in range(0, height, rows):
        yield top, image.crop((0, top, width, min(top + rows, height)))


_UNKNOWN = "{name} is a {kind}: give paths, PIL images, tensors, or uint8 NumPy arrays (height, width, channels)."


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
