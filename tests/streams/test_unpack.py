"""Archives become one folder or nothing: they cannot write elsewhere, nor become more than they can honestly hold."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import votestream as vs
from votestream.streams import unpack as unpacking
from votestream.streams.unpack import unpack


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def refused(place: Path, archive: Path, why: str) -> None:
    """It is refused by name, and nothing of it is anywhere."""
    before = sorted(place.rglob("*"))
    with pytest.raises(vs.DataError, match=rf"{archive.name} cannot be unpacked \({why}.*delete it and fetch it again"):
        unpack(archive, place / "in" / "data")
    assert sorted(place.rglob("*")) == before


def tar_of(place: Path, *members: tuple[str, bytes, str], mode: str = "w") -> Path:
    path = place / "a.tar"
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            if kind == tarfile.REGTYPE:
                member.size = 5
            tar.addfile(member, io.BytesIO(b"hello"))
    return path


def test_a_tar_file_is_unpacked_whole(place):
    for mode in ("w", "w:gz"):
        path = tar_of(place, ("data", tarfile.DIRTYPE, ""), ("data/b/x.txt", tarfile.REGTYPE, ""), mode=mode)
        unpack(path, place / "in" / "data")
        assert (place / "in/data/b/x.txt").read_text() == "hello"
        os.rename(place / "in/data", place / mode.replace(":", ""))
    with pytest.raises(vs.DataError, match="holds no folder other"):
        unpack(path, place / "in" / "other")


@pytest.mark.filterwarnings("ignore:Python 3.14 will, by default, filter:DeprecationWarning")  # 3.12 on
@pytest.mark.parametrize("python", ["this", "early 3.11"])
@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../escaped", tarfile.REGTYPE, ""),
        ("data/../../escaped", tarfile.REGTYPE, ""),
        ("/tmp/escaped", tarfile.REGTYPE, ""),
        ("data/link", tarfile.SYMTYPE, "../../escaped"),
        ("data/link", tarfile.SYMTYPE, "inside"),
        ("data/link", tarfile.LNKTYPE, "data/inside"),
        ("data/pipe", tarfile.FIFOTYPE, ""),
        ("data/device", tarfile.CHRTYPE, ""),
    ],
)
def test_links_devices_and_names_that_lead_elsewhere_are_refused(place, monkeypatch, name, kind, target, python):
    if python != "this":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    refused(place, tar_of(place, ("data/inside", tarfile.REGTYPE, ""), (name, kind, target)), ".*no file or folder")


def test_a_chain_of_links_too_long_to_follow_writes_nothing_outside(place):
    """Each link is shorter than the path it stands for, so that no check can resolve the last one: CVE-2025-4517."""
    step, members, at = "d" * 247, [], ""
    for letter in "abcdefghijklmnop":
        members.append((f"{at}{step}", tarfile.DIRTYPE, ""))
        members.append((f"{at}{letter}", tarfile.SYMTYPE, step))
        at += f"{step}/"
    shorts = "/".join("abcdefghijklmnop")
    members.append((f"{shorts}/{'l' * 254}", tarfile.SYMTYPE, "../" * 16))
    members.append(("escape", tarfile.SYMTYPE, f"{shorts}/{'l' * 254}/../.."))
    members.append(("escape/escaped", tarfile.REGTYPE, ""))
    refused(place, tar_of(place, *members), ".*no file or folder")
    assert not list(place.rglob("escaped"))


def test_a_member_header_of_gigabytes_is_not_read_into_memory(place):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    path = place / "a.tar"
    first = tarfile.TarInfo("data/x")
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(first.tobuf() + member.tobuf(tarfile.GNU_FORMAT) + bytes(4 << 20))
    tracemalloc.start()
    refused(place, path, r"a member's header claims 1,073,741,824 bytes")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_headers_that_announce_headers_without_end_are_refused(place):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 10
    path = place / "a.tar"
    one = member.tobuf(tarfile.GNU_FORMAT) + b"data/name".ljust(512, b"\0")
    path.write_bytes(tarfile.TarInfo("data/x").tobuf() + one * 3000)
    refused(place, path, "maximum recursion depth")


def test_a_member_that_takes_less_than_nothing_does_not_lead_in_circles(place):
    path, member = place / "a.tar", tarfile.TarInfo("data/x")
    member.pax_headers = {"size": "-1536"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member)
    refused(place, path, ".*no file or folder")


def test_zip_files_are_unpacked_and_damaged_ones_refused(tmp_path):
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("data/x.txt", "hello")
    unpack(file, tmp_path / "data")
    assert (tmp_path / "data/x.txt").read_text() == "hello"
    with pytest.raises(vs.DataError, match="holds no folder other"):
        unpack(file, tmp_path / "other")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(vs.DataError, match="cannot be unpacked"):
        unpack(file, tmp_path / "more")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "data"]


def zip_of(place: Path, content: bytes = b"hello" * 100, name: str = "data/x", mode: int = 0) -> Path:
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, mode << 16
    with zipfile.ZipFile(place / "a.zip", "w") as bundle:
        bundle.writestr(entry, content)
    return place / "a.zip"


@pytest.mark.parametrize(("name", "mode"), [("../escaped", 0), ("/escaped", 0), ("data/link", 0o120777)])
def test_entries_of_zip_files_that_lead_elsewhere_are_refused(place, name, mode):
    refused(place, zip_of(place, b"../../escaped", name, mode), ".*no file or folder")


def changed(path: Path, *places: tuple[bytes, int, bytes]) -> Path:
    """The file with bytes written over it, so many behind each mark."""
    content = bytearray(path.read_bytes())
    for mark, behind, new in places:
        at = content.index(mark) + behind
        content[at : at + len(new)] = new
    path.write_bytes(content)
    return path


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ([(LOCAL, 6, b"\x01"), (CENTRAL, 8, b"\x01")], ".*encrypted"),
        ([(b"data/x", 6, b"\xff\xff\xff")], ".*invalid"),  # the compressed bytes: zlib.error
        ([(LOCAL, 14, b"\0\0\0\0"), (CENTRAL, 16, b"\0\0\0\0")], ".*CRC"),
        ([(LOCAL, 8, b"\x0e"), (CENTRAL, 10, b"\x0e")], ""),  # says it is LZMA
        ([(LOCAL, 8, b"\x63"), (CENTRAL, 10, b"\x63")], ".*compression"),
        ([(CENTRAL, 24, struct.pack("<I", 1 << 30))], ".*more than 100 times"),
    ],
    ids=["encrypted", "zlib", "crc", "lzma", "unknown method", "claims a gigabyte"],
)
def test_a_broken_zip_file_is_named_not_crashed(place, places, why):
    refused(place, changed(zip_of(place), *places), why)


@pytest.mark.parametrize("at", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_tar_gz_is_named_not_crashed(place, at, damage):
    path = place / "a.tar"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("data/x")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(bytes(i * i % 251 for i in range(100_000))))
    content = bytearray(path.read_bytes())
    spot = int(at * len(content))
    content[spot:] = b"" if damage == "cut" else b"\xff" * 20 + content[spot + 20 :]
    path.write_bytes(content)
    refused(place, path, "")


@pytest.mark.parametrize("kind", ["tar", "zip", "empty files"])
def test_a_bomb_is_stopped_before_it_fills_the_disk(place, monkeypatch, kind):
    monkeypatch.setattr(unpacking, "LEAST_ROOM", 0)
    if kind == "zip":
        path = zip_of(place, bytes(1_000_000))
    else:
        path = place / "a.tar"
        with tarfile.open(path, "w:gz") as tar:
            for number in range(2000 if kind == "empty files" else 1):
                member = tarfile.TarInfo(f"data/{number}")
                member.size = 0 if kind == "empty files" else 1_000_000
                tar.addfile(member, io.BytesIO(bytes(member.size)))
    monkeypatch.setattr(unpacking, "MOST_TIMES", 20)
    refused(place, path, "it would become more than 20 times its size")


def test_a_full_disk_is_not_blamed_on_the_archive(place, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(tar_of(place, ("data/x", tarfile.REGTYPE, "")), place / "in" / "data")
    assert list((place / "in").iterdir()) == []


def test_names_with_control_characters_are_told_without_them(place):
    path = tar_of(place, ("../\x1b[2J", tarfile.REGTYPE, ""))
    with pytest.raises(vs.DataError) as caught:
        unpack(path, place / "in" / "data")
    assert str(caught.value).isprintable()
