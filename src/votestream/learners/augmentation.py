"""Pictures made from pictures, where they lie: crops, mirror images, CutMix. What is drawn is drawn on the host."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def shifted_and_flipped(images: Tensor, random: torch.Generator) -> Tensor:
    """A random crop of each picture, padded by an eighth (4 of 32 pixels), every other one mirrored; one gather.

    >>> images = torch.arange(4, dtype=torch.uint8).view(1, 2, 2, 1)
    >>> shifted_and_flipped(images, torch.Generator().manual_seed(0))[0, :, :, 0].tolist()
    [[1, 0], [3, 2]]
    """
    return shift_and_flip(images, torch.rand(3, len(images), generator=random).to(images.device, non_blocking=True))


def shift_and_flip(images: Tensor, draws: Tensor) -> Tensor:
    """The same by numbers in [0, 1) already drawn, (3, n): down, across, mirrored."""
    n, size = images.shape[:2]
    pad = size // 8
    top, left = (draws[:2] * (2 * pad + 1)).long()
    pixels = torch.arange(size, device=images.device)
    columns = torch.where(draws[2, :, None] < 0.5, size - 1 - pixels, pixels) + left[:, None]
    rows = pixels + top[:, None]
    padded = F.pad(images, (0, 0, pad, pad, pad, pad))
    return padded[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def brightened(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's photometric versions (Castro et al., 2018), by numbers drawn, (2, n): a third of the pictures as they are,
    a third brighter or darker by up to 63, a third with 0.2 to 1.8 times their contrast.

    >>> images = torch.full((3, 1, 1, 1), 100, dtype=torch.uint8)
    >>> brightened(images, torch.tensor([[0.0, 0.4, 0.9], [0.0, 0.0, 0.0]])).flatten().tolist()
    [100, 37, 100]
    """
    kind, how = (draws[:, :, None, None, None] * 3).unbind(0)
    values = images.float()
    mean = values.mean((1, 2, 3), keepdim=True)
    shifted = values + (how / 3 * 126 - 63)
    stretched = mean + (values - mean) * (0.2 + how / 3 * 1.6)
    chosen = torch.where(kind < 1, values, torch.where(kind < 2, shifted, stretched))
    return chosen.round().clamp(0, 255).to(torch.uint8)


def cut_and_mixed(images: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """CutMix (Yun et al., 2019): one box of every picture is another's; whose, and which share of the picture."""
    size = images.shape[1]
    other = torch.randperm(len(images), generator=random).to(images.device, non_blocking=True)
    top, bottom, left, right = box(size, random)
    mixed = images.clone()
    mixed[:, top:bottom, left:right] = images[other, top:bottom, left:right]
    return mixed, other, (bottom - top) * (right - left) / size**2


def box(size: int, random: torch.Generator) -> tuple[int, int, int, int]:
    """Top, bottom, left, right: the area uniform in what it could be (alpha = 1), the middle anywhere, cut at edges."""
    area, y, x = torch.rand(3, generator=random).tolist()
    half = size * math.sqrt(area) / 2
    top, bottom = (min(max(round(size * y + side), 0), size) for side in (-half, half))
    left, right = (min(max(round(size * x + side), 0), size) for side in (-half, half))
    return top, bottom, left, right
