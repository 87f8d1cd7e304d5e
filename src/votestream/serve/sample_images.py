"""The labelled images of the demo, for `votestream serve --sample`."""

from __future__ import annotations

import io
from collections.abc import Iterator

from PIL import Image

from votestream.serve.engine.messages import Upload
from votestream.streams.sample import sample_images

IMAGES_PER_CLASS = 30


def labelled_images() -> Iterator[tuple[str, str, list[Upload]]]:
    """The task, label and images of every class. A task has two classes."""
    images, labels = sample_images("train")
    for number, label in enumerate(dict.fromkeys(labels.tolist())):
        mine = images[labels == label][:IMAGES_PER_CLASS]
        yield (
            f"demo {number // 2 + 1}",
            label,
            [Upload(_png(image), f"{label} {n}.png") for n, image in enumerate(mine)],
        )


def _png(pixels: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")  # type: ignore[arg-type]
    return file.getvalue()
