"""Feature extraction for batches of decoded photos, several batches at a time."""

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
from votestream.photos.decode import DecodedPhoto

Features = NDArray[np.float32]


def extract_features(
    batches: Iterable[list[DecodedPhoto]], backbone: Backbone
) -> Iterator[tuple[list[DecodedPhoto], Features]]:
    """Each batch with the features of its photos that have pixels, in order.

    On a CPU each core works on a batch of its own, with one thread. Threads that share a batch would wait for one
    another, and longer still while other threads decode photos.
    """

    def extract(batch: list[DecodedPhoto]) -> Features:
        pixels = [photo.pixels for photo in batch if photo.pixels is not None]
        return backbone.of_prepared(np.stack(pixels)) if pixels else np.empty((0, backbone.feature_dim), np.float32)

    on_cpu, parallel = backbone.device.type == "cpu", parallel_batches(backbone)
    waiting: deque[tuple[list[DecodedPhoto], Future[Features]]] = deque()
    with torch_threads(1 if on_cpu else torch.get_num_threads()):
        pool = ThreadPoolExecutor(parallel, "extract")
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(extract, batch)))
                if len(waiting) > parallel:
                    first, features = waiting.popleft()
                    yield first, features.result()
            while waiting:
                first, features = waiting.popleft()
                yield first, features.result()
        finally:
            pool.shutdown(cancel_futures=True)


def parallel_batches(backbone: Backbone) -> int:
    """The number of batches that are processed at the same time."""
    return usable_cores() if backbone.device.type == "cpu" else 1
