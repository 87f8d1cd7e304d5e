"""Batches of photos become features, while others are read and learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.backbones.backbone import Backbone
from votestream.common.cores import usable_cores
from votestream.photos.reading import Reading

Features = NDArray[np.float32]


def looked_at(batches: Iterable[list[Reading]], backbone: Backbone) -> Iterator[tuple[list[Reading], Features]]:
    """Each batch with its features, in order; every reading has pixels.

    On a CPU every core looks at a batch of its own, on one thread: threads that share a batch wait for one another, and
    the longer, the more threads decode photos beside them.
    """

    def look(batch: list[Reading]) -> Features:
        return backbone.of_prepared(np.stack([reading.pixels for reading in batch if reading.pixels is not None]))

    on_cpu = backbone.device.type == "cpu"
    lookers = usable_cores() if on_cpu else 1
    waiting: deque[tuple[list[Reading], Future[Features]]] = deque()
    with _torch_threads(1 if on_cpu else torch.get_num_threads()):
        pool = ThreadPoolExecutor(lookers, "look")
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(look, batch)))
                if len(waiting) > lookers:
                    first, features = waiting.popleft()
                    yield first, features.result()
            while waiting:
                first, features = waiting.popleft()
                yield first, features.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """So many for each thread that is started meanwhile, and for this one."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
