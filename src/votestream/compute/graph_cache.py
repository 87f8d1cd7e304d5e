"""CUDA graphs: work on a GPU that recurs in the same shapes is captured once, then replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Calls before one is captured: handles are made and kernels loaded by then, and rare shapes never come so far.
PLAIN = 3
MOST = 16  # graphs held; each holds the memory that its step takes on the device


class GraphCache:
    """Calls functions of tensors; on a GPU, those called often with the same shapes run as CUDA graphs.

    A training step of a small network on ten images is hundreds of kernels, each shorter than its launch; a graph is
    one launch for all of them. A function may depend only on the tensors it is given and on tensors that stay at their
    address; it may change them in place. `clear` the graphs when anything else changes, such as the size of the head.
    What a function returns is valid until it is called again. On a CPU, functions are simply called. So are functions
    that synchronise with the GPU, which a graph cannot capture.

    >>> captured = GraphCache()
    >>> captured(torch.add, torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], int] = {}
        self._graphs: dict[tuple[Any, ...], _Graph] = {}
        self._synchronising: set[tuple[Any, ...]] = set()
        self._settings: Any = None

    def __call__(self, function: Callable[..., Any], *tensors: Tensor) -> Any:
        if tensors[0].device.type != "cuda":
            return function(*tensors)
        key = (function.__name__, *((tensor.shape, tensor.dtype) for tensor in tensors))
        if key in self._synchronising:
            return function(*tensors)
        if key not in self._graphs:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] < PLAIN:
                return function(*tensors)
            if self._calls[key] == PLAIN:
                returned, waited = _watched(function, tensors)
                if waited:
                    self._synchronising.add(key)
                return returned
            if len(self._graphs) == MOST:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = _Graph(function, tensors)
        return self._graphs[key].play(tensors)

    def under(self, settings: Any) -> None:
        """Clear what was captured under other settings."""
        if settings != self._settings:
            self.clear()
            self._settings = settings

    def clear(self) -> None:
        self._calls.clear()
        self._graphs.clear()
        self._synchronising.clear()

    def __reduce__(self) -> tuple[type[GraphCache], tuple[()]]:
        return GraphCache, ()  # a copy captures anew: graphs hold the tensors of the original


class _Graph:
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
