"""Files on their way to replace another: written beside it, renamed when whole, cleared away when their writer died."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can neither be removed nor renamed
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".partial"
LONGEST = 255 - len(f"..12345678{SUFFIX}")  # bytes of a file's name that its partial file's can repeat


@contextmanager
def beside(path: Path) -> Iterator[tuple[int, str]]:
    """A new file in the same folder, open for writing, and its name; whoever asked renames it. A failure removes it.

    It is locked for as long as its writer lives: a partial file that nobody holds was left by one that died, and is
    removed by the next.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with beside(Path(folder, "m")) as (handle, name):
    ...         os.close(handle)
    ...         os.replace(name, Path(folder, "m"))
    ...     os.listdir(folder)
    ['m']
    """
    _remove_leftovers(path)
    handle, name = _create(path)
    lock = os.dup(handle) if fcntl else None  # the lock stays when the file is closed, until it is renamed
    try:
        yield handle, name
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in place of what was there, or leave that; a link is followed."""
    path = Path(os.path.realpath(path))
    with beside(path) as (handle, name):
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, permissions(path))
        os.replace(name, path)


def permissions(path: Path) -> int:
    """Those of the file replaced, else what the user's umask gives (mkstemp alone gives 0600)."""
    if path.exists():
        return path.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _prefix(path: Path) -> str:
    name = path.name
    if len(os.fsencode(name)) > LONGEST:
        name = os.fsencode(name)[:LONGEST].decode(errors="ignore")
    return f".{name}."


def _create(path: Path) -> tuple[int, str]:
    while True:
        handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=SUFFIX, dir=path.parent)
        if not fcntl:
            return handle, name
        with suppress(OSError):  # some file systems know no locks; nothing is removed there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # another writer came between and took it for a leftover


def _remove_leftovers(path: Path) -> None:
    leftover = re.compile(re.escape(_prefix(path)) + r"[a-z0-9_]{8}" + re.escape(SUFFIX))
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if leftover.fullmatch(name):
                _remove_unless_held(path.parent / name)


def _remove_unless_held(path: Path) -> None:
    with suppress(OSError):
        if not fcntl:
            path.unlink()
            return
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(handle)
