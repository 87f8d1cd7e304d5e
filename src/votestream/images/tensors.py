"""Torch tensors as images: recognised without importing torch, made into uint8 arrays with the channels last."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from votestream.images.files import ImageError

CHANNELS = (1, 3, 4)
HALF_A_GREY = 0.5 / 255  # floats may be outside 0 to 1 by this much: resizing rounds


def is_tensor(thing: Any) -> bool:
    """Whether this is a torch tensor; without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def tensor_pixels(tensor: Any, name: str) -> np.ndarray:
    """The pixels of a tensor of one image or several, the channels last; floats from 0 to 1 become uint8.

    Channels stand first (torch's way) or last, whichever of the two axes has 1, 3 or 4 of them. (3, height, width) is
    one image. Where neither axis has, the shape stays: grey images.

    >>> import torch
    >>> tensor_pixels(torch.ones(2, 3, 8, 6), "the tensor").shape
    (2, 8, 6, 3)
    >>> tensor_pixels(torch.zeros(3, 8, 3), "the tensor")
    Traceback (most recent call last):
    ...
    votestream.images.files.ImageError: the tensor has shape (3, 8, 3), whose channels may stand first or last: \
give a NumPy array, whose channels are taken to stand last.
    """
    shape = tuple(tensor.shape)
    floats = tensor.is_floating_point()
    if len(shape) == 2 and floats:
        raise ImageError(
            f"{name} holds floats of shape {shape}, which may be features (n, D) as well as an image: pass features to "
            "partial_fit_features or predict_features, one grey image as (1, height, width)."
        )
    if len(shape) in (3, 4):
        first, last = shape[-3] in CHANNELS, shape[-1] in CHANNELS
        if first and last:
            raise ImageError(
                f"{name} has shape {shape}, whose channels may stand first or last: give a NumPy array, whose "
                "channels are taken to stand last."
            )
        if first:
            tensor = tensor.movedim(-3, -1)
    tensor = _here(tensor.detach(), name)
    if not floats:
        return np.asarray(tensor)  # dtypes that are no pixels are refused as those of arrays are
    pixels = np.empty(tuple(tensor.shape), np.uint8)
    if len(shape) != 4:
        pixels[...] = _grey_levels(tensor, name)
    else:  # one by one: as floats they take four times the memory
        for row, image in enumerate(tensor):
            pixels[row] = _grey_levels(image, f"image {row} of {name}")
    return pixels


def _here(tensor: Any, name: str) -> Any:
    try:
        return tensor.cpu().resolve_conj().resolve_neg()
    except (RuntimeError, NotImplementedError):
        raise ImageError(f"{name} is on the device {tensor.device}, where there are no pixels to be read.") from None


def _grey_levels(tensor: Any, name: str) -> np.ndarray:
    values = tensor.float().numpy()
    if values.size:
        low, high = float(values.min()), float(values.max())
        if not (low >= -HALF_A_GREY and high <= 1 + HALF_A_GREY):
            raise ImageError(
                f"{name} holds floats from {low:.3g} to {high:.3g}: floats must lie from 0 to 1, as before any "
                "Normalize, which backbones do themselves; or give uint8 from 0 to 255."
            )
    return np.rint(values * 255).clip(0, 255)
