"""Image files are measured before they are decoded; large ones come one at a time, and large JPEGs are reduced."""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import votestream as vs
from votestream.backbones import ImageError, Preprocessing, load_image
from votestream.images import convert, files

from .samples import random_images


def png_of(width: int, height: int) -> bytes:
    """A PNG whose header claims that size; there is hardly anything behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def photo(path: Path, size: tuple[int, int] = (400, 300), **options: object) -> Path:
    small = Image.fromarray(random_images(1, 30, 40)[0])
    small.resize(size, Image.Resampling.BICUBIC).convert(options.pop("mode", "RGB")).save(path, **options)  # type: ignore[arg-type]
    return path


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """JPEGs of more than 50,000 pixels are reduced, as those of more than 70,000,000 are otherwise."""
    monkeypatch.setattr(files, "MAX_PIXELS", 50_000)


def decoded_sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sizes: list[tuple[int, int]] = []
    plain = convert.as_rgb

    def noting(image: Image.Image, name: str) -> Image.Image:
        sizes.append(image.size)
        return plain(image, name)

    monkeypatch.setattr("votestream.backbones.preprocessing.as_rgb", noting)
    return sizes


def test_a_bomb_is_refused_by_its_header_and_the_message_names_both_options(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_of(9000, 9000))
    for read in (load_image, Preprocessing(32).fit, vs.create_backbone("reduced_resnet18", device="cpu")):
        with pytest.raises(ImageError, match=r"bomb.png is too large: 9000 x 9000") as caught:
            read(path)
        assert "--max-pixels 81000000 (max_pixels in Python)" in str(caught.value)
    with pytest.raises(ImageError, match="cannot be read"):  # it is decoded now, and there is nothing in it
        load_image(path, max_pixels=81_000_000)


def test_the_limit_can_be_moved_in_every_way_that_is_named(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (40, 30))
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    backbone.max_pixels = 1000
    for read in (
        lambda most: load_image(path, max_pixels=most),
        lambda most: load_image(Image.new("RGB", (40, 30)), max_pixels=most),
        lambda most: Preprocessing(8).fit(path, max_pixels=most),
        lambda most: list(Preprocessing(8).batches([path], 1, most)),
    ):
        with pytest.raises(ImageError, match="40 x 30"):
            read(1199)
        read(1200)
    with pytest.raises(ImageError, match="40 x 30"):
        backbone(path)
    backbone.max_pixels = 1200
    assert backbone(path).shape == (1, 160)


def test_pillows_own_limit_is_neither_used_nor_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert load_image(photo(tmp_path / "a.png", (40, 30))).shape == (30, 40, 3)  # Pillow would refuse it
    assert Image.MAX_IMAGE_PIXELS == 100


def test_a_photo_of_108_megapixels_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "phone.jpg"
    Image.new("L", (12_000, 9_000), 200).save(path)
    sizes = decoded_sizes(monkeypatch)
    assert np.abs(Preprocessing(224).fit(path).astype(int) - 200).max() <= 1
    assert sizes == [(1500, 1125)]
    with pytest.raises(ImageError, match="12000 x 9000"):
        load_image(path)  # the whole of it was asked for


@pytest.mark.parametrize("how", [{}, {"progressive": True}, {"mode": "CMYK"}, {"mode": "L"}, {"subsampling": 0}])
def test_a_reduced_photo_hardly_differs(tmp_path: Path, small_limit: None, monkeypatch, how: dict) -> None:
    path = photo(tmp_path / "a.jpg", quality=95, **how)
    full = Preprocessing(64).fit(Image.open(path))
    sizes = decoded_sizes(monkeypatch)
    reduced = Preprocessing(64).fit(path)
    assert sizes == [(200, 150)]
    assert np.abs(full.astype(int) - reduced).mean() < 2


def test_the_features_of_a_reduced_photo_point_the_same_way(tmp_path: Path, small_limit: None) -> None:
    path = photo(tmp_path / "a.jpg", quality=95)
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    with Image.open(path) as image:
        full = backbone(np.asarray(image))[0]
    reduced = backbone(path)[0]
    assert 0.999 < full @ reduced / np.linalg.norm(full) / np.linalg.norm(reduced) < 0.9999999


@pytest.mark.parametrize(
    ("size", "decoded"),
    [
        ((4032, 3024), (1008, 756)),  # a phone's: a quarter keeps more than three times what the network reads
        ((3024, 4032), (756, 1008)),
        ((1344, 1344), (672, 672)),
        ((1400, 1342), (1400, 1342)),  # a half would keep less
        ((4033, 3024), (4033, 3024)),  # a quarter of it would have other proportions
        ((4036, 3026), (2018, 1513)),
    ],
)
def test_a_jpeg_is_decoded_as_small_as_keeps_three_times_what_the_network_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], decoded: tuple[int, int]
) -> None:
    path = tmp_path / "a.jpg"
    Image.new("RGB", size, "red").save(path)
    sizes = decoded_sizes(monkeypatch)
    Preprocessing(224).fit(path)
    assert sizes == [decoded]
    assert load_image(path).shape[:2] == size[::-1]  # the whole of it was asked for


def test_small_jpegs_and_other_kinds_are_read_bit_for_bit_as_ever(tmp_path: Path) -> None:
    for path in (photo(tmp_path / "a.jpg", (240, 180)), photo(tmp_path / "a.png", (2000, 1500))):
        with Image.open(path) as image:
            np.testing.assert_array_equal(Preprocessing(32).fit(path), Preprocessing(32).fit(np.asarray(image)))


def test_large_jpegs_decoded_small_come_side_by_side_and_progressive_ones_do_not(tmp_path: Path) -> None:
    """A progressive one holds all its pixels however small it is decoded."""
    for how, held in (({}, 125 * 94), ({"progressive": True}, 1000 * 752)):
        with open(photo(tmp_path / "a.jpg", (1000, 752), **how), "rb") as file:
            assert files.identify(file, "a.jpg", files.MAX_PIXELS, least=90)[1] == held


def test_a_reduced_photo_is_turned_upright(tmp_path: Path, small_limit: None) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = Preprocessing(32).fit(photo(tmp_path / "turned.jpg", exif=exif))
    upright = np.rot90(Preprocessing(32).fit(photo(tmp_path / "a.jpg")), -1).astype(int)
    assert np.abs(turned - upright).max() <= 4  # resizing rounds between rows and columns


def test_a_photo_is_not_reduced_below_twice_what_the_network_reads(tmp_path: Path, small_limit: None) -> None:
    path = photo(tmp_path / "a.jpg")  # half of it is 200 x 150
    assert Preprocessing(75).fit(path, max_pixels=60_000).shape == (75, 75, 3)
    with pytest.raises(ImageError, match="400 x 300"):
        Preprocessing(76).fit(path, max_pixels=60_000)


def test_a_jpeg_beyond_three_times_the_limit_and_a_truncated_one_are_refused(tmp_path: Path, small_limit: None) -> None:
    path = photo(tmp_path / "a.jpg", (600, 400))
    with pytest.raises(ImageError, match="600 x 400"):
        Preprocessing(32).fit(path, max_pixels=79_999)
    assert Preprocessing(32).fit(path, max_pixels=80_000).shape == (32, 32, 3)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(ImageError, match=r"a\.jpg cannot be read"):
        Preprocessing(32).fit(path, max_pixels=80_000)


def test_the_first_photo_of_several_in_a_file_is_taken(tmp_path: Path, small_limit: None) -> None:
    first, second = Image.new("RGB", (400, 300), "red"), Image.new("RGB", (400, 300), "blue")
    first.save(tmp_path / "a.mpo", save_all=True, append_images=[second])
    assert Preprocessing(8).fit(tmp_path / "a.mpo")[4, 4].tolist() == [254, 0, 0]


def test_large_images_are_decoded_one_at_a_time_and_small_ones_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGE", 1000)
    together, most, threads = [0], [0], set()

    def slow(image: Image.Image) -> None:
        together[0] += 1
        most[0] = max(most[0], together[0])
        threads.add(threading.current_thread().name)
        time.sleep(0.02)
        together[0] -= 1

    def read(path: Path) -> None:
        convert.decode_path(path, slow, max_pixels=10_000)

    large, small = photo(tmp_path / "large.png", (40, 30)), photo(tmp_path / "small.png", (4, 3))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, [large] * 6))
        assert (most, len(threads)) == ([1], 1)
        list(pool.map(read, [small] * 6))
        assert most[0] > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_large_images_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 1000)
    path = photo(tmp_path / "large.png", (40, 30))
    load_image(path)  # so that the parent has its thread
    child = os.fork()
    if child == 0:
        os._exit(load_image(path).shape != (30, 40, 3))
    for _ in range(500):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert (done, status) == (child, 0)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "I"])
def test_images_converted_in_strips_are_the_same(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (31, 23, 4), dtype=np.uint8)
    if mode.startswith("I"):
        image = Image.fromarray(pixels[..., 0].astype(np.uint16 if mode == "I;16" else np.int32) * 257)
    else:
        image = Image.fromarray(pixels).convert(mode)
    if mode == "P":
        image.info["transparency"] = 3
    whole = load_image(image)
    monkeypatch.setattr(convert, "STRIP", 50)
    np.testing.assert_array_equal(load_image(image), whole)


@pytest.mark.parametrize("kind", ["ico", "icns", "eps"])
def test_icons_and_programs_are_no_photos(tmp_path: Path, kind: str) -> None:
    """An icon's header may hide a larger image, and PostScript would be run."""
    path = tmp_path / f"a.{kind}"
    Image.new("RGB", (64, 64)).save(path)
    with pytest.raises(ImageError, match="not an image, or of a kind that is not read"):
        load_image(path)


