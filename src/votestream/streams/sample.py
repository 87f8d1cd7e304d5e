"""The sample that comes with the package: 1,500 images of CIFAR-10, and a stream of them."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from votestream.streams.from_arrays import stream_from
from votestream.streams.make import register_stream
from votestream.streams.tasks import Stream

if TYPE_CHECKING:
    from votestream.backbones import Backbone

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def sample_images(part: str) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    """The shipped CIFAR-10 images, "train" (100 a class) or "test" (50 a class), and their labels.

    >>> images, labels = sample_images("test")
    >>> images.shape, labels[0], labels[-1]
    ((500, 32, 32, 3), np.str_('airplane'), np.str_('truck'))
    """
    with (resources.files("votestream") / "sample" / f"{part}.webp").open("rb") as file:
        sheet = np.asarray(Image.open(file).convert("RGB"))
    per_class = sheet.shape[1] // 32
    images = sheet.reshape(10, 32, per_class, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)
    return images, np.repeat(np.array(CLASSES), per_class)


@register_stream("sample")
def sample_stream(
    seed: int = 0, backbone: Backbone | None = None, tasks: int = 5, test_share: float | None = None, **options: Any
) -> Stream:
    """The 1,500 images that come with the package, as `votestream demo` has them; options as in `stream_from`."""
    test = sample_images("test") if test_share is None else None
    how: dict[str, Any] = {"tasks": tasks, "seed": seed, "backbone": backbone, "name": "sample", **options}
    return stream_from(*sample_images("train"), test=test, test_share=test_share, **how)
