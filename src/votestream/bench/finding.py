"""Learners and streams by name or as `module:name`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from votestream.backbones import Backbone, create_backbone
from votestream.backbones.presets import resolve_presets
from votestream.bench.runs import Method, StreamSpec, Suite
from votestream.common.parameters import shown
from votestream.common.suggestions import begun, did_you_mean
from votestream.learners import LEARNERS, Learner, list_learners
from votestream.streams import Stream, list_streams, stream, stream_from
from votestream.streams.catalogue import SOURCES, data_folder, how_to_get, missing
from votestream.streams.data_set import DataSet
from votestream.streams.make import _BENCHMARKS, STREAMS, checked_stream


def find_learner(name: str) -> type[Learner]:
    """The class of a registered learner, or of `module:Class`.

    >>> find_learner("ncm").__name__, find_learner("votestream.learners.statistics.slda:StreamingLDA").__name__
    ('NearestClassMean', 'StreamingLDA')
    """
    if name in LEARNERS:
        return LEARNERS[name]
    if ":" not in name:
        raise ValueError(f"There is no learner {shown(name)}. {did_you_mean(name, list_learners())}")
    found = _imported(name)
    if not (isinstance(found, type) and hasattr(found, "partial_fit") and hasattr(found, "predict")):
        raise ValueError(f"{name} is no learner: it must be a class with partial_fit and predict.")
    return found


def takes_images(learner: type[Learner]) -> bool:
    """Whether it learns images, which it says by `input = "images"`; the others are given a backbone's features."""
    return getattr(learner, "input", "features") == "images"


def added_methods(name: str, settings: Mapping[str, Any], budgets: tuple[int, ...]) -> list[Method]:
    """A learner of one's own as methods of a suite: once for each budget, if it has a `budget` that is not set."""
    parameters = _parameters(find_learner(name))
    unknown = set(settings) - set(parameters)
    if unknown:
        raise ValueError(f"{name} has no setting {begun(sorted(unknown))}. It has {', '.join(parameters)}.")
    given = settings.get("budget")
    Q = given if type(given) is int else None  # tables have a column for it
    told = "".join(f", {key}={value}" for key, value in settings.items() if key != "budget" or Q is None)
    label = name.rpartition(":")[2] + told
    if "budget" in settings or "budget" not in parameters or not budgets:
        return [Method(label, name, settings, Q)]
    return [Method(label, name, {**settings, "budget": each}, each) for each in budgets]


def looking(suite: Suite, views: str | None, stages: str | None) -> Suite:
    """The suite whose methods on features get those of these views and stages, where they have none of their own."""
    if views is None and stages is None:
        return suite
    resolve_presets(suite.backbone, views, stages)  # which complains about words that mean nothing there
    methods = (
        m if m.look or takes_images(find_learner(m.learner)) else replace(m, views=views, stages=stages)
        for m in suite.methods
    )
    return replace(suite, methods=tuple(methods))


def create_learner(method: Method, **offered: Any) -> Learner:
    """The method's learner; of what is offered (a seed, a device, ...) it gets what its constructor takes."""
    cls = find_learner(method.learner)
    known = _parameters(cls)
    return cls(**{**{name: value for name, value in offered.items() if name in known}, **method.settings})


def _parameters(cls: type) -> list[str]:
    return [name for name in inspect.signature(cls).parameters if name != "self"]


def make_stream(spec: StreamSpec, seed: int, backbone: Backbone | None, data_dir: str | None) -> Stream:
    """The stream for a seed: a benchmark's, a registered one, or `module:function`.

    A function of your own is called as `function(seed=..., backbone=..., **options)` and returns a `Stream`.
    """
    options = dict(spec.options)
    limit = options.pop("limit", None)
    function = find_stream(spec.name)
    if function is not None:
        made = checked_stream(spec.name, function(seed=seed, backbone=backbone, **options))
    elif set(options) <= {"tasks", "test_share"} and spec.name != "core50-nc":
        data, usual = _loaded(spec.name, backbone, data_dir)
        how = {"tasks": usual, "test_share": None, **options}
        test = None if data.X_test is None else (data.X_test, data.y_test)
        made = stream_from(data.X, data.y, test=test, seed=seed, name=spec.name, **how)
    else:
        made = stream(spec.name, seed=seed, backbone=backbone, data_dir=data_dir, **options)
    return made if limit is None else _limited(made, limit)


def missing_data(spec: StreamSpec, data_dir: str | None) -> str | None:
    """How to get a stream's data set where it is not on this machine; None where it is, or none is needed."""
    if spec.name not in _BENCHMARKS:
        return None
    source, folder = SOURCES[_BENCHMARKS[spec.name][0]], data_folder(data_dir)
    if not missing(source, folder):
        return None
    return f"{source.name} is not in {folder}: {how_to_get(source, folder)}."


@lru_cache(maxsize=4)
def the_backbone(name: str, device: str, views: str | None = None, stages: str | None = None) -> Backbone:
    return create_backbone(name, device=device, views=views, stages=stages)


@lru_cache(maxsize=3)
def _loaded(name: str, backbone: Backbone | None, data_dir: str | None) -> tuple[DataSet, list[int]]:
    """The samples of a stream, once for all seeds and ways to cut it, and how many classes its tasks usually have."""
    made = stream(name, backbone=backbone, data_dir=data_dir)
    return made.data, [len(task.new_classes) for task in made]


def _limited(made: Stream, limit: int) -> Stream:
    """The same stream with the first `limit` samples of each class only."""
    seen = np.zeros(len(made.class_order), int)
    plan = []
    for rows in made.plan:
        keep = []
        for row, place in zip(rows.tolist(), made.labels[rows].tolist(), strict=True):
            seen[place] += 1
            if seen[place] <= limit:
                keep.append(row)
        plan.append(np.array(keep, np.int64))
    return replace(made, plan=tuple(plan), how=(*made.how, f"the first {limit} samples of each class"))


def find_stream(name: str) -> Callable[..., Stream] | None:
    """The function that makes a stream of one's own; None for benchmarks and folders."""
    if name in _BENCHMARKS or name.startswith("folder:"):
        return None
    if name in STREAMS:
        return STREAMS[name]
    if ":" not in name:
        raise ValueError(f"There is no stream {shown(name)}. {did_you_mean(name, list_streams())}")
    found = _imported(name)
    if not callable(found):
        raise ValueError(f"{name} is no stream: it must be a function of seed and backbone that returns a Stream.")
    return found


def is_own_stream(name: str) -> bool:
    """Whether it names a stream that no suite need have: `module:function`, or a registered one."""
    if ":" in name:
        find_stream(name)  # which complains about what is not there
        return True
    return name in STREAMS


def _imported(path: str) -> Any:
    """What `module:name` names; modules in the working folder are found too."""
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise ValueError(f"{path}: there is no module {error.name!r} in this folder or the environment.") from error
    except AttributeError as error:
        raise ValueError(f"{path}: the module {module!r} has nothing called {name!r}.") from error
