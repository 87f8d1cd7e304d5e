"""Small images and networks, made here: the tests read nothing from outside."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from votestream.backbones import Backbone, from_module


def random_images(n: int, height: int = 32, width: int = 32, seed: int = 0) -> np.ndarray:
    """Smooth coloured images: random ones of a few pixels, enlarged."""
    coarse = np.random.default_rng(seed).integers(0, 256, (n, 4, 4, 3))
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    return coarse[:, rows][:, :, columns].astype(np.uint8)


def shuffle_batch_norms(network: nn.Module, seed: int = 0) -> nn.Module:
    """Give batch norms the uneven statistics of a trained network; fresh ones would hide errors."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values in (module.weight, module.running_var):
                values.data.uniform_(0.5, 1.5, generator=generator)
            for values in (module.bias, module.running_mean):
                values.data.normal_(0, 0.2, generator=generator)
    return network


def tiny_backbone() -> Backbone:
    """16 x 16 pixels to 8 features, the same every time."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
    return from_module(shuffle_batch_norms(network), input_size=16, name="tiny", device="cpu")
