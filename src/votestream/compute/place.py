"""Where arrays live: NumPy computes on the CPU, torch on a GPU, by the same lines of code.

Steps on batches of ten are bound by the cost of a call, which is smaller in NumPy than in torch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from votestream.common.validation import as_device

ONE_THREAD = 1 << 18  # multiplications that OpenBLAS does not spread
PIECE = 1 << 14  # elements that torch converts on one thread
Array = Any  # np.ndarray on the CPU, torch.Tensor on a GPU

# What the two do not call by the same name or method; all take `axis=` and `keepdims=`.
# The reductions are the bare ufuncs: np.max and its like cost twice as much on small arrays.
NUMPY = SimpleNamespace(
    amax=np.maximum.reduce,
    amin=np.minimum.reduce,
    sum=np.add.reduce,
    exp=np.exp,
    sqrt=np.sqrt,
    cos=np.cos,
    tanh=np.tanh,
    arange=np.arange,
    concatenate=np.concatenate,
)
TORCH = SimpleNamespace(
    amax=torch.amax,
    amin=torch.amin,
    sum=torch.sum,
    exp=torch.exp,
    sqrt=torch.sqrt,
    cos=torch.cos,
    tanh=torch.tanh,
    arange=torch.arange,
    concatenate=torch.cat,
)


def library_of(array: Array) -> SimpleNamespace:
    return NUMPY if isinstance(array, np.ndarray) else TORCH


def as_float64(array: Array) -> Array:
    return array.astype(np.float64) if isinstance(array, np.ndarray) else array.double()


_LIMITING = threading.Lock()
_TORCH = threading.local()  # `number`: torch's threads in this thread, inside `torch_threads`
_TORCH_INSIDE = SimpleNamespace(lock=threading.Lock(), count=0, usual=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS does what is inside on one thread.

    For products and decompositions of a fraction of a millisecond: a second thread hardly helps, and has to be waited
    for many times as long when other programs keep the cores busy. Entering takes a hundredth of a millisecond, too
    long for a step on ten rows: those use `small_product`.

    The number of threads belongs to the whole process, so one thread of ours at a time sets it and puts it back; who
    comes meanwhile goes on with what it finds. So nothing is left behind, in whatever order they leave.

    >>> with one_thread():
    ...     product = np.ones((2, 3)) @ np.ones((3, 2))
    """
    lock = _LIMITING
    if not lock.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        lock.release()


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """torch has so many threads for what is inside, and for whatever thread is started meanwhile.

    Several threads may be inside at once, and leave in any order: who leaves gets back what it had outside, or what
    was usual before the first came.
    """
    outside = getattr(_TORCH, "number", None)
    with _TORCH_INSIDE.lock:
        if not _TORCH_INSIDE.count:
            _TORCH_INSIDE.usual = torch.get_num_threads()
        _TORCH_INSIDE.count += 1
    torch.set_num_threads(number)
    _TORCH.number = number
    try:
        yield
    finally:
        _TORCH.number = outside
        with _TORCH_INSIDE.lock:
            _TORCH_INSIDE.count -= 1
            torch.set_num_threads(outside or _TORCH_INSIDE.usual)


def _renew_locks() -> None:
    """In a forked process, which has none of the other threads: nobody would ever release what they hold."""
    global _LIMITING
    _LIMITING, _TORCH_INSIDE.lock = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_locks)


@cache
def _blas() -> ThreadpoolController:
    import_module("scipy.linalg")  # it brings a BLAS of its own, which would not be seen if it came later
    return ThreadpoolController().select(user_api="blas")


def small_product(A: Array, B: Array) -> Array:
    """A @ B for a step on few rows, on one thread.

    OpenBLAS spreads a product over threads from about a quarter of a million multiplications on. Waking a
    thread takes about as long as such a product, and far longer while other programs keep the cores busy;
    so larger ones are done in pieces, unless the pieces would be slivers.
    """
    rows = ONE_THREAD // (B.shape[0] * B.shape[1])
    if not isinstance(A, np.ndarray) or len(A) <= rows or rows < 4:
        return A @ B
    result, whole = np.empty((len(A), B.shape[1]), A.dtype), len(A) // rows * rows
    np.matmul(A[:whole].reshape(-1, rows, len(B)), B, out=result[:whole].reshape(-1, rows, B.shape[1]))
    np.matmul(A[whole:], B, out=result[whole:])
    return result


def converted(table: NDArray[Any], dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """By torch, in a tenth of NumPy's time from and to float16; in pieces that torch does not spread over threads,
    which take very long to meet again while other programs keep the cores busy.

    >>> converted(np.array([0.1], np.float32), np.float16)
    array([0.1], dtype=float16)
    """
    result = np.empty(table.shape, dtype)
    old, new = table.reshape(-1), result.reshape(-1)
    for start in range(0, old.size, PIECE):
        torch.from_numpy(new[start : start + PIECE]).copy_(torch.from_numpy(old[start : start + PIECE]))
    return result


def stacked(parts: Sequence[NDArray[Any]], length: int) -> NDArray[np.float32]:
    """Arrays of at most this length as one in float32, (k, length, ...), filled up with zeros.

    >>> stacked([np.ones(2), np.ones(1)], 2).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    rows = converted(np.concatenate(parts), np.float32)
    if len(rows) == len(parts) * length:
        return rows.reshape(len(parts), length, *rows.shape[1:])
    held = np.arange(length) < np.array([len(part) for part in parts])[:, None]
    table = np.zeros((*held.shape, *rows.shape[1:]), np.float32)
    table[held] = rows
    return table


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
        found: NDArray[Any] = array if self._here else array.cpu().numpy()
        return found
