"""Backbones from any torch module, frozen and made fast."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from votestream.backbones.backbone import Backbone
from votestream.backbones.networks.folding import fold_batch_norms
from votestream.backbones.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from votestream.backbones.stages import StageFeatures
from votestream.compute.place import torch_threads


def from_module(
    module: nn.Module,
    *,
    input_size: int,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    name: str = "module",
    resize: str = "crop",
    shorter_side: int | None = None,
    interpolation: str = "bicubic",
    feature_scale: float = 1.0,
    device: str = "auto",
    batch_size: int | None = None,
    weights_digest: str | None = None,
) -> Backbone:
    """Make a backbone of any network that turns (n, 3, height, width) into (n, d), or maps that are averaged.

    The module is copied: training it further does not change the backbone. `feature_scale` is 1 unless given;
    `from_module(...).calibrate(images)` computes it from your own images. `weights_digest` is made of the name and the
    module's weights unless given.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        >>> backbone = from_module(network, input_size=16, name="tiny")
        >>> backbone(np.zeros((5, 16, 16, 3), np.uint8)).shape
        (5, 8)
    """
    preprocessing = Preprocessing(
        input_size,
        mean,
        std,
        resize=resize,
        shorter_side=shorter_side,
        interpolation=interpolation,
    )
    network = copy.deepcopy(module).cpu().float().eval().requires_grad_(False)
    staged = network if isinstance(network, StageFeatures) else None
    digest = weights_digest or digest_of_weights(name, (staged.network if staged else network).state_dict())
    # On one thread: for a few images, threads would mostly wait for one another when other programs run.
    with torch_threads(1):
        fast = fold_batch_norms(network, input_size)
        fast = copy.deepcopy(fast) if fast is network else fast
        fast = fast.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return Backbone(
            name,
            fast,
            preprocessing,
            weights_digest=digest,
            feature_scale=feature_scale,
            device=device,
            batch_size=batch_size,
            trainable=network,
            stages=staged.scale_of if staged else None,
        )


def digest_of_weights(network: str, weights: Mapping[str, Tensor]) -> str:
    """sha256 over a network's name and its weights' names, types, shapes and bytes, alike everywhere."""
    digest = hashlib.sha256(f"{network}\n".encode())
    for name in sorted(weights):
        if name.endswith("num_batches_tracked"):
            continue  # counts training steps; no feature depends on it
        values = np.ascontiguousarray(weights[name].detach().cpu().numpy())
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{name} {values.dtype.name} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
