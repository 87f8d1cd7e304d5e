"""One writer a model: two runs on one model would each undo what the other has done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from votestream.photos.finding import PhotoError
from votestream.photos.sidecar import check_place


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
        raise PhotoError(f"{path} is being taught by another run just now: wait until it is done.") from None
    except OSError as problem:
        raise PhotoError(f"{path} cannot be written: {problem.strerror or problem}.") from None
    try:
        yield
    finally:
        with suppress(OSError):  # some systems do not delete what is open
            Path(lock.lock_file).unlink()
        lock.release()
