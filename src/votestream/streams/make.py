"""`stream`: a data set by name, cut into tasks of classes and shuffled by a seed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from votestream.common.parameters import shown
from votestream.common.plugins import Registry
from votestream.common.suggestions import did_you_mean
from votestream.streams.catalogue import data_folder
from votestream.streams.core50 import NC_SIZES, RUNS, published_tasks
from votestream.streams.data_set import DataSet
from votestream.streams.load import load_data
from votestream.streams.plan import class_order, cut, task_sizes
from votestream.streams.tasks import Stream

if TYPE_CHECKING:
    from votestream.backbones import Backbone

# Data set, and how many tasks the field cuts it into.
_BENCHMARKS: dict[str, tuple[str, int | Sequence[int]]] = {
    "split-cifar10": ("cifar10", 5),
    "split-cifar100": ("cifar100", 20),
    "tiny-imagenet": ("tiny-imagenet", 10),
    "core50-nc": ("core50", NC_SIZES),
}


def _check(name: str, make: Any) -> None:
    if name in _BENCHMARKS:
        raise ValueError(f"a stream called {name!r} comes with votestream; give yours another name")
    if ":" in name:
        raise ValueError(f"a stream's name has no colon, which tells of a file or a module, got {name!r}")


# Those that are no benchmark of the field.
STREAMS: Registry[Callable[..., Stream]] = Registry("stream", check=_check, homes=("votestream.streams.sample",))
M = TypeVar("M", bound=Callable[..., Stream])


def register_stream(name: str) -> Callable[[M], M]:
    """Decorator: makes a function of `seed`, `backbone` and its own options, which returns a `Stream`, known by name.

    Example:
        >>> @register_stream("noise")
        ... def noise(seed, backbone=None, tasks=2):
        ...     from votestream.streams import stream_from
        ...     X, y = np.random.default_rng(seed).normal(size=(40, 3)), np.repeat([0, 1, 2, 3], 10)
        ...     return stream_from(X, y, tasks=tasks, seed=seed, backbone=backbone, name="noise")
        >>> print(stream("noise", tasks=4))
        noise: 4 tasks, 4 classes, 40 samples in batches of 10, seed 0
        class order: 2, 0, 1, 3
    """
    return STREAMS.decorator(name)


def list_streams() -> list[str]:
    """Names that `stream` takes.

    Example:
        >>> list_streams()
        ['core50-nc', 'folder:PATH', 'sample', 'split-cifar10', 'split-cifar100', 'tiny-imagenet']
    """
    return sorted([*_BENCHMARKS, "folder:PATH", *STREAMS])


def stream(
    name: str,
    *,
    tasks: int | Sequence[int] | None = None,
    seed: int = 0,
    batch: int = 10,
    order: int | Sequence[Any] | None = None,
    run: int | None = None,
    shuffle: bool = True,
    backbone: Backbone | None = None,
    test_share: float | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Stream:
    """Make the stream of that name; `list_streams()` tells which there are.

    Args:
        tasks: How many, as even as they come out, the first ones larger; or the number of classes of each. By
            default as the field does it: 5 for split-cifar10, 20 for split-cifar100, 10 for tiny-imagenet, 9 for
            core50-nc; two classes a task for folders.
        seed: Decides the order of classes and of samples.
        batch: Samples in a mini-batch. The last one of a task is as small as it comes out.
        order: The classes in your own order; or a number, for the order that the field makes of it by NumPy's
            legacy generator (1993 in the offline comparisons).
        run: Of core50-nc: the published order, 0 to 9; by default the seed's last digit.
        shuffle: Whether a task's samples are mixed, or arrive as the files have them.
        backbone: Serve its features, from the cache where they are in it, instead of images: same samples, same order.
        test_share: Test on this share of the training samples, which are then not learned, instead of on a test
            part. Nothing is set aside unless this says so.
        data_dir: Where the data lies; by default `VOTESTREAM_DATA`, or `data` in VoteStream's cache folder.
        options: `size` and `nested` of folders, see `load_folder`; `level` of CORe50 ("object" or "category").

    A registered stream (`register_stream`, a plug-in) is given `seed`, `backbone`, and of the others those that have
    another value than their default.

    Example:
        >>> stream("split-cifar1000")
        Traceback (most recent call last):
        ...
        ValueError: There is no stream 'split-cifar1000'. Did you mean 'split-cifar100' or 'split-cifar10'?
    """
    if name.startswith("folder:"):
        data = load_data(name, **({"any_size": backbone is not None} | options))
    elif name in _BENCHMARKS:
        data = load_data(_BENCHMARKS[name][0], data_dir, **options)
    elif name in STREAMS:
        asked = {"tasks": tasks, "order": order, "run": run, "test_share": test_share, "data_dir": data_dir}
        asked |= {"batch": None if batch == 10 else batch, "shuffle": None if shuffle else False}
        options |= {key: value for key, value in asked.items() if value is not None}
        return registered_stream(name, seed=seed, backbone=backbone, **options)
    else:
        raise ValueError(f"There is no stream {shown(name)}. {did_you_mean(name, list_streams())}")
    usual = _BENCHMARKS[name][1] if name in _BENCHMARKS else None
    if name == "core50-nc" and order is None:
        if tasks is not None or test_share is not None:
            raise ValueError(
                "core50-nc has 9 published tasks and a test part of its own: give `order=` to cut it another way."
            )
        return _published(
            data, seed, seed % RUNS if run is None else run, batch, shuffle, backbone, data_folder(data_dir)
        )
    if run is not None:
        raise ValueError("`run` chooses one of the published orders of core50-nc, which `order` replaces.")
    return cut_stream(data, name, usual if tasks is None else tasks, seed, batch, order, shuffle, backbone, test_share)


def registered_stream(name: str, **options: Any) -> Stream:
    """What the registered function of that name makes."""
    make = STREAMS[name]
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise ValueError(f"The stream {name!r} is {make.__name__}{inspect.signature(make)}: {error}.") from None
    return checked_stream(name, make(**options))


def checked_stream(name: str, made: Any) -> Stream:
    """What a function from outside has made, if it is a stream."""
    if not isinstance(made, Stream):
        raise ValueError(f"{name} returned {type(made).__name__}, no Stream: `votestream.stream_from` makes one.")
    return made


def cut_stream(
    data: DataSet,
    name: str,
    tasks: int | Sequence[int] | None,
    seed: int,
    batch: int,
    order: int | Sequence[Any] | None,
    shuffle: bool,
    backbone: Backbone | None,
    test_share: float | None,
) -> Stream:
    """A data set, perhaps as features and with a part set aside, cut into tasks; arguments as in `stream`."""
    if test_share is not None:
        data = replace(data, X_test=None, y_test=None)
    if backbone is not None:
        data = data.seen_through(backbone)
    how: tuple[str, ...] = ()
    if test_share is not None:
        data = data.set_aside(test_share, seed)
        how = (f"tested on {test_share:.0%} of every class's training samples, which are not learned",)
    rng = np.random.default_rng(seed)
    classes = class_order(data.classes, order, rng)
    plan = cut(data.y, classes, task_sizes(tasks, len(classes)), rng if shuffle else None)
    return Stream(name, data, plan, classes.tolist(), batch, seed, how=how)


def _published(
    data: DataSet, seed: int, run: int, batch: int, shuffle: bool, backbone: Backbone | None, data_dir: Path
) -> Stream:
    plan = published_tasks(data_dir, data, run)
    rng = np.random.default_rng(seed)
    if shuffle:
        plan = [rng.permutation(rows) for rows in plan]
    order = list(dict.fromkeys(label for rows in plan for label in np.unique(data.y[rows]).tolist()))
    data = data if backbone is None else data.seen_through(backbone)
    return Stream("core50-nc", data, tuple(plan), order, batch, seed, how=(f"published order, run {run}",))
