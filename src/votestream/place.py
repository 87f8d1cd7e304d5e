"""Where arrays live: NumPy computes on the CPU, torch on a GPU, by the same lines of code.

Steps on batches of ten are bound by the cost of a call, and NumPy's is a third of torch's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.validation import as_device

Array = Any  # np.ndarray on the CPU, torch.Tensor on a GPU

# What the two do not call by the same name or method; all take `axis=` and `keepdims=`.
# The reductions are the bare ufuncs: np.max and its like cost twice as much on small arrays.
NUMPY = SimpleNamespace(
    amax=np.maximum.reduce,
    amin=np.minimum.reduce,
    sum=np.add.reduce,
    exp=np.exp,
    sqrt=np.sqrt,
    arange=np.arange,
    concatenate=np.concatenate,
)
TORCH = SimpleNamespace(
    amax=torch.amax,
    amin=torch.amin,
    sum=torch.sum,
    exp=torch.exp,
    sqrt=torch.sqrt,
    arange=torch.arange,
    concatenate=torch.cat,
)


def library_of(array: Array) -> SimpleNamespace:
    return NUMPY if isinstance(array, np.ndarray) else TORCH


class Place:
    """A device, and the way of arrays there and back.

    >>> place = Place("cpu")
    >>> place.get(place.put(np.array([1, 2]))).tolist()
    [1, 2]
    """

    def __init__(self, device: str) -> None:
        self.device = as_device(device)
        self._here = self.device.type == "cpu"

    def put(self, array: NDArray[Any]) -> Array:
        """The array, over there; on the CPU that is here, and nothing is copied."""
        return array if self._here else torch.from_numpy(array).to(self.device)

    def get(self, array: Array) -> NDArray[Any]:
        return array if self._here else array.cpu().numpy()
