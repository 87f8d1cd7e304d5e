"""The demo's classes, as lessons for a model that is to be played with."""

from __future__ import annotations

import io
from collections.abc import Iterator

from PIL import Image

from votestream.serve.engine.messages import Upload
from votestream.streams.sample import sample_images

IMAGES = 30  # of each class


def lessons() -> Iterator[tuple[str, str, list[Upload]]]:
    """Task, label and images of one class after another, two classes a task."""
    images, labels = sample_images("train")
    for number, label in enumerate(dict.fromkeys(labels.tolist())):
        mine = images[labels == label][:IMAGES]
        yield (
            f"demo {number // 2 + 1}",
            label,
            [Upload(_png(image), f"{label} {n}.png") for n, image in enumerate(mine)],
        )


def _png(pixels: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")  # type: ignore[arg-type]
    return file.getvalue()
