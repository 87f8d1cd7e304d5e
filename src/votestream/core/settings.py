"""A learner's constructor arguments: checked before they are used, or taken from a paper's preset."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from votestream.common.parameters import Ranges


def settings_of(learner: Any) -> tuple[Any, ...]:
    """The values of all constructor arguments."""
    return tuple([learner.__dict__[name] for name in _argument_names(learner.__class__)])


def check_settings(learner: Any) -> None:
    """Raise a ValueError for a value that is wrong, or that may not change any more; the values checked last pass."""
    values = settings_of(learner)
    if values == learner._guard.checked:
        return
    learner._check_params()
    for name in learner._never_changed() if learner._is_fitted() else ():
        if getattr(learner, name) != learner._began[name]:
            raise ValueError(
                f"{name} was {learner._began[name]!r} when learning began and cannot be changed to "
                f"{getattr(learner, name)!r} now; set it back, or begin a new model"
            )
    learner._guard.checked = values


def ranges_of(learner: Any) -> Ranges:
    """What each constructor argument may be, by `parameter_ranges` of its class and of those that this extends."""
    return _ranges(learner.__class__)


@cache
def _ranges(cls: Any) -> Ranges:
    ranges: Ranges = {}
    for base in reversed(cls.__mro__):
        ranges.update(vars(base).get("parameter_ranges", {}))
    names = _argument_names(cls)
    return {name: allowed for name, allowed in ranges.items() if name in names}


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
