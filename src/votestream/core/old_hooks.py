"""Learners of other packages written for version 0.2: their hooks have other names now. Gone in version 0.4."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import NDArray

from votestream.memory import Memory

# Of 0.2, and today's.
RENAMED = {
    "_learn": "learn",
    "_predictor": "new_predictor",
    "_check_params": "check_params",
    "_check_growth": "check_growth",
    "_check_X": "rows_of",
    "_part_settings": "part_params",
    "_fixed": "fixed_parameters",
    "_why_not": "why_not",
    "_record_fade": "calibration_fade",
    "_test_growth": "test_growth",
    "_working": "derived",
}
OF_NETWORKS = {"_step": "step", "_remember": "remember", "_keep": "keep_rule"}
# What their methods read, and where it is now.
READ = {
    "_index": "state_.numbers",
    "_tasks": "state_.tasks",
    "_unit": "state_.unit",
    "_sorted": "by_class",
    "_query": "query",
    "_now": "prepared",
    "_network": "memory_.network",
    "_memory": "memory_.images",
    "_random": "memory_.random",
    "_captured": "memory_.captured",
    "_device": "memory_.device",
    "_learn_from": "learn_from",
    "_gradient": "gradient",
    "_descend": "descend",
}


def adopt_old_hooks(cls: type[Any]) -> None:
    """Bring a class that has hooks of 0.2 to those of today, with a DeprecationWarning."""
    renamed = RENAMED | OF_NETWORKS if cls.input == "images" else RENAMED
    old = [name for name in renamed if name in vars(cls) and renamed[name] not in vars(cls)]
    keeps_itself = "_begin" in vars(cls) and "_arrays" in vars(cls)
    if not old and not keeps_itself:
        return
    names = [*old, *(["_begin", "_arrays", "_set_arrays"] if keeps_itself else [])]
    warnings.warn(
        f"{cls.__name__} has hooks of version 0.2 ({', '.join(names)}), which work until version 0.4: "
        "docs/migrating.md shows those of today",
        DeprecationWarning,
        stacklevel=3,
    )
    for name in old:
        setattr(cls, renamed[name], vars(cls)[name])
    for name, place in READ.items():
        if name not in vars(cls):
            setattr(cls, name, property(_reader(place)))
    if keeps_itself:
        setattr(cls, "new_memory", lambda self, width: OldMemory(self, width))  # noqa: B010
        setattr(cls, "_fit", _fit_with_attributes)  # noqa: B010


def _reader(place: str) -> Any:
    def read(self: Any) -> Any:
        for name in place.split("."):
            # While a file is read, nothing has been learned yet.
            self = self._state if name == "state_" else self._state.memory if name == "memory_" else getattr(self, name)
        return self

    return read


def _fit_with_attributes(self: Any, X: Any, y: Any, **weights: Any) -> Any:
    """Forget everything, then learn; what such a learner keeps is in its own attributes."""
    fresh = type(self)(**self.get_params(deep=False))
    fresh.partial_fit(X, y, **weights)
    arguments = self.get_params(deep=False).keys() | {"_own_guard"}
    self.__dict__.update({name: value for name, value in vars(fresh).items() if name not in arguments})
    self._state.memory.learner = self
    return self.take_over(self._state)


class OldMemory(Memory):
    """What a learner of 0.2 keeps in attributes of its own."""

    derived = ("learner",)

    def __init__(self, learner: Any, width: int) -> None:
        self.learner = learner
        self.width = width
        for name in ("forget", "join"):
            if hasattr(learner, f"_{name}"):
                setattr(self, name, getattr(learner, f"_{name}"))
        if hasattr(learner, "_merge"):
            self.merge = lambda other, numbers: learner._merge(other.learner, numbers)

    def begin(self, rows: NDArray[Any], unit: float = 1.0) -> None:
        self.learner._begin(rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = self.learner._arrays()
        return found

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.learner._set_arrays(arrays)

    def shared_traits(self) -> dict[str, Any]:
        return {
            name: getattr(self.learner, name) for name in getattr(self.learner, "_merged_alike", ()) if name != "_unit"
        }

    def settle(self) -> None:
        if hasattr(self.learner, "_settle"):
            self.learner._settle()
