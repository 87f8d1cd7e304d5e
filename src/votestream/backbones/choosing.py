"""Which of the networks that come with the package suits images of a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from votestream.images.measure import usual_side

SMALL = 64  # pixels of the shorter side, up to which an image says little more than what 32 x 32 pixels show
FOR_SMALL, FOR_PHOTOS = "reduced_resnet18", "efficientnet_lite0"


class Choice(NamedTuple):
    """A backbone's name, why it is that one, and the stages that suit class Gaussians best (None: its own output).

    The stages were chosen with GaussianVoting (`looks.py`); learners with one covariance for all classes do better with
    the network's output.
    """

    name: str
    reason: str
    stages: str | None = None


def choose_backbone(images: np.ndarray | Sequence[Any]) -> Choice:
    """The backbone for images such as these, by the size that half of them have at least.

    >>> choose_backbone(np.zeros((3, 480, 640, 3), np.uint8)).reason
    'the images have 480 pixels on their shorter side, more than 64'
    """
    side = usual_side(images)
    if side is None:
        return Choice(FOR_PHOTOS, "the size of the images could not be told", "quick")
    told = f"the images have {side} pixels on their shorter side"
    if side > SMALL:
        return Choice(FOR_PHOTOS, f"{told}, more than {SMALL}", "quick")
    return Choice(FOR_SMALL, f"{told}, at most {SMALL}")
