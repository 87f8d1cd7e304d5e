"""A learner's constructor arguments: checked before they are used, or taken from a paper's preset."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from votestream.common.parameters import Ranges

if TYPE_CHECKING:
    from votestream.core.learner import Learner


def settings_of(learner: Learner[Any]) -> tuple[Any, ...]:
    """The values of all constructor arguments."""
    cls: Any = learner.__class__
    return tuple([learner.__dict__[name] for name in argument_names(cls)])


def check_settings(learner: Learner[Any]) -> None:
    """Raise a ValueError for a value that is wrong, or that may not change any more; the values checked last pass."""
    values = settings_of(learner)
    if values == learner.guard.checked:
        return
    learner.check_params()
    if learner.fitted:
        for name, began in learner.state_.frozen.items():
            if getattr(learner, name, began) != began:
                raise ValueError(
                    f"{name} was {began!r} when learning began and cannot be changed to "
                    f"{getattr(learner, name)!r} now; set it back, or begin a new model"
                )
        learner.params_changed()
    learner.guard.checked = values


def frozen_of(learner: Learner[Any]) -> dict[str, Any]:
    """The arguments that cannot change once learning has begun, as they are now."""
    names = (*learner.fixed_parameters, "track") if hasattr(learner, "track") else learner.fixed_parameters
    return {name: getattr(learner, name) for name in names}


def ranges_of(learner: Learner[Any]) -> Ranges:
    """What each constructor argument may be, by `parameter_ranges` of its class and of those that this extends."""
    cls: Any = learner.__class__
    return _ranges(cls)


@cache
def _ranges(cls: Any) -> Ranges:
    ranges: Ranges = {}
    for base in reversed(cls.__mro__):
        ranges.update(vars(base).get("parameter_ranges", {}))
    names = argument_names(cls)
    return {name: allowed for name, allowed in ranges.items() if name in names}


def given_or_preset(learner: Any, name: str, values: Mapping[str, Any]) -> Any:
    """An argument of the learner, or with preset="paper" the paper's value where the argument has its default."""
    given, cls = getattr(learner, name), learner.__class__
    return values[name] if learner.preset == "paper" and given == _default(cls, name) else given


@cache
def argument_names(cls: Any) -> tuple[str, ...]:
    """The names of the constructor's arguments, sorted."""
    init = inspect.signature(cls.__init__).parameters.values()
    return tuple(sorted(one.name for one in init if one.name != "self" and one.kind is one.POSITIONAL_OR_KEYWORD))


@cache
def _default(cls: type[Any], name: str) -> Any:
    return inspect.signature(cls).parameters[name].default
