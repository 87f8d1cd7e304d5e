"""Data sets of Hugging Face's `datasets`, map-style and streaming, as pairs of image and label."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from votestream.images.pairs import IMAGE_NAMES, LABEL_NAMES, Columns, Pair, chosen, named, pair_in


def is_hugging_face(thing: Any) -> bool:
    """Whether this is a data set of `datasets`; without importing it."""
    datasets = sys.modules.get("datasets")
    if datasets is None:
        return False
    if isinstance(thing, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        raise ValueError(
            f"this is a dict of the splits {', '.join(thing)}: give one of them, as data[{next(iter(thing))!r}]"
        )
    return isinstance(thing, (datasets.Dataset, datasets.IterableDataset))


def pairs_of_hugging_face(data: Any, columns: Columns) -> Callable[[], Iterator[Pair]]:
    """A function that reads the pairs: images as files for our own decoder, and the names of ClassLabels."""
    datasets: Any = sys.modules["datasets"]

    features = data.features
    if features is None or _has_transform(data):  # made by a generator, or by the user's own function
        names = names_of_hugging_face(data, columns.label)
        return lambda: _as_they_come(data, names, columns)
    image = _column("image", columns.image, features, datasets.Image, IMAGE_NAMES)
    label = _column("label", columns.label, features, datasets.ClassLabel, LABEL_NAMES)
    data = data.select_columns([image, label]).with_format(None)
    if isinstance(features[image], datasets.Image):
        data = data.cast_column(image, datasets.Image(decode=False))
    found = Columns(image, label)
    names = names_of_hugging_face(data, label)
    return lambda: _as_they_come(data, names, found)


def names_of_hugging_face(data: Any, label: str | None = None) -> list[str] | None:
    """The names of the classes; None where labels are no ClassLabel."""
    datasets: Any = sys.modules["datasets"]

    of_labels = {name: each for name, each in (data.features or {}).items() if isinstance(each, datasets.ClassLabel)}
    if label is None and len(of_labels) == 1:
        label = next(iter(of_labels))
    return list(of_labels[label].names) if label in of_labels else None


def _as_they_come(data: Any, names: list[str] | None, columns: Columns) -> Iterator[Pair]:
    for number, item in enumerate(data):
        name = f"sample {number} of the data set"
        image, label = pair_in(item, name, columns)
        yield image, named(label, names, name)


def _column(what: str, asked: str | None, features: Any, kind: type, usual: tuple[str, ...]) -> str:
    """The only column of that kind, or the one with a usual name."""
    of_kind = [name for name, each in features.items() if isinstance(each, kind)]
    if asked is None and len(of_kind) == 1:
        return of_kind[0]
    return chosen(what, asked, features, [name for name in usual if not of_kind or name in of_kind], "the data set")


def _has_transform(data: Any) -> bool:
    return (getattr(data, "format", None) or {}).get("type") == "custom"
