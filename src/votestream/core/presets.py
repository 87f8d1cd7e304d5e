"""Presets: values of a paper that stand in for arguments left at their defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any


def given_or_preset(learner: Any, name: str, values: Mapping[str, Any]) -> Any:
    """An argument of the learner, or with preset="paper" the paper's value where the argument has its default."""
    given, cls = getattr(learner, name), learner.__class__
    return values[name] if learner.preset == "paper" and given == _default(cls, name) else given


@cache
def _default(cls: Any, name: str) -> Any:
    return inspect.signature(cls).parameters[name].default
