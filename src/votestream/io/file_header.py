"""What the header of a model file may say: everything in it is looked at before a model is made of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from votestream.io.array_checks import demand
from votestream.io.model_files import ModelFileError


def learner_in(header: Any, known: Any) -> type[Any]:
    """The class of the learner that the header names, one of the `known`."""
    demand(isinstance(header, dict), f"the header must be a JSON object, got {header!r:.60}")
    name = header.get("learner")
    if not isinstance(name, str) or name not in known:
        raise ModelFileError(f"it holds a learner called {name!r:.60}, which this version lacks")
    found: type[Any] = known[name]
    return found


def checked_params(learner: type[BaseEstimator], params: Any) -> dict[str, Any]:
    """Arguments for the learner's constructor; an older file may have fewer, none may have others."""
    demand(isinstance(params, dict), f"'params' must be a JSON object, got {params!r:.60}")
    unknown = sorted(set(params).difference(learner._get_param_names()))
    demand(not unknown, f"{learner.__name__} has no parameter called {', '.join(map(repr, unknown))}"[:200])
    device = params.get("device", "auto")
    fits = isinstance(device, str) and (device in ("auto", "cpu") or device.partition(":")[0] == "cuda")
    demand(fits, f"device must be 'auto', 'cpu' or 'cuda', got {device!r:.60}")
    seed = params.get("seed", 0)
    demand(type(seed) is int, f"seed must be an integer, got {seed!r:.60}")
    found: dict[str, Any] = params
    return found


def checked_width(n_features: Any, arrays: dict[str, NDArray[Any]]) -> int:
    """Features a row; the file holds at least one row of them, be it of bytes."""
    most = sum(array.nbytes for array in arrays.values())
    fits = type(n_features) is int and 1 <= n_features <= most
    demand(fits, f"'n_features' must be an integer that fits the file's arrays, got {n_features!r:.60}")
    width: int = n_features
    return width


def checked_unit(unit: Any) -> float:
    """What rows are multiplied by: a power of two."""
    fits = type(unit) is float and 2.0**-126 <= unit <= 2.0**127 and math.frexp(unit)[0] == 0.5
    demand(fits, f"'unit' must be a power of two, got {unit!r:.60}")
    return float(unit)


def checked_feature_names(names: Any, width: int) -> NDArray[Any]:
    """The columns of the data frame that was learned from."""
    fits = isinstance(names, list) and len(names) == width and all(isinstance(name, str) for name in names)
    demand(fits, f"'feature_names' must name the {width} features, got {names!r:.60}")
    return np.array(names, object)


def checked_classes(classes: Any) -> dict[str | int, int]:
    """The number of each label, in their order."""
    demand(isinstance(classes, list) and len(classes) > 0, f"'classes' must be a list of labels, got {classes!r:.60}")
    for label in classes:
        demand(type(label) in (str, int, bool), f"labels must be strings or integers, got {label!r:.60}")
    index = {label: number for number, label in enumerate(classes)}
    demand(len(index) == len(classes), "a label stands for two classes")
    return index


def check_names(arrays: dict[str, NDArray[Any]], taken: dict[str, NDArray[Any]]) -> None:
    """Nothing is in the file that the model would not save again."""
    unknown = sorted(set(arrays).difference(taken))
    demand(not unknown, f"it holds arrays that mean nothing here: {', '.join(unknown)}"[:200])


def checked_backbone(about: Any) -> dict[str, Any]:
    """What a file says of a backbone."""
    kinds = {"name": str, "digest": str, "input_size": int}
    fits = isinstance(about, dict) and all(type(about.get(key)) is kind for key, kind in kinds.items())
    demand(fits, f"'backbone' must tell a name, a digest and an input size, got {about!r:.60}")
    for key in ("views", "stages"):
        names = about.get(key, ["-"])
        fits = isinstance(names, list) and len(names) > 0 and all(isinstance(name, str) for name in names)
        demand(fits, f"the backbone's {key!r} must be a list of names, got {names!r:.60}")
    checked: dict[str, Any] = about
    return checked
