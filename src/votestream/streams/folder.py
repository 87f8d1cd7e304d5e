"""Image folders: one folder a class, perhaps under `train/` and `test/`; laid out as for `votestream learn`."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from votestream.common.progress import progress_bar
from votestream.images.class_folders import SUFFIXES, Layout, by_label, layout_of, same_name, some, walk
from votestream.images.convert import load_image
from votestream.images.files import KEPT, MAX_PIXELS, ImageError
from votestream.streams.data_set import DataError, DataSet, warn
from votestream.streams.image_files import ImageFiles, shape


def load_folder(
    path: str | os.PathLike[str],
    size: int | None = None,
    any_size: bool = False,
    progress: bool | None = None,
    nested: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> DataSet:
    """Images by class, labelled with the names of their folders; files that cannot be read are left out by name.

    Every image is decoded once here, so that no damaged one is met in the middle of a stream.

    Args:
        path: Holds a folder for each class, or `train` and `test` (or `val`) that do. Images may lie deeper in them.
        size: See `ImageFiles`.
        any_size: Take images of different sizes as they are: for a backbone, as they do not stack.
        nested: The folder's own folders are the classes, even where these seem to lie a level deeper.
        max_pixels: Larger images are left out; see `load_image`. A backbone has a limit of its own.

    Example:
        >>> from PIL import Image
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        ...     Path("pets", name).parent.mkdir(parents=True, exist_ok=True)
        ...     Image.new("RGB", (8, 8)).save(Path("pets", name))
        >>> load_folder("pets").y.tolist()
        ['cat', 'cat', 'dog']
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise DataError(f"There is no folder {root}.")
    layout = layout_of(root)
    if layout.doubt and not nested:
        raise DataError(f"{layout.doubt} {_what_to_do(layout)}")
    shapes: dict[str, Path] | None = None if any_size or size is not None else {}
    how = _How(size, None if shapes is not None else KEPT * (size or 1), max_pixels)
    if not layout.held_out:
        return DataSet(f"folder:{root}", *_read(root, layout.classes, how, shapes, progress))
    train, (test, *others) = layout.root, layout.held_out
    if alone := [*others, *layout.beside]:
        _note(f"{root} is tested on {test.name}; {some(path.name for path in alone)} left alone.")
    X, y = _read(train, layout.classes, how, shapes, progress)
    X_test, y_test = _read(test, layout_of(test).classes, how, shapes, progress, fewest=1)
    if unknown := sorted(set(y_test) - set(y)):
        warn(f"{test}: {_are(unknown)} not in {train}, and left out.")
        known = np.flatnonzero(~np.isin(y_test, unknown))
        X_test, y_test = X_test.select(known), y_test[known]
    if untested := sorted(set(y) - set(y_test)):
        warn(f"{train}: {_are(untested)} not in {test}, so learned and never tested.")
    return DataSet(f"folder:{root}", X, y, X_test, y_test)


class _How(NamedTuple):
    """How images are read: cut to what size, reduced to what at the least, and the most pixels one may have."""

    size: int | None
    least: int | None
    max_pixels: int


def _read(
    root: Path,
    classes: list[Path],
    how: _How,
    shapes: dict[str, Path] | None,
    progress: bool | None,
    fewest: int = 2,
) -> tuple[ImageFiles, np.ndarray]:
    problems: list[str] = []
    paths: dict[str, list[Path]] = {}
    for label, folders in by_label(classes).items():
        paths[label] = [path for folder in folders for path in walk(folder, problems) if _is_image(path)]
        if len(folders) > 1:
            _note(same_name(label))
    if problems:
        warn(f"{root}: folders were left out. {' '.join(problems[:5])}")
    every = [path for files in paths.values() for path in files]
    with progress_bar(f"checking {root.name}", len(every), show=progress) as advance, ThreadPoolExecutor() as pool:
        broken = {}
        for path, seen in zip(every, pool.map(partial(_look, how), every), strict=True):
            if isinstance(seen, ImageError):
                broken[path] = str(seen)
            elif shapes is not None and len(shapes) < 2:
                shapes.setdefault(seen, path)
            advance(1)
    if shapes is not None and len(shapes) > 1:
        each = " and ".join(f"{path} ({seen})" for seen, path in shapes.items())
        raise DataError(
            f"Images of different sizes do not stack: {each}. Give `size=64`, say, to have all of them resized and cut "
            "to squares, or a backbone, which sees them as they are."
        )
    if broken:
        warn(f"{len(broken)} of {len(every)} images were left out: {' '.join(list(broken.values())[:5])}")
    kept = {name: [path for path in files if path not in broken] for name, files in paths.items()}
    if empty := [name for name, files in kept.items() if not files]:
        warn(f"{root}: {_are(empty)} without a readable image, and left out.")
    full = {name: files for name, files in kept.items() if files}
    if len(full) < fewest:
        raise DataError(
            f"{root} has {len(full) or 'no'} class{'' if len(full) == 1 else 'es'} with images"
            f"{''.join(f' ({name})' for name in full)}: it needs a folder for each class, two at least, such as "
            f"{root / 'cat'} and {root / 'dog'}."
        )
    y = np.array([name for name, files in full.items() for _ in files])
    return ImageFiles([path for files in full.values() for path in files], how.size, how.max_pixels), y


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _what_to_do(layout: Layout) -> str:
    meant = f"use folder:{layout.instead}" if layout.instead else "move what is no class elsewhere"
    return f"If these are not the classes, {meant}; `nested=True` (--yes) takes them as classes all the same."


def _note(text: str) -> None:
    """Something to know about the data; nothing is amiss with it."""
    warnings.warn(text, stacklevel=4)


def _look(how: _How, path: Path) -> str | ImageError:
    """The size of an image that can be read, or what is wrong with it."""
    try:
        return shape(load_image(path, max_pixels=how.max_pixels, least=how.least))
    except ImageError as error:
        return error


def _are(names: list[str], most: int = 5) -> str:
    return f"{'classes' if len(names) > 1 else 'class'} {some(names, most)} {'are' if len(names) > 1 else 'is'}"
