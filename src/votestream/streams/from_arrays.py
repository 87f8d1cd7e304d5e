"""`stream_from`: a stream of samples that are in memory, or files of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from votestream.streams.data_set import DataError, DataSet, warn
from votestream.streams.image_files import ImageFiles
from votestream.streams.make import cut_stream
from votestream.streams.tasks import Stream

if TYPE_CHECKING:
    from votestream.backbones import Backbone


def stream_from(
    X: Any,
    y: Any,
    *,
    test: tuple[Any, Any] | None = None,
    tasks: int | Sequence[int] | None = None,
    seed: int = 0,
    batch: int = 10,
    order: int | Sequence[Any] | None = None,
    shuffle: bool = True,
    backbone: Backbone | None = None,
    test_share: float | None = None,
    name: str = "arrays",
) -> Stream:
    """Make a stream of your own samples: features, images, or paths of images, and labels of any kind.

    Args:
        test: X, y to be judged by.
        name: What `print` and errors call it.

    The rest is as in `stream`.

    Example:
        >>> made = stream_from(np.arange(12.0)[:, None], np.repeat([7, 8, 9], 4), tasks=[2, 1], test_share=0.25)
        >>> [(task.classes, len(task.test[1])) for task in made]
        [([9, 7], 2), ([8], 3)]
    """
    X, y = _samples(X, "X"), _labels(y, "y")
    X_test, y_test = (None, None) if test is None else (_samples(test[0], "test X"), _labels(test[1], "test y"))
    data = DataSet(name, X, y, X_test, y_test)
    if not len(y):
        raise DataError(f"{name} has no samples.")
    if y_test is not None and (unknown := np.setdiff1d(y_test, y)).size:
        warn(f"{name}: the test part has classes that are never learned, {unknown[:5].tolist()}; they are left out.")
    return cut_stream(data, name, tasks, seed, batch, order, shuffle, backbone, test_share)


def _samples(X: Any, name: str) -> np.ndarray | ImageFiles:
    if isinstance(X, ImageFiles):
        return X
    if isinstance(X, (list, tuple)) and X and all(isinstance(each, (str, os.PathLike)) for each in X):
        return ImageFiles([Path(each) for each in X])
    X = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers (n, ...) or paths of images, not {X.dtype} of shape {X.shape}.")
    return X


def _labels(y: Any, name: str) -> np.ndarray:
    y = np.asarray(y.cpu() if hasattr(y, "cpu") else y)
    if y.dtype == object and all(isinstance(label, str) for label in y.ravel()):  # a column of a table
        y = y.astype(str)
    if y.ndim != 1 or y.dtype.kind not in "iubU":
        raise ValueError(f"{name} must be a row of whole numbers or texts, not {y.dtype} of shape {y.shape}.")
    return y
