"""A learner's settings: constructor arguments, given or set since, checked or taken from a paper's preset."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any


def check_settings(learner: Any) -> None:
    """Complain about what is wrong, or may not be changed any more; settings checked last are not checked again."""
    values = tuple([learner.__dict__[name] for name in _argument_names(learner.__class__)])
    if values == learner._guard.checked:
        return
    learner._check_params()
    for name in learner._never_changed() if learner._is_fitted() else ():
        if getattr(learner, name) != learner._began[name]:
            raise ValueError(
                f"{name} was {learner._began[name]!r} when learning began and cannot be changed to "
                f"{getattr(learner, name)!r} now; set it back, or teach a new model"
            )
    learner._guard.checked = values


def given_or_preset(learner: Any, name: str, values: Mapping[str, Any]) -> Any:
    """An argument of the learner, or with preset="paper" the paper's value where the argument has its default."""
    given, cls = getattr(learner, name), learner.__class__
    return values[name] if learner.preset == "paper" and given == _default(cls, name) else given


@cache
def _argument_names(cls: Any) -> list[str]:
    names: list[str] = cls._get_param_names()
    return names


@cache
def _default(cls: Any, name: str) -> Any:
    return inspect.signature(cls).parameters[name].default
