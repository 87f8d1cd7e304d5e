"""Constructor arguments of 0.1.0 under their old names; gone in the version after 0.2."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

RENAMED = {"young": "close_task_after", "room": "max_waiting"}


def with_new_names(given: dict[str, Any], stacklevel: int = 3) -> dict[str, Any]:
    """Arguments by their names of today, with a DeprecationWarning for each old one.

    >>> with_new_names({"seed": 1})
    {'seed': 1}
    """
    for old in RENAMED.keys() & given.keys():
        warnings.warn(f"{old} is now {RENAMED[old]}", DeprecationWarning, stacklevel=stacklevel)
    return {RENAMED.get(name, name): value for name, value in given.items()}


def taking_old_names(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that takes the old names too; one that has such an argument of its own stays as it is."""
    if RENAMED.keys() & inspect.signature(init).parameters.keys():
        return init

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **(with_new_names(kwargs) if RENAMED.keys() & kwargs.keys() else kwargs))

    return constructor