def test_files_of_a_few_bytes_are_not_images(tmp_path: Path) -> None:
    path = tmp_path / "short"
    for start in (b"P", b"\n", b"\xff\xd8\xff", b"BM", b"\x89PNG", b"GIF89a", b"RIFF", b"\0\0\0\x18ftyp", b"\x28\0"):
        path.write_bytes(start)
        with pytest.raises(ImageError, match=r"not an image|cannot be read"):
            load_image(path)


HEIC_START = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"


@pytest.mark.parametrize("brand", [b"heic", b"mif1", b"hevc"])
def test_a_heic_photo_without_its_package_says_how_to_install_it(tmp_path: Path, monkeypatch, brand: bytes) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed: importing it fails
    path = tmp_path / "IMG_0001.HEIC"
    path.write_bytes(HEIC_START.replace(b"ftypheic", b"ftyp" + brand) + bytes(100))
    with pytest.raises(ImageError) as caught:
        load_image(path)
    for part in (
        "IMG_0001.HEIC is a HEIC photo, which needs the package pillow-heif",
        "`pip install 'votestream[heic]'`",
        "`pip install -c constraints.txt -e '.[heic]'`",
    ):
        assert part in str(caught.value)


@pytest.fixture
def heic(tmp_path: Path) -> Path:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.from_pillow(Image.open(photo(tmp_path / "a.png"))).save(tmp_path / "IMG_1.HEIC", quality=90)
    return tmp_path / "IMG_1.HEIC"


def test_a_heic_photo_is_read_like_any_other(heic: Path) -> None:
    known = set(Image.OPEN)
    original = load_image(heic.with_name("a.png")).astype(int)
    assert np.abs(load_image(heic) - original).mean() < 4
    assert Preprocessing(32).fit(heic).shape == (32, 32, 3)
    assert set(Image.OPEN) == known
    with pytest.raises(ImageError, match="400 x 300"):
        load_image(heic, max_pixels=1000)


def test_a_damaged_heic_photo_is_named(heic: Path) -> None:
    whole = heic.read_bytes()
    for share in (0.02, 0.3, 0.9):
        heic.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ImageError, match=r"IMG_1\.HEIC"):
            load_image(heic)
