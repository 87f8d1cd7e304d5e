"""Whatever people have comes out as upright uint8 RGB, or as one error that names it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from votestream.backbones import ImageError, load_image
from votestream.images.convert import as_sequence, to_rgb

from .samples import random_images

RED, WHITE = [255, 0, 0], [255, 255, 255]


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_a_file_its_pil_image_and_its_array_are_the_same_image(tmp_path: Path) -> None:
    pixels = random_images(1)[0]
    path = saved(Image.fromarray(pixels), tmp_path / "a.png")
    for source in (path, str(path), Image.open(path), pixels):
        np.testing.assert_array_equal(load_image(source), pixels)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr", "HSV", "I;16", "I", "PA"])
def test_every_mode_keeps_black_and_white(mode: str) -> None:
    for value in (0, 255):
        grey = Image.new("L", (3, 2), value)
        if mode.startswith("I"):
            image = Image.fromarray(np.full((2, 3), value * 257, np.uint16 if mode == "I;16" else np.int32))
            assert image.mode == mode
        else:
            image = (
                grey.convert("RGB").convert("P").convert(mode) if mode == "PA" else grey.convert("RGB").convert(mode)
            )
        loaded = load_image(image)
        assert loaded.dtype == np.uint8
        assert loaded.shape == (2, 3, 3)
        assert np.abs(loaded.astype(int) - value).max() <= 1


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_16_bit_files_are_scaled_over_their_full_range(tmp_path: Path, suffix: str) -> None:
    deep = np.array([[0, 200, 257 * 100, 65535]], np.uint16)
    path = saved(Image.fromarray(deep), tmp_path / f"deep{suffix}")
    assert load_image(path)[0, :, 0].tolist() == [0, 1, 100, 255]
    assert load_image(deep)[0, :, 1].tolist() == [0, 1, 100, 255]


def test_transparency_is_laid_on_white() -> None:
    clear_red, solid_red = [*RED, 0], [*RED, 255]
    array = np.array([[clear_red, solid_red]], np.uint8)
    assert load_image(array).tolist() == [[WHITE, RED]]
    assert load_image(Image.fromarray(array)).tolist() == [[WHITE, RED]]
    grey = np.array([[[0, 0], [0, 255]]], np.uint8)
    assert load_image(grey).tolist() == [[WHITE, [0, 0, 0]]]


def test_a_palette_with_a_transparent_colour_is_laid_on_white(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1]], np.uint8)).convert("P")
    image.putpalette([*RED, 0, 255, 0])
    path = saved(image, tmp_path / "palette.png", transparency=1)
    assert load_image(path).tolist() == [[RED, WHITE]]


def test_photos_held_upside_down_come_out_upright(tmp_path: Path) -> None:
    pixels = random_images(1, 24, 40)[0]
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it rotated by 90 degrees clockwise
    path = saved(Image.fromarray(pixels), tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(load_image(path), np.rot90(pixels, -1))


def test_a_cmyk_jpeg_keeps_its_colours(tmp_path: Path) -> None:
    path = saved(Image.new("RGB", (16, 16), (255, 0, 0)).convert("CMYK"), tmp_path / "print.jpg", quality=95)
    assert np.abs(load_image(path).astype(int) - RED).max() < 12


def test_of_an_animation_the_first_frame_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    path = saved(frames[0], tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert load_image(path)[0, 0].tolist() == RED


def bomb(path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(path)


def truncated(path: Path) -> None:
    Image.fromarray(random_images(1, 64, 64)[0]).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:400])


def corrupt(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3))
    Image.fromarray(noise.astype(np.uint8)).save(path, "PNG")
    content = bytearray(path.read_bytes())
    content[1000:1100] = bytes(100)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_text("not an image"), "not an image"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: None, "no file"),
        (truncated, "cannot be read"),
        (corrupt, "cannot be read"),
        (bomb, "too large"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, make, why: str) -> None:
    path = tmp_path / "some image.png"
    make(path)
    with pytest.raises(ImageError, match=why) as caught:
        load_image(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((8, 8, 3)), "dtype float64"),
        (np.zeros((8, 8, 3), np.int64), "dtype int64"),
        (np.zeros((3, 8, 8, 8), np.uint8), "shape"),
        (np.zeros((2, 3, 8, 8), np.uint8), r"\(2, 3, 8, 8\).*channels last"),
        (np.zeros((2, 0, 8, 3), np.uint8), "no pixels"),
        (np.zeros(8, np.uint8), "shape"),
        (b"bytes", "bytes"),
        (3, "int"),
    ],
)
def test_what_is_no_image_is_refused_with_a_reason(array: object, why: str) -> None:
    with pytest.raises(ImageError, match=why):
        as_sequence(array)  # type: ignore[arg-type]


def test_one_bad_array_in_a_list_is_named_by_its_place() -> None:
    with pytest.raises(ImageError, match="image 7"):
        load_image(np.zeros((8, 8, 3)), "image 7")
    with pytest.raises(ImageError, match="dict"):
        load_image({})  # type: ignore[arg-type]
    with pytest.raises(ImageError, match="unknown range"):
        load_image(Image.fromarray(np.zeros((4, 4), np.float32)))


def test_stacks_convert_like_single_images() -> None:
    stack = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 4)).astype(np.uint8)
    np.testing.assert_array_equal(to_rgb(stack), np.stack([load_image(each) for each in stack]))
    mask = stack[..., :1] > 127
    np.testing.assert_array_equal(to_rgb(mask)[..., 2] == 255, mask[..., 0])


def test_a_photo_with_damaged_exif_is_read_and_turned_as_far_as_it_can_be_told(tmp_path: Path) -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    turn = b"MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
    odd_tag = b"\x01\x00\0\x02\0\0\0\x04abc\0\0\0\0\0"  # a width that is a text
    for name, exif, expected in (("turned", turn + odd_tag, np.rot90(pixels, -1)), ("odd", b"garbage", pixels)):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png", exif=exif)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's
            np.testing.assert_array_equal(load_image(tmp_path / f"{name}.png"), expected)
