"""Unpacking an archive: files and folders below one of its own, and no more than it can honestly hold."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from votestream.common.printing import shown
from votestream.streams.data_set import DataError

# Images hardly shrink when packed, and lists of file names some thirty times; bombs do a thousand times or more.
MOST_TIMES = 100
LEAST_ROOM = 1 << 20  # bytes that even the smallest archive may become
LONGEST_HEADER = 1 << 20  # bytes of a tar member's name and attributes, which are read into memory
BLOCK = 512  # what a member takes at least: a bomb may be made of empty files


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the one folder of that name out of a tar or zip file; it appears complete or not at all.

    Links, devices and names that lead elsewhere are refused, whatever this Python's own filter thinks of them: no data
    set here has any.
    """
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        try:
            if tarfile.is_tarfile(archive):
                _unpack_tar(archive, work)
            else:
                _unpack_zip(archive, work)
        except Exception as error:  # zlib.error, RuntimeError (a password), EOFError, RecursionError, ...
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk, not of the archive
            why = shown(str(error)[:200]) or type(error).__name__
            raise DataError(f"{archive} cannot be unpacked ({why}): delete it and fetch it again.") from error
        if not (work / folder.name).is_dir():
            raise DataError(f"{archive} holds no folder {folder.name}: it is another archive than expected.")
        os.replace(work / folder.name, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _Refused(Exception):
    """What an archive holds that no data set needs."""


class _Room:
    """Counts what comes out of an archive, and stops it before it is more than the archive can honestly hold."""

    def __init__(self, archive: Path) -> None:
        self.left = MOST_TIMES * archive.stat().st_size + LEAST_ROOM

    def take(self, name: str, size: int, plain: bool) -> None:
        path = Path(name)
        if not plain or size < 0 or path.anchor or ".." in path.parts:
            raise _Refused(f"{name!r} is no file or folder inside the archive's own")
        self.left -= max(size, BLOCK)
        if self.left < 0:
            raise _Refused(f"it would become more than {MOST_TIMES} times its size")


class _Member(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if not (member.isreg() or member.isdir()) and member.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a member's header claims {member.size:,} bytes")
        return member


def _unpack_tar(archive: Path, work: Path) -> None:
    room = _Room(archive)
    options: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive, tarinfo=_Member) as tar:
        for member in tar:
            room.take(member.name, member.size, member.isreg() or member.isdir())
            tar.extract(member, work, **options)


def _unpack_zip(archive: Path, work: Path) -> None:
    room = _Room(archive)
    with zipfile.ZipFile(archive) as bundle:
        for entry in bundle.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            room.take(entry.filename, entry.file_size, kind in (0, stat.S_IFREG, stat.S_IFDIR))
        bundle.extractall(work)
