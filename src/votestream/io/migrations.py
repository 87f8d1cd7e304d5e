"""Model files of older formats, brought to the newest one when they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = 3  # of the files that are written
# Old names of entries and the newest ones, by the part of the header that holds them.
RENAMED = {
    1: {  # 0.1.0
        "params": {"young": "close_task_after", "room": "max_waiting"},
        "tasks": {"young": "close_after", "_told": "_named"},
    },
    2: {"tasks": {"_named": "named", "_clock": "clock", "_last_seen": "last_seen", "_blocks": "blocks"}},  # 0.2.0
}

OLD_DISTANCES = "track.strangeness."


def upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """The header as this version writes it.

    >>> upgraded({"format": 1, "params": {"young": 20}, "tasks": {"young": 20, "_told": None}})
    {'format': 1, 'params': {'close_task_after': 20}, 'tasks': {'close_after': 20, 'named': None}}
    """
    for version in range(header["format"], FORMAT):
        header = _upgraded_once(header, RENAMED[version])
    return header


def upgraded_arrays(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays as this version names them.

    The newest distances of a track record of 0.2.0 are on another scale, so this version's begin anew.
    """
    new = {name: array for name, array in arrays.items() if not name.startswith(OLD_DISTANCES)}
    for name in arrays.keys() - new.keys():
        part = name.removeprefix(OLD_DISTANCES)
        new |= {f"track.{scores}.{part}": np.zeros_like(arrays[name]) for scores in ("ood", "left_out")}
    return new


def _upgraded_once(header: dict[str, Any], names: dict[str, dict[str, str]]) -> dict[str, Any]:
    new = {key: _renamed(value, names.get(key, {})) for key, value in header.items()}
    for key in ("inner", "base"):  # the learner behind a backbone, and the model that a journal begins with
        if isinstance(new.get(key), dict):
            new[key] = _upgraded_once(new[key], names)
    return new


def _renamed(part: Any, names: dict[str, str]) -> Any:
    return {names.get(key, key): value for key, value in part.items()} if names and isinstance(part, dict) else part
