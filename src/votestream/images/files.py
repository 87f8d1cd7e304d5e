"""Decoding of image files: which kinds, how large, and how many large ones at the same time."""

from __future__ import annotations

import importlib
import io
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeGuard, TypeVar

from PIL import Image

from votestream.common.extras import install_extra
from votestream.images.urls import is_url, open_url

T = TypeVar("T")

# Pixels that are decoded of one image. At 4 bytes each, twice where a photo is turned upright or see-through, the
# largest take 300 to 600 MB.
MAX_PIXELS = 70_000_000
# Images with more pixels (more than most cameras give) are decoded one at a time, however many threads ask.
LARGE = 25_000_000
# A JPEG may be so many times larger if it is decoded at reduced size, and no larger: progressive
# ones need memory for every pixel of it.
TIMES_REDUCED = 3
# A photo decoded at reduced size keeps so many times the pixels that are used of its shorter side.
KEPT = 3
# Kinds whose header says how much memory they take, most frequent first. Icons may hide a larger image, and
# PostScript is a program.
KINDS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM", "QOI", "PCX", "SGI", "TGA")
HEIF_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1"}


class ImageError(ValueError):
    """An image that cannot be used; the message names it and says why."""


class DataWarning(UserWarning):
    """Something in the data was left out or cannot be tested; the message names it."""

    left_out = True  # a command that ends after such a warning says so by its exit code


@dataclass(frozen=True)
class ImageBytes:
    """An image file in memory, as in data sets; `name` is its name in error messages."""

    content: bytes = field(repr=False)
    name: str

    def __str__(self) -> str:
        return self.name


def is_file(image: Any) -> TypeGuard[str | os.PathLike[str] | ImageBytes]:
    """Whether an image is given as a file: a path, a URL, or the file's bytes."""
    return isinstance(image, (str, os.PathLike, ImageBytes))


def open_image(file: str | os.PathLike[str] | ImageBytes) -> BinaryIO:
    """An image file to be read."""
    if isinstance(file, ImageBytes):
        return io.BytesIO(file.content)
    return open_url(file) if is_url(file) else open(file, "rb")


def decode(file: BinaryIO, name: str, what: Callable[[Image.Image], T], max_pixels: int, least: int | None = None) -> T:
    """What a function makes of an image file, which it has to itself.

    Args:
        max_pixels: An image of which more than so many pixels would be decoded is refused.
        least: Let a JPEG be decoded at 1/2, 1/4 or 1/8 of its size, as long as its shorter side keeps so many pixels.
    """
    image, pixels = identify(file, name, max_pixels, least)

    def work() -> T:
        try:
            return what(image)
        finally:
            image.close()  # its memory is free before the next one is begun

    # In one thread, not one after another: what a thread has once allocated, it may keep.
    return _LARGE_ONES.submit(work).result() if pixels > LARGE else work()


def identify(file: BinaryIO, name: str, max_pixels: int, least: int | None = None) -> tuple[Image.Image, int]:
    """Read the header: the image, not decoded, and the number of pixels it will hold; arguments as in `decode`."""
    file.seek(0)
    image = _by_header(file, name)
    width, height = image.size
    if least and width * height <= TIMES_REDUCED * max_pixels and image.format in ("JPEG", "MPO"):
        times = _times_smaller(width, height, least)
        if times > 1:
            image.draft(None, (width // times, height // times))
    check_pixels(image.size, name, max_pixels)
    if not image.info.get("progressive"):  # whose every pixel is held, whatever the size it is decoded at
        width, height = image.size
    return image, width * height


def _times_smaller(width: int, height: int, least: int) -> int:
    """How many times smaller a JPEG is decoded.

    Only by what both sides divide by: rounding would change its proportions, and with them what is cut out of it. One
    of more than MAX_PIXELS would be refused, so there rounding is accepted, and two thirds of `least`.

    >>> _times_smaller(4032, 3024, least=672), _times_smaller(4032, 3024, least=960), _times_smaller(4033, 3024, 672)
    (4, 2, 1)
    """
    shorter, pixels = min(width, height), width * height
    even = [
        n for n in (8, 4, 2) if width % n == height % n == 0 and shorter >= n * least and pixels <= n * n * MAX_PIXELS
    ]
    if not even and pixels > MAX_PIXELS:
        even = [n for n in (2, 4, 8) if 3 * (shorter // n) >= 2 * least and pixels <= n * n * MAX_PIXELS]
    return even[0] if even else 1


def check_pixels(size: tuple[int, int], name: str, max_pixels: int) -> None:
    """Refuse images with more pixels than that."""
    pixels = size[0] * size[1]
    if pixels > max_pixels:
        raise ImageError(
            f"{name} is too large: {size[0]} x {size[1]} pixels, where {max_pixels:,} in all are read. If you trust "
            f"it, give --max-pixels {pixels} (max_pixels in Python)."
        )


def _by_header(file: BinaryIO, name: str) -> Image.Image:
    """Open an image as `Image.open` does, with our own limit instead of Pillow's, which is global to the process."""
    Image.init()
    start = file.read(16)
    for kind in KINDS:
        factory, accept = Image.OPEN.get(kind, (None, None))
        try:
            fits = accept is None or accept(start)
            if factory and fits and not isinstance(fits, str):  # a str says why this Pillow cannot read that kind
                file.seek(0)
                return factory(file, name)
        except (SyntaxError, IndexError, TypeError, struct.error):
            continue  # how a plug-in says that this is not its kind
    if start[4:8] == b"ftyp" and start[8:12] in HEIF_BRANDS:
        return _heif(file, name)
    raise Image.UnidentifiedImageError


def _heif(file: BinaryIO, name: str) -> Image.Image:
    try:
        pillow_heif = importlib.import_module("pillow_heif")
    except ImportError:
        needs = "which needs the package pillow-heif"
        raise ImageError(f"{name} is a HEIC photo, {needs}: {install_extra('heic')}.") from None
    file.seek(0)
    try:
        image: Image.Image = pillow_heif.HeifImageFile(file, name)
    except SyntaxError as error:
        raise ImageError(f"{name} is a damaged HEIC photo: {error}.") from error
    return image


def _start_anew() -> None:
    global _LARGE_ONES
    _LARGE_ONES = ThreadPoolExecutor(1, "large images")


_LARGE_ONES: ThreadPoolExecutor
_start_anew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)  # threads stay behind in the parent
