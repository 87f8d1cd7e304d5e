"""Work on a GPU that is asked for again and again in the same shapes: recorded once, then replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Calls before one is recorded: handles are made and kernels loaded by then, and rare shapes never come so far.
PLAIN = 3
MOST = 16  # recordings held; each holds what its step takes on the device


class Replayed:
    """Calls functions of tensors; on a GPU, those called often with the same shapes as CUDA graphs.

    A step of a small network on ten images is hundreds of kernels, each shorter than its launch; a graph is one
    launch for all of them. What a function does must follow from the tensors it is given and from what stays where it
    is; changes in place are welcome. `forget` the recordings when anything else changes, such as the size of the head.
    What a function returns holds until it is called again. On a CPU, functions are simply called, and so are those on
    a GPU that wait for it, for a number they go by: a graph cannot.

    >>> again = Replayed()
    >>> again(torch.add, torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], int] = {}
        self._recordings: dict[tuple[Any, ...], _Recording] = {}
        self._waiting: set[tuple[Any, ...]] = set()
        self._settings: Any = None

    def __call__(self, function: Callable[..., Any], *tensors: Tensor) -> Any:
        if tensors[0].device.type != "cuda":
            return function(*tensors)
        key = (function.__name__, *((tensor.shape, tensor.dtype) for tensor in tensors))
        if key in self._waiting:
            return function(*tensors)
        if key not in self._recordings:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] < PLAIN:
                return function(*tensors)
            if self._calls[key] == PLAIN:
                returned, waited = _watched(function, tensors)
                if waited:
                    self._waiting.add(key)
                return returned
            if len(self._recordings) == MOST:
                del self._recordings[next(iter(self._recordings))]
            self._recordings[key] = _Recording(function, tensors)
        return self._recordings[key].play(tensors)

    def under(self, settings: Any) -> None:
        """Forget what was recorded under other settings."""
        if settings != self._settings:
            self.forget()
            self._settings = settings

    def forget(self) -> None:
        self._calls.clear()
        self._recordings.clear()
        self._waiting.clear()

    def __reduce__(self) -> tuple[type[Replayed], tuple[()]]:
        return Replayed, ()  # a copy records anew: recordings are about the tensors of the original


class _Recording:
    """A CUDA graph of one call, with tensors of its own to read from."""

    def __init__(self, function: Callable[..., Any], tensors: tuple[Tensor, ...]) -> None:
        self._tensors = [tensor.clone() for tensor in tensors]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):  # nothing is done yet
            self._returned = function(*self._tensors)

    def play(self, tensors: tuple[Tensor, ...]) -> Any:
        torch._foreach_copy_(self._tensors, tensors)
        self._graph.replay()
        return self._returned


def _watched(function: Callable[..., Any], tensors: tuple[Tensor, ...]) -> tuple[Any, bool]:
    """What the function returns, and whether it waited for the GPU on the way."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            returned = function(*tensors)
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    return returned, any("synchronizing CUDA operation" in str(one.message) for one in found)
