"""Functions that workers carry out in the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path


def squares() -> Callable[[int], int]:
    return lambda x: x * x


def threads() -> Callable[[int], tuple[int, str]]:
    import torch

    return lambda _: (torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS", ""))


def process() -> Callable[[int], int]:
    return lambda _: os.getpid()


def made_once(folder: Path) -> Callable[[int], int]:
    """Leaves a file for each time it is made."""
    (folder / f"{os.getpid()}-{len(list(folder.iterdir()))}").touch()
    return lambda x: x


def dying(folder: Path, at: int, times: int) -> Callable[[int], int]:
    """Kills its process at an item, so many times."""
    return partial(_die, folder, at, times)


def _die(folder: Path, at: int, times: int, item: int) -> int:
    if item == at and len(list(folder.iterdir())) < times:
        (folder / str(len(list(folder.iterdir())))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def dying_once(make: Callable, marker: Path) -> Callable:
    """What `make` makes, but for the first worker that comes to row 100."""
    return partial(_die_once, make(), marker)


def _die_once(function: Callable, marker: Path, group: list) -> bytes:
    if not marker.exists() and group[0].first == 100:
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(group)


def failing() -> Callable[[int], float]:
    return lambda x: 1 / x


def unmakeable() -> Callable[[int], int]:
    raise OSError("no weights here")
