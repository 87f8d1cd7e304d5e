"""Data sets by name, wherever they lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean
from votestream.streams.catalogue import SOURCES, data_folder, how_to_get, missing
from votestream.streams.cifar import load_cifar
from votestream.streams.core50 import load_core50
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.folder import load_folder
from votestream.streams.tiny_imagenet import load_tiny_imagenet

_LOADERS: dict[str, Callable[..., DataSet]] = {
    "cifar10": lambda folder, **options: load_cifar("cifar10", folder, **options),
    "cifar100": lambda folder, **options: load_cifar("cifar100", folder, **options),
    "core50": load_core50,
    "tiny-imagenet": load_tiny_imagenet,
}


def load_data(name: str, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> DataSet:
    """Load a data set: `cifar10`, `cifar100`, `core50`, `tiny-imagenet` or `folder:PATH`.

    Args:
        data_dir: Where it lies; see `data_folder`. A `folder:PATH` needs none.
        options: `size` (and others, see `load_folder`) for folders, `level` ("object" or "category") for CORe50.

    Example:
        >>> load_data("cifar100", "no/such/folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        votestream.streams.data_set.DataError: cifar100 is not in no/such/folder: `votestream data get cifar100 ...
    """
    if name.startswith("folder:"):
        return load_folder(name.removeprefix("folder:"), **options)
    if name not in _LOADERS:
        raise ValueError(f"There is no data set {shown(name)}. {did_you_mean(name, [*_LOADERS, 'folder:PATH'])}")
    folder: Path = data_folder(data_dir)
    first = SOURCES[name].archives[0]
    if first in missing(SOURCES[name], folder):
        raise DataError(f"{name} is not in {folder}: {how_to_get(SOURCES[name], folder)}.")
    return _LOADERS[name](folder, **options)
