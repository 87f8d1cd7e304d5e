"""The influence of each place of an image: its features if one place of the network's maps counted twice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.backbones.backbone import Backbone, exact
from votestream.backbones.stages import PARTS, StageFeatures

Part = tuple[Tensor, str, float]  # a map (d, height, width), which part of it is averaged, what that is divided by


class Places(NamedTuple):
    """`twice` has a row of features for each place, row by row of the image: (height * width, feature_dim)."""

    features: NDArray[np.float32]  # as the backbone gives them
    twice: NDArray[np.float32]
    shape: tuple[int, int]


def counted_twice(backbone: Backbone, prepared: NDArray[np.uint8]) -> Places | None:
    """Compute the features of one prepared image, and these features with one place counted twice in every mean.

    This is exact for features that are means over maps; the result is None for other networks. Places are
    those of the smallest map. With several views, a place counts twice in each view.

    Example:
        >>> from votestream.backbones import create_backbone
        >>> backbone = create_backbone("reduced_resnet18", device="cpu")
        >>> places = counted_twice(backbone, backbone.prepare(np.eye(32, dtype=np.uint8)[..., None].repeat(3, 2)))
        >>> places.shape, places.twice.shape, bool(abs(places.twice.mean(0) - places.features).max() < 1e-4)
        ((4, 4), (16, 160), True)
    """
    views = [view for way in backbone._ways for view in backbone.views if view.size == way.input_size]
    twice: list[Tensor] = []
    shape: tuple[int, int] | None = None
    with torch.inference_mode(), exact(backbone.device):
        for view, x in zip(views, backbone._network_inputs(prepared[None]), strict=True):
            parts = _parts(backbone, x)
            if parts is None:
                return None
            shape = shape or min(((found.shape[1], found.shape[2]) for found, _, _ in parts), key=lambda s: s[0] * s[1])
            upright = [(found.flip(2) if view.mirrored else found, part, scale) for found, part, scale in parts]
            twice.append(torch.cat([_twice(*part, shape) for part in upright], 1))
    if shape is None or shape[0] * shape[1] < 2:
        return None
    rows = torch.stack(twice).mean(0).float().div(backbone.feature_scale).cpu().numpy()
    features = backbone.of_prepared(prepared[None])[0]
    if not np.allclose(rows[-1], features, rtol=1e-3, atol=1e-3 * float(np.abs(features).max())):
        return None  # the network does more to its maps than to average them
    return Places(features, rows[:-1], shape)


def _parts(backbone: Backbone, x: Tensor) -> list[Part] | None:
    """The maps that the features are means of."""
    network = backbone.network
    if isinstance(network, StageFeatures):
        maps = network.network.maps(x)  # type: ignore[operator]
        names = [(*stage.partition(":")[::2], scale) for stage, scale in network.scale_of.items()]
        return [(maps[name][0], part, scale) for name, part, scale in names]
    if hasattr(network, "maps"):
        return [(list(network.maps(x).values())[-1][0], "", 1.0)]
    output = network(x)
    return [(output[0], "", 1.0)] if isinstance(output, Tensor) and output.ndim == 4 else None


def _twice(found: Tensor, part: str, scale: float, shape: tuple[int, int]) -> Tensor:
    """The mean of a part of a map with one place counted twice, for each place; last, the mean itself."""
    height, width = shape
    rows = torch.arange(found.shape[1], device=found.device) * height // found.shape[1]
    columns = torch.arange(found.shape[2], device=found.device) * width // found.shape[2]
    places = (rows[:, None] * width + columns).expand(1, 1, -1, -1)
    inside, flat = PARTS[part](places).reshape(-1), PARTS[part](found[None]).reshape(len(found), -1).T
    sums = flat.new_zeros(height * width + 1, len(found)).index_add_(0, inside, flat)
    counts = torch.bincount(inside, minlength=height * width + 1)
    return (flat.sum(0) + sums) / (len(flat) + counts)[:, None] / scale
