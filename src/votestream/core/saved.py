"""Model files: how a learner is written to one, and made from one again."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream._version import __version__
from votestream.core.registry import LEARNERS
from votestream.core.tasks import TaskLedger
from votestream.core.tracked import tracker_of
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

TRACK = "track"  # what names of the track record's arrays begin with


def save(learner: Any, path: str | os.PathLike[str]) -> None:
    with learner._guard.lock:
        model_files.write(path, *parts_of(learner))


def parts_of(learner: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of the learner's file, which it checks; the arrays may be the learner's own."""
    if LEARNERS.get(learner.name) is not type(learner):
        raise TypeError(
            f"{type(learner).__name__} is not registered, so a file of it could not be loaded: put "
            "@votestream.register('a_name_of_its_own') before its class"
        )
    with learner._guard.lock:
        learner._check_fitted()
        learner._check_settings()
        arrays = learner._saved_arrays()
        check_diverged(arrays)
        return {"version": __version__, **learner._header()}, arrays


def header_of(learner: Any) -> dict[str, Any]:
    """All there is to keep that is not an array, fit for JSON."""
    header = {
        "learner": learner.name,
        "params": {name: _plain(value) for name, value in learner.get_params(deep=False).items()},
        "n_features": learner.n_features_in_,
        "classes": list(learner._index),
        "tasks": learner._tasks.state(),
    }
    if hasattr(learner, "feature_names_in_"):
        header["feature_names"] = learner.feature_names_in_.tolist()
    if learner._unit != 1:
        header["unit"] = learner._unit
    return header


def arrays_of(learner: Any) -> dict[str, NDArray[Any]]:
    """What was learned, and the track record."""
    record = {} if learner._tracker is None else model_files.joined({TRACK: learner._tracker.state()})
    return {**learner._arrays(), **record}


def from_file(cls: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None) -> Any:
    """A learner of that class, everything in the file checked."""
    model = cls(**checked_params(cls, header["params"]))
    if device is not None:
        model.set_params(device=device)
    model._check_settings()
    model._unit = checked_unit(header.get("unit", 1.0))
    model._began = {name: getattr(model, name) for name in model._never_changed()}
    model.n_features_in_ = checked_width(header["n_features"], arrays)
    if "feature_names" in header:
        model.feature_names_in_ = checked_feature_names(header["feature_names"], model.n_features_in_)
    model._index = checked_classes(header["classes"])
    model._tasks = TaskLedger(int(model.close_task_after))
    model._tasks.restore(header["tasks"], len(model._index))
    record = model_files.part_of(arrays, TRACK)
    model._set_arrays({name: array for name, array in arrays.items() if not name.startswith(f"{TRACK}.")})
    model._tracker = tracker_of(model, model.n_features_in_)
    if model._tracker is not None:
        model._tracker.restore(record, len(model._index))
    check_names(arrays, model._saved_arrays())
    return model


def copied(learner: Any, device: str | None = None) -> Any:
    """Another model like this one, as if saved and loaded, perhaps on another device."""
    with learner._guard.lock:
        learner._check_fitted()
        learner._check_settings()
        arrays = {name: array.copy() for name, array in learner._saved_arrays().items()}
        return type(learner)._from_file(copy.deepcopy(learner._header()), arrays, device, None)


def _plain(value: Any) -> Any:
    """A constructor's argument as JSON can hold it."""
    if isinstance(value, torch.device):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
