"""Images made from images, where they lie: crops, mirror images, CutMix. The caller draws."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def shift_and_flip(images: Tensor, draws: Tensor) -> Tensor:
    """A crop of each image, padded by an eighth (4 of 32 pixels), every other one mirrored; one gather.

    By numbers drawn in [0, 1), (3, n): down, across, mirrored.

    >>> images = torch.arange(4, dtype=torch.uint8).view(1, 2, 2, 1)
    >>> shift_and_flip(images, torch.tensor([[0.5], [0.5], [0.0]]))[0, :, :, 0].tolist()
    [[1, 0], [3, 2]]
    """
    n, size = images.shape[:2]
    pad = size // 8
    top, left = (draws[:2] * (2 * pad + 1)).long()
    pixels = torch.arange(size, device=images.device)
    columns = torch.where(draws[2, :, None] < 0.5, size - 1 - pixels, pixels) + left[:, None]
    rows = pixels + top[:, None]
    padded = F.pad(images, (0, 0, pad, pad, pad, pad))
    return padded[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def brightened(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's photometric versions (Castro et al., 2018), by numbers drawn, (2, n): a third of the images as they are,
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


def cut_and_mixed(pixels: Tensor, draws: Tensor, chance: float) -> tuple[Tensor, Tensor]:
    """CutMix (Yun et al., 2019): one box of every image (n, 3, size, size) is that of the one before; its share.

    By four numbers drawn in [0, 1): whether to mix, which happens with this chance, and the box.
    """
    size = pixels.shape[-1]
    top, bottom, left, right = box(size, draws[1:]) * (draws[0] < chance)
    place = torch.arange(size, device=pixels.device)
    inside = ((place >= top) & (place < bottom))[:, None] & ((place >= left) & (place < right))
    return torch.where(inside, pixels.roll(1, 0), pixels), (bottom - top) * (right - left) / size**2


def box(size: int, draws: Tensor) -> Tensor:
    """Top, bottom, left, right: the area uniform in what it could be (alpha = 1), the middle anywhere, cut at edges.

    >>> box(32, torch.tensor([0.25, 0.5, 0.0])).tolist()
    [8.0, 24.0, 0.0, 8.0]
    """
    area, y, x = draws
    half = size * area.sqrt() / 2
    edges = torch.stack((size * y - half, size * y + half, size * x - half, size * x + half))
    return edges.round().clamp(0, size)
