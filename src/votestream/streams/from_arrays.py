"""`stream_from`: a stream of samples that are in memory, files of one's own, or data sets of other libraries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from votestream.images.convert import load_image
from votestream.images.files import ImageError, is_file
from votestream.images.labelled import brings_labels, labelled_images
from votestream.images.tensors import is_tensor, tensor_pixels
from votestream.streams.data_set import DataError, DataSet, Samples, features, warn
from votestream.streams.image_files import ImageFiles, shape
from votestream.streams.make import cut_stream
from votestream.streams.tasks import Stream

if TYPE_CHECKING:
    from votestream.backbones import Backbone


def stream_from(
    X: Any,
    y: Any = None,
    *,
    test: Any = None,
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
        X, y: Samples and labels; or without y a data set that brings its labels along, whatever `labelled_images`
            takes. It is read once, here, since a stream brings its classes in an order of its own: given a backbone, in
            batches of which the features stay in memory; else its images, of one size, do.
        test: X, y to be judged by, or a data set.
        name: What `print` and errors call it.

    The rest is as in `stream`.

    Example:
        >>> made = stream_from(np.arange(12.0)[:, None], np.repeat([7, 8, 9], 4), tasks=[2, 1], test_share=0.25)
        >>> [(task.classes, len(task.test[1])) for task in made]
        [([9, 7], 2), ([8], 3)]
    """
    seen = backbone if y is None or (test is not None and not isinstance(test, tuple)) else None
    X, y = _part(X, y, seen, "")
    X_test, y_test = (None, None) if test is None else _part(*_as_pair(test), seen, "test ")
    data = DataSet(name, X, y, X_test, y_test)
    if not len(y):
        raise DataError(f"{name} has no samples.")
    if y_test is not None and (unknown := np.setdiff1d(y_test, y)).size:
        warn(f"{name}: the test part has classes that are never learned, {unknown[:5].tolist()}; they are left out.")
    return cut_stream(data, name, tasks, seed, batch, order, shuffle, None if seen else backbone, test_share)


def _as_pair(test: Any) -> tuple[Any, Any]:
    return test if isinstance(test, tuple) and len(test) == 2 else (test, None)


def _part(X: Any, y: Any, backbone: Backbone | None, which: str) -> tuple[Samples, np.ndarray]:
    """Samples and labels, as a backbone's features if there is one."""
    if y is None:
        return _read(X, backbone, which)
    if brings_labels(X):
        raise ValueError(f"{which}X is a {type(X).__name__}, which brings its labels along: leave y out")
    samples = _samples(X, f"{which}X")
    return samples if backbone is None else features(backbone, samples), _labels(y, f"{which}y")


def _read(X: Any, backbone: Backbone | None, which: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set that brings its labels along, read to its end."""
    source = labelled_images(X)
    labels: list[Any] = []
    parts: list[np.ndarray] = []
    broken: list[str] = []
    if backbone is None:
        for number, (image, label) in enumerate(source):
            try:
                parts.append(load_image(image, f"image {number} of {source.name}"))
                labels.append(label)
            except ImageError as error:
                if not is_file(image):
                    raise
                broken.append(str(error))
    else:
        from votestream.backbones.labelled_features import labelled_features

        for rows, some in labelled_features(backbone, source, backbone.batch_size, stacklevel=4):
            parts.append(rows)
            labels += some
    if not parts:
        raise DataError(f"{source.name} has no samples that can be read. {' '.join(broken[:1])}".rstrip())
    if broken:
        warn(f"{len(broken)} images of {source.name} were left out: {' '.join(broken[:5])}")
    samples = _stacked(parts) if backbone is None else np.concatenate(parts)
    return samples, _labels([label.item() if is_tensor(label) else label for label in labels], f"{which}y")


def _samples(X: Any, name: str) -> np.ndarray | ImageFiles:
    if isinstance(X, ImageFiles):
        return X
    if isinstance(X, (list, tuple)) and X:
        if all(isinstance(each, (str, os.PathLike)) for each in X):
            return ImageFiles(X)
        if all(isinstance(each, Image.Image) or (is_tensor(each) and each.ndim == 3) for each in X):
            return _stacked([load_image(each, f"image {i} of {name}") for i, each in enumerate(X)])
    if is_tensor(X):
        X = tensor_pixels(X, name) if X.ndim == 4 else X.detach().cpu()
    try:
        X = np.asarray(X)
    except ValueError:
        raise ValueError(
            f"{name} must be numbers (n, ...), images of one size, or paths of images, but its rows differ in shape. "
            "Images of different sizes need a backbone: stream_from(list(zip(X, y)), backbone=...)."
        ) from None
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers (n, ...) or paths of images, not {X.dtype} of shape {X.shape}.")
    return X


def _stacked(images: list[np.ndarray]) -> np.ndarray:
    for number, image in enumerate(images):
        if image.shape != images[0].shape:
            raise ImageError(
                f"image {number} is {shape(image)}, image 0 is {shape(images[0])}: images of different sizes do not "
                "stack. Give a backbone, which sees them as they are, and pairs (image, label); or resize them first."
            )
    return np.stack(images)


def _labels(y: Any, name: str) -> np.ndarray:
    try:
        y = np.asarray(y.cpu() if hasattr(y, "cpu") else y)
    except ValueError:
        raise ValueError(f"{name} must be a row of whole numbers or texts; its rows differ in length") from None
    if y.dtype == object and all(isinstance(label, str) for label in y.ravel()):  # a column of a table
        y = y.astype(str)
    if y.ndim != 1 or y.dtype.kind not in "iubU":
        raise ValueError(f"{name} must be a row of whole numbers or texts, not {y.dtype} of shape {y.shape}.")
    return y
