"""`get_data`: a data set's archives fetched, checked, unpacked, and nothing left lying about."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from votestream.common.progress import note
from votestream.streams.catalogue import Archive, data_folder, find_source, missing
from votestream.streams.data_set import DataError
from votestream.streams.fetch import fetch, md5_of
from votestream.streams.unpack import unpack


def get_data(name: str, data_dir: str | os.PathLike[str] | None = None, *, progress: bool | None = None) -> list[Path]:
    """Fetch a data set from its official address, check it and unpack it; returns the folders that are new.

    An archive that somebody has put into the folder by hand is used instead of fetching it.

    Args:
        name: As `votestream data list` has it.
        data_dir: See `data_folder`.
        progress: Show progress bars; by default where standard error is a terminal.

    Example:
        >>> Path("cifar-10-batches-py").mkdir()
        >>> get_data("cifar10", ".")     # it is here: nothing to do
        []
    """
    source, root = find_source(name), data_folder(data_dir)
    if not missing(source, root):
        return []
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            note(f"Another process is fetching {name}; waiting for it.", progress)
            lock.acquire()
        try:
            return [_get(archive, root, progress) for archive in missing(source, root)]
        finally:
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{name} cannot be put into {root}: {error.strerror or error}.") from error


def _get(archive: Archive, root: Path, progress: bool | None) -> Path:
    file = root / archive.file
    if file.exists():
        found = md5_of(file)
        if found != archive.md5:
            raise DataError(
                f"{file} is not the published archive: its md5 is {found}, not {archive.md5}. "
                "Delete it, and it will be fetched from its official address."
            )
    else:
        with _bar(archive, progress) as told:
            fetch(archive.url, file, archive.md5, archive.bytes, told=told)
    note(f"Unpacking {file}.", progress)
    unpack(file, root / archive.folder)
    file.unlink()
    return root / archive.folder


@contextmanager
def _bar(archive: Archive, show: bool | None) -> Iterator[Callable[[int, int | None], None]]:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not (console.is_terminal if show is None else show)) as bar:
        task = bar.add_task(archive.file, total=archive.bytes)
        yield lambda done, total: bar.update(task, completed=done, total=total or archive.bytes)
