"""Batches of photos become features, while others are read and learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.backbones.backbone import Backbone
from votestream.common.cores import usable_cores
from votestream.compute.place import torch_threads
from votestream.photos.reading import Reading

Features = NDArray[np.float32]


def looked_at(batches: Iterable[list[Reading]], backbone: Backbone) -> Iterator[tuple[list[Reading], Features]]:
    """Each batch with the features of those readings that have pixels, in order.

    On a CPU every core looks at a batch of its own, on one thread: threads that share a batch wait for one another, and
    the longer, the more threads decode photos beside them.
    """

    def look(batch: list[Reading]) -> Features:
        pixels = [reading.pixels for reading in batch if reading.pixels is not None]
        return backbone.of_prepared(np.stack(pixels)) if pixels else np.empty((0, backbone.feature_dim), np.float32)

    on_cpu, lookers = backbone.device.type == "cpu", lookers_of(backbone)
    waiting: deque[tuple[list[Reading], Future[Features]]] = deque()
    with torch_threads(1 if on_cpu else torch.get_num_threads()):
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


def lookers_of(backbone: Backbone) -> int:
    """How many batches are looked at at once."""
    return usable_cores() if backbone.device.type == "cpu" else 1
