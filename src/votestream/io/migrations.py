"""Model files of older formats, brought to the newest one when they are read."""

from __future__ import annotations

from typing import Any

FORMAT = 2  # of the files that are written


def upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """The header as this version writes it.

    Format 1 (0.1.0) called `close_task_after` "young" and `max_waiting` "room".

    >>> upgraded({"format": 1, "params": {"young": 20}, "tasks": {"young": 20, "_told": None}})
    {'format': 1, 'params': {'close_task_after': 20}, 'tasks': {'close_after': 20, '_named': None}}
    """
    if header["format"] > 1:
        return header
    names = {
        "params": {"young": "close_task_after", "room": "max_waiting"},
        "tasks": {"young": "close_after", "_told": "_named"},
    }
    new = {key: _renamed(value, names.get(key, {})) for key, value in header.items()}
    if isinstance(new.get("inner"), dict):  # the learner behind a backbone
        new["inner"] = {key: _renamed(value, names.get(key, {})) for key, value in new["inner"].items()}
    return new


def _renamed(part: Any, names: dict[str, str]) -> Any:
    return {names.get(key, key): value for key, value in part.items()} if names and isinstance(part, dict) else part
