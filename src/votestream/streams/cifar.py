"""CIFAR-10 and CIFAR-100, python version: pickles of rows that hold all red, all green, all blue of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from votestream.streams.catalogue import fetch_again
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.safe_pickle import read_pickle

# Folder, training files, test file, file of names; then the keys of labels and names inside.
CIFAR10 = ("cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], "test_batch", "batches.meta")
CIFAR100 = ("cifar-100-python", ["train"], "test", "meta")
FILES = {"cifar10": (*CIFAR10, "labels", "label_names"), "cifar100": (*CIFAR100, "fine_labels", "fine_label_names")}


def load_cifar(name: str, data_dir: Path) -> DataSet:
    """Images (n, 32, 32, 3) uint8 with the official split, order and label numbers; names beside them."""
    folder, train, test, meta, labels, names = FILES[name]
    root = data_dir / folder
    again = fetch_again(name, root)
    listed = _field(read_pickle(root / meta, again), names, root / meta)
    if not isinstance(listed, list) or not all(isinstance(each, (bytes, str)) for each in listed):
        raise DataError(f"{root / meta} has no list of class names: {again}.")
    named = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in listed]
    X, y = _read([root / file for file in train], labels, len(named), again)
    X_test, y_test = _read([root / test], labels, len(named), again)
    return DataSet(name, X, y, X_test, y_test, dict(enumerate(named)))


def _read(paths: list[Path], key: str, n_classes: int, again: str) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = [], []
    for path in paths:
        rows, y = _checked(path, key, n_classes, again)
        images = np.empty((len(rows), 32, 32, 3), np.uint8)
        images[:] = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        pixels.append(images)
        labels.append(y)
        del rows  # a file at a time is in memory twice
    return (pixels[0] if len(pixels) == 1 else np.concatenate(pixels)), np.concatenate(labels)


def _checked(path: Path, key: str, n_classes: int, again: str) -> tuple[np.ndarray, np.ndarray]:
    content = read_pickle(path, again)
    rows, y = _field(content, "data", path), _field(content, key, path)
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != 3072:
        raise DataError(f"{path} holds no rows of 3072 bytes, as CIFAR's files do: {again}.")
    if not isinstance(y, list) or len(y) != len(rows):
        raise DataError(f"{path} has {len(rows)} images, but not as many labels: {again}.")
    if not all(type(label) is int and 0 <= label < n_classes for label in y):
        raise DataError(f"{path} has labels other than 0 to {n_classes - 1}: {again}.")
    return rows, np.array(y, np.int64)


def _field(content: Any, key: str, path: Path) -> Any:
    if isinstance(content, dict):
        for spelled in (key.encode(), key):  # Python 2 wrote bytes; who wrote it again with Python 3, text
            if spelled in content:
                return content[spelled]
    raise DataError(f"{path} has no entry {key!r}: it is not the python version of this data set.")
