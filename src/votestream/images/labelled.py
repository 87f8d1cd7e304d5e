"""`labelled_images`: data sets of many kinds as pairs of an image and its label, read as they are needed."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from votestream.images.arrow_tables import is_arrow, pairs_of_file, pairs_of_table
from votestream.images.class_folders import SUFFIXES, by_label, layout_of, some, walk
from votestream.images.files import DataWarning, ImageBytes, ImageError
from votestream.images.hugging_face import is_hugging_face, pairs_of_hugging_face
from votestream.images.pairs import Columns, Pair, pair_in
from votestream.images.shards import pairs_of_shard
from votestream.images.tensors import is_tensor
from votestream.images.torch_data import is_torch_data, pairs_of_torch
from votestream.images.urls import Place, Url, as_place

TABLES, SHARDS = (".parquet", ".pq", ".arrow", ".feather"), (".tar", ".tar.gz", ".tgz")
_TAKEN = (
    "a torch Dataset or DataLoader, a Hugging Face data set, a WebDataset, pairs (image, label), or the path or URL of "
    "Parquet or Arrow files, of WebDataset shards (.tar), or of a folder that holds one folder for each class"
)


class LabelledImages:
    """Images with their labels, one after another; nothing is read before it is asked for.

    Iterate over it for pairs, or over `batches`. Each time it begins anew, where its source can.
    """

    def __init__(self, name: str, read: Callable[[], Iterator[Pair]]) -> None:
        self.name = name
        self._read = read

    def __repr__(self) -> str:
        return f"LabelledImages({self.name})"

    def __iter__(self) -> Iterator[Pair]:
        return self._read()

    def peek(self, count: int) -> tuple[list[Any], LabelledImages]:
        """The first images, and an iterator over all pairs, including these."""
        pairs = iter(self)
        first = deque(islice(pairs, count))

        def whole() -> Iterator[Pair]:
            while first:
                yield first.popleft()  # images that were passed on are released
            yield from pairs

        return [image for image, _ in first], LabelledImages(self.name, whole)

    def batches(self, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """The images and labels of up to `size` pairs at once."""
        images, labels = [], []
        for image, label in self:
            images.append(image)
            labels.append(label)
            if len(images) == size:
                yield images, labels
                images, labels = [], []
        if images:
            yield images, labels


def labelled_images(source: Any, *, image: str | None = None, label: str | None = None) -> LabelledImages:
    """Images that bring their labels along; `ImageClassifier.partial_fit` and `stream_from` take them without y.

    Args:
        source: A torch `Dataset` or `DataLoader`; a Hugging Face data set, streamed or not; a WebDataset; an Arrow
            table; anything else that gives pairs (image, label); or the path or URL of Parquet or Arrow files,
            WebDataset shards (.tar) or a folder of class folders. `{000..009}`, `*` and `?` stand for several files.
        image, label: The columns of a table, or keys of samples that are dicts, where they are not found by
            themselves.

    Where the source knows the names of its classes (ClassLabel of Hugging Face, `classes` of torchvision's data sets),
    these are the labels, not their numbers: two data sets number their classes in different ways.

    Example:
        >>> pairs = labelled_images([(np.zeros((8, 8, 3), np.uint8), "night"), (np.ones((8, 8, 3), np.uint8), "dusk")])
        >>> [label for _, label in pairs]
        ['night', 'dusk']
        >>> labelled_images("oak.jpg")
        Traceback (most recent call last):
        ...
        votestream.images.files.ImageError: There is no file or folder oak.jpg.
    """
    if isinstance(source, LabelledImages):
        return source
    columns = Columns(image, label)
    kind = type(source).__name__
    if isinstance(source, (str, os.PathLike)):
        places = _expanded(source)
        return LabelledImages(str(source), lambda: (pair for place in places for pair in _pairs_at(place, columns)))
    if is_hugging_face(source):
        return LabelledImages(kind, pairs_of_hugging_face(source, columns))
    if is_arrow(source):
        return LabelledImages(kind, lambda: pairs_of_table(source, f"the {kind}", columns))
    if is_torch_data(source):
        return LabelledImages(kind, lambda: pairs_of_torch(source, columns))
    given_images = is_tensor(source) or isinstance(source, (np.ndarray, Image.Image, ImageBytes, bytes, dict))
    if given_images or not hasattr(source, "__iter__"):
        raise ValueError(f"learning requires y to be passed for a {kind}: without labels X must be {_TAKEN}")
    return LabelledImages(
        f"a {kind}", lambda: (pair_in(item, f"item {i} of the {kind}", columns) for i, item in enumerate(source))
    )


def brings_labels(thing: Any) -> bool:
    """Whether this is a data set rather than images. Paths and lists are images unless stated otherwise."""
    return isinstance(thing, LabelledImages) or is_hugging_face(thing) or is_arrow(thing) or is_torch_data(thing)


def _pairs_at(place: Place, columns: Columns) -> Iterator[Pair]:
    name = place.name.lower()
    if name.endswith(TABLES):
        return pairs_of_file(place, columns)
    if name.endswith(SHARDS):
        return pairs_of_shard(place, columns)
    return _pairs_in_folders(place)


def _pairs_in_folders(folder: Any) -> Iterator[Pair]:
    layout = layout_of(folder)
    if layout.doubt:
        raise ImageError(f"{layout.doubt} Give the folder whose own folders are the classes.")
    if not layout.classes:
        raise ImageError(f"There is no class folder in {folder}: it needs a folder of images for each class.")
    problems: list[str] = []
    for label, folders in by_label(layout.classes).items():
        for each in folders:
            for path in walk(each, problems):
                if path.suffix.lower() in SUFFIXES:
                    yield path, label
    if problems:
        warnings.warn(f"{folder}: folders were left out. {' '.join(problems[:5])}", DataWarning, stacklevel=2)


def _expanded(source: str | os.PathLike[str]) -> list[Place]:
    """The files and folders that a name with {000..009}, {a,b}, * or ? in it stands for; all of them exist."""
    found: list[Place] = []
    for name in _unbraced(os.path.expanduser(source)):
        place = as_place(name)
        if re.search(r"[*?]", name) and not place.exists():
            found += place.matches() if isinstance(place, Url) else map(Path, sorted(glob.glob(str(place))))
        else:
            found.append(place)
    if not found:
        raise ImageError(f"There is no file {source}.")
    for place in found:
        if not place.exists():
            raise ImageError(f"There is no file or folder {place}.")
        if not place.is_dir() and not place.name.lower().endswith((*TABLES, *SHARDS)):
            raise ImageError(
                f"{place} is a file that brings no labels: learning requires y to be passed for images; without labels "
                f"X must be {_TAKEN}. Files are known by their names, which end in {some((*TABLES, *SHARDS))}."
            )
    return found


def _unbraced(name: str) -> list[str]:
    """Every name that one with braces stands for.

    >>> _unbraced("shard-{08..10}.tar"), _unbraced("{a,b}.parquet")
    (['shard-08.tar', 'shard-09.tar', 'shard-10.tar'], ['a.parquet', 'b.parquet'])
    """
    braces = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", name)
    if braces is None:
        return [name]
    first, last, listed = braces.groups()
    if listed is not None:
        middles = listed.split(",")
    else:
        middles = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    before, after = name[: braces.start()], name[braces.end() :]
    return [before + middle + rest for middle in middles for rest in _unbraced(after)]
