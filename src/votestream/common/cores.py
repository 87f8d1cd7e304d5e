"""How many processor cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those it was given, by `taskset` or a scheduler, which may be fewer than the machine has.

    >>> 1 <= usable_cores() <= os.cpu_count()
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
