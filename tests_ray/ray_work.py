"""Functions that Ray's workers carry out in the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def large(size: int) -> Callable[[int], bytes]:
    return lambda _: os.urandom(size)


def node(seconds: float) -> Callable[[int], str]:
    """Which node the worker is on, after so many seconds."""
    import ray

    def told(_: int) -> str:
        time.sleep(seconds)
        return str(ray.get_runtime_context().get_node_id())

    return told
