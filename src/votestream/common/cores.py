"""How many processor cores this process may use, and how many threads those that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when the libraries are loaded


WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # how threads of GCC's OpenMP wait for one another, read likewise
SPINS = "3000"  # some microseconds


def wait_in_peace() -> None:
    """Let torch's threads sleep soon while they wait for one another; before it is imported, unless somebody chose.

    By default they spin for milliseconds. Where two such programs share the cores, each keeps the other from what its
    threads wait for: an image took many times as long (`benchmarks/busy_machine.py`).
    """
    if not any(name in os.environ for name in WAITING):
        os.environ["GOMP_SPINCOUNT"] = SPINS


def usable_cores() -> int:
    """Those it was given, by `taskset` or a scheduler, which may be fewer than the machine has.

    >>> 1 <= usable_cores() <= os.cpu_count()
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads_of_children(number: int) -> Iterator[None]:
    """Processes started inside compute with so many threads.

    >>> with threads_of_children(1):
    ...     os.environ["OMP_NUM_THREADS"]
    '1'
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(number)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
