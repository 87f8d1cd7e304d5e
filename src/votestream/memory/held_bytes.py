"""How much memory a model takes, whatever classes it is made of."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

NO_DATA = (type, types.FunctionType, types.MethodType, types.ModuleType)


def held_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Bytes of the arrays, tensors and random states reachable from `value`, each memory once.

    >>> table = np.zeros((10, 2), np.float32)
    >>> held_bytes({"all": table, "some": [table[:3]]})
    80
    """
    seen = set() if seen is None else seen
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        address, size = value.ctypes.data, value.nbytes
    elif isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    elif isinstance(value, torch.Generator):
        address, size = id(value), value.get_state().numel()
    elif isinstance(value, torch.nn.Module):
        return held_bytes([*value.parameters(), *value.buffers()], seen)
    elif isinstance(value, (str, bytes, int, float, *NO_DATA)) or value is None or id(value) in seen:
        return 0
    else:
        seen.add(id(value))
        return sum(held_bytes(part, seen) for part in _parts_of(value))
    if address in seen:
        return 0
    seen.add(address)
    found: int = size
    return found


def _parts_of(value: Any) -> list[Any]:
    """What a container or an object of any class holds."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]
