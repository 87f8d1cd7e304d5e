"""The lock of a model file: only one program at a time changes a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from votestream.common.printing import shown
from votestream.model_store.paths import ModelStoreError, check_own_file, resolve_link


@contextmanager
def model_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a model, or raise ModelStoreError that names who holds it."""
    # Not bound to a thread: a service may be closed by another thread than the one that opened it.
    lock = FileLock(path.with_name(f".{path.name}.lock"), thread_local=False)
    try:
        check_own_file(Path(lock.lock_file), "keeps its lock", lambda start: not start)
        Path(lock.lock_file).touch()  # fails where nothing can be written, so that this is not taken for a held lock
        lock.acquire(timeout=0)
    except Timeout:
        raise ModelStoreError(_holder(path)) from None
    except OSError as problem:
        raise ModelStoreError(f"{path} cannot be written: {problem.strerror or problem}.") from None
    _address_file(path).unlink(missing_ok=True)  # left behind by a service that was killed
    try:
        yield
    finally:
        with suppress(OSError):
            _address_file(path).unlink(missing_ok=True)
        with suppress(OSError):  # some systems do not delete a file that is open
            Path(lock.lock_file).unlink()
        lock.release()


def note_address(path: Path, address: str) -> None:
    """Write down where a model is served, for the error message of other programs; the caller holds the lock."""
    with suppress(OSError):  # it only makes a message more helpful
        _address_file(resolve_link(path)).write_text(json.dumps({"served_at": address}), encoding="utf-8")


def _holder(path: Path) -> str:
    try:
        with _address_file(path).open(encoding="utf-8") as file:
            address = shown(json.loads(file.read(1000))["served_at"])
    except (KeyError, OSError, RecursionError, TypeError, ValueError):
        return f"{path} is in use by another run: wait until it has finished."
    return (
        f"{path} is served at {address}, and only that service may change it: learn, undo, rename and forget on its "
        "page, or stop the service first."
    )


def _address_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.served")
