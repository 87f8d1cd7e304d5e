"""Photos are decoded ahead in threads, and never more than a few of them wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from votestream.backbones import create_backbone
from votestream.common.cores import usable_cores
from votestream.photos.decode import BATCHES_AHEAD, PHOTOS_AHEAD, decode_photos, without_labels


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    return [tmp_path / "a.png"] * (6 * PHOTOS_AHEAD)


@pytest.mark.parametrize("batch", [1, PHOTOS_AHEAD])
def test_a_bounded_number_of_photos_is_read_ahead_of_whoever_asks(many: list[Path], batch: int) -> None:
    backbone = create_backbone("reduced_resnet18", device="cpu", batch_size=batch)
    read, plain = [0], backbone.prepare

    def counting(*arguments: object) -> np.ndarray:
        read[0] += 1
        return plain(*arguments)  # type: ignore[arg-type]

    backbone.prepare = counting  # type: ignore[method-assign, assignment]
    found = decode_photos(without_labels(many), backbone)
    most = max(PHOTOS_AHEAD, BATCHES_AHEAD * batch)
    for asked in range(1, 20):
        next(found)
        time.sleep(0.005)
        assert asked <= read[0] <= asked + most
    found.close()
    assert read[0] < len(many)  # whoever stops asking has the rest left alone


def test_decoding_goes_on_in_threads_no_more_than_there_are_cores(many: list[Path]) -> None:
    backbone = create_backbone("reduced_resnet18", device="cpu")
    here, now, most = threading.current_thread(), [0], [0]
    plain, lock = backbone.prepare, threading.Lock()

    def counting(*arguments: object) -> np.ndarray:
        assert threading.current_thread() is not here
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return plain(*arguments)  # type: ignore[arg-type]

    backbone.prepare = counting  # type: ignore[method-assign, assignment]
    assert all(reading.problem is None for reading in decode_photos(without_labels(many), backbone))
    assert most[0] == usable_cores()
