"""One writer a model: two runs on one model would each undo what the other has done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from votestream.common.printing import shown
from votestream.photos.finding import PhotoError
from votestream.photos.sidecar import check_place, followed


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the model's lock, or say who has it."""
    # Not a lock of its thread: a service is closed by another thread than the one that opened it.
    lock = FileLock(path.with_name(f".{path.name}.lock"), thread_local=False)
    try:
        check_place(Path(lock.lock_file), "keeps its lock", lambda start: not start)
        Path(lock.lock_file).touch()  # tells a place that cannot be written to from a lock that is taken
        lock.acquire(timeout=0)
    except Timeout:
        raise PhotoError(_who_has(path)) from None
    except OSError as problem:
        raise PhotoError(f"{path} cannot be written: {problem.strerror or problem}.") from None
    _service_of(path).unlink(missing_ok=True)  # of a service that was killed
    try:
        yield
    finally:
        with suppress(OSError):
            _service_of(path).unlink(missing_ok=True)
        with suppress(OSError):  # some systems do not delete what is open
            Path(lock.lock_file).unlink()
        lock.release()


def note_service(path: Path, address: str) -> None:
    """Tell those who find the model's lock taken that it is served, and where; `alone` is held."""
    with suppress(OSError):  # it only makes a sentence better
        _service_of(followed(path)).write_text(json.dumps({"served_at": address}), encoding="utf-8")


def _who_has(path: Path) -> str:
    try:
        with _service_of(path).open(encoding="utf-8") as file:
            address = shown(json.loads(file.read(1000))["served_at"])
    except (KeyError, OSError, RecursionError, TypeError, ValueError):
        return f"{path} is being taught by another run just now: wait until it is done."
    return (
        f"{path} is served at {address}, and only that service may change it: learn, undo, rename and forget on its "
        "page, or end the service first."
    )


def _service_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.served")
