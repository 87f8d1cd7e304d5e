"""Model files: how a learner is written to one, and made from one again."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream._version import __version__
from votestream.core.registry import LEARNERS
from votestream.core.settings import check_settings, frozen_of
from votestream.core.state import State
from votestream.core.tasks import TaskLedger
from votestream.core.tracked import tracker_for
from votestream.io import model_files
from votestream.io.array_checks import check_diverged
from votestream.io.file_header import (
    check_names,
    checked_classes,
    checked_feature_names,
    checked_params,
    checked_unit,
    checked_width,
)
from votestream.io.migrations import upgraded_arrays

if TYPE_CHECKING:
    from votestream.core.learner import Learner

TRACK = "track"  # what names of the track record's arrays begin with


def save(learner: Learner[Any], path: str | os.PathLike[str]) -> None:
    """Write the learner to a file, whole or not at all."""
    with learner.guard.lock:
        model_files.write(path, *parts_of(learner))


def parts_of(learner: Learner[Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of the learner's file, which it checks; the arrays may be the learner's own."""
    if LEARNERS.get(learner.name) is not type(learner):
        raise TypeError(
            f"{type(learner).__name__} is not registered, so a file of it could not be loaded: put "
            "@votestream.register('a_name_of_its_own') before its class"
        )
    with learner.guard.lock:
        learner.check_fitted()
        check_settings(learner)
        arrays = arrays_of(learner)
        check_diverged(arrays)
        return {"version": __version__, **learner.header()}, arrays


def header_of(learner: Learner[Any]) -> dict[str, Any]:
    """All there is to keep that is not an array, fit for JSON."""
    state = learner.state_
    header = {
        "learner": learner.name,
        "params": {name: _plain(value) for name, value in learner.get_params(deep=False).items()},
        "n_features": state.n_features,
        "classes": list(state.numbers),
        "tasks": state.tasks.to_json(),
    }
    if state.feature_names is not None:
        header["feature_names"] = state.feature_names.tolist()
    if state.unit != 1:
        header["unit"] = state.unit
    return header


def arrays_of(learner: Learner[Any]) -> dict[str, NDArray[Any]]:
    """What was learned, and the track record."""
    state = learner.state_
    record = {} if state.tracker is None else model_files.joined({TRACK: state.tracker.state()})
    return {**state.memory.arrays(), **record}


def from_file(
    cls: type[Learner[Any]], header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None
) -> Any:
    """A learner of that class, everything in the file checked."""
    model = cls(**checked_params(cls, header["params"]))
    if device is not None:
        model.set_params(device=device)
    check_settings(model)
    width, numbers = checked_width(header["n_features"], arrays), checked_classes(header["classes"])
    tasks = TaskLedger(int(model.close_task_after))
    tasks.restore(header["tasks"], len(numbers))
    state = State(
        model.new_memory(width),
        tasks,
        width,
        numbers,
        unit=checked_unit(header.get("unit", 1.0)),
        tracker=tracker_for(model, width),
        frozen=frozen_of(model),
    )
    if "feature_names" in header:
        state.feature_names = checked_feature_names(header["feature_names"], width)
    model.take_over(state)
    arrays = upgraded_arrays(arrays)
    record = model_files.part_of(arrays, TRACK)
    own = {name: array for name, array in arrays.items() if not name.startswith(f"{TRACK}.")}
    state.memory.restore(own, len(numbers))
    if state.tracker is not None:
        state.tracker.restore(record, len(numbers))
    check_names(arrays, arrays_of(model))
    return model


def copied(learner: Learner[Any], device: str | None = None) -> Any:
    """Another model like this one, as if saved and loaded, perhaps on another device."""
    with learner.guard.lock:
        learner.check_fitted()
        check_settings(learner)
        arrays = {name: array.copy() for name, array in arrays_of(learner).items()}
        return type(learner).from_file(copy.deepcopy(learner.header()), arrays, device, None)


def _plain(value: Any) -> Any:
    """A constructor's argument as JSON can hold it."""
    if isinstance(value, torch.device):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
