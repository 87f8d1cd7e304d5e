"""The default backbone for images of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from votestream.images.measure import usual_side

SMALL = 64  # pixels of the shorter side; up to here 32 x 32 pixels hold nearly all of an image's content
FOR_SMALL, FOR_PHOTOS = "reduced_resnet18", "efficientnet_lite0"


class Choice(NamedTuple):
    """The name of a backbone, the reason for it, and the stages that suit GaussianVoting (None: its own output).

    The stages were chosen with GaussianVoting (see `presets`); learners with one covariance for all classes are more
    accurate with the network's output.
    """

    name: str
    reason: str
    stages: str | None = None


def choose_backbone(images: np.ndarray | Sequence[Any]) -> Choice:
    """Choose the backbone for images like these, by the size that at least half of them have.

    >>> choose_backbone(np.zeros((3, 480, 640, 3), np.uint8)).reason
    'the images have 480 pixels on their shorter side, more than 64'
    """
    side = usual_side(images)
    if side is None:
        return Choice(FOR_PHOTOS, "the size of the images could not be read", "quick")
    size = f"the images have {side} pixels on their shorter side"
    if side > SMALL:
        return Choice(FOR_PHOTOS, f"{size}, more than {SMALL}", "quick")
    return Choice(FOR_SMALL, f"{size}, at most {SMALL}")
