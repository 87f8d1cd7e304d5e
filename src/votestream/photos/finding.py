"""Finding photos: one folder a class, whatever lies below it belongs to it, what the system left there does not."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from votestream.common.exits import Refused
from votestream.images.class_folders import (
    SUFFIXES,
    Layout,
    by_label,
    label_of,
    layout_of,
    loose_files,
    same_name,
    some,
    walk,
)
from votestream.images.urls import Place, Url


class PhotoError(Refused):
    """Why nothing can be done with these photos, or with this model."""


class Photo(NamedTuple):
    path: Place
    label: str


@dataclass
class Offer:
    """What a folder offers to learn, and what in it cannot be offered."""

    photos: list[Photo] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubt: str = ""  # why the folder's own folders seem not to be the classes
    instead: Place | None = None  # the folder that was probably meant

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(photo.label for photo in self.photos))


def offer(folder: Place, ignore: tuple[Path, ...] = ()) -> Offer:
    """The photos below `folder`, here or behind a URL, whose own folders are the classes, always in the same order.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for path in ("oak/1.jpg", "oak/more/2.jpg", "elm/3.jpg", "elm/.DS_Store"):
    ...         (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
    ...         (Path(name) / path).touch()
    ...     [(photo.path.name, photo.label) for photo in offer(Path(name)).photos]
    [('3.jpg', 'elm'), ('1.jpg', 'oak'), ('2.jpg', 'oak')]
    """
    layout, loose = _opened(folder)
    if not layout.classes:
        raise PhotoError(_no_classes(layout.root, loose))
    ours = {os.path.realpath(path) for path in ignore}
    found = Offer(notes=_parts(folder, layout), doubt=layout.doubt, instead=layout.instead)
    found.problems += [f"{path} lies in no class folder." for path in loose if os.path.realpath(path) not in ours]
    empty = []
    for label, folders in by_label(layout.classes).items():
        found.notes += [same_name(label)] * (len(folders) > 1)
        for path in folders:
            unreadable = len(found.problems)
            photos = [photo for photo in walk(path, found.problems) if os.path.realpath(photo) not in ours]
            found.photos += [Photo(photo, label) for photo in photos]
            if not photos and len(found.problems) == unreadable:
                empty.append(path)
    if empty:
        hold, classes = ("hold", "are no classes") if len(empty) > 1 else ("holds", "is no class")
        found.problems.append(f"{some(empty, 5)} {hold} no photo: there {classes} to learn from it.")
    return found


def _opened(folder: Place) -> tuple[Layout[Any], list[Any]]:
    """The layout of a folder, and the files that lie beside its classes."""
    try:
        if not folder.exists():
            raise PhotoError(f"There is no folder {folder}.")
        if not folder.is_dir():
            raise PhotoError(_only_file(folder))
        layout: Layout[Any] = layout_of(folder)
        return layout, loose_files(layout.root)
    except PhotoError:
        raise
    except Exception as problem:  # behind a URL there are packages that raise errors of their own
        if isinstance(folder, Url):
            raise PhotoError(f"{folder} cannot be opened: {str(problem).rstrip('.')}.") from None
        if isinstance(problem, OSError):
            raise PhotoError(f"{problem.filename} cannot be opened: {problem.strerror}.") from None
        raise


def _only_file(path: Place) -> str:
    from votestream.images.labelled import SHARDS, TABLES  # NumPy comes with it: --help should not wait

    if path.name.lower().endswith((*TABLES, *SHARDS)):
        return (
            f"{path} is a file: photos are learned from folders, where each can be found again. Python learns this one "
            f"by `model.partial_fit({str(path)!r})`; see docs/data_in.md."
        )
    return f"{path} is a file: give the folder that holds one folder of photos for each class."


def _no_classes(folder: Place, loose: list[Place]) -> str:
    if any(path.suffix.lower() in SUFFIXES for path in loose):
        up = not isinstance(folder, Url) and folder.name in ("", "..")
        above = Path(os.path.abspath(folder)).parent if up else folder.parent
        return (
            f"There is no class folder in {folder}, only photos. If {label_of(folder)} is a class, give the folder "
            f"above it, {above}; else put the photos of each class into a folder named after it."
        )
    return (
        f"There is no class folder in {folder}: put the photos of each class into a folder named after it, "
        f"such as {folder / 'oak'} and {folder / 'elm'}."
    )


def _parts(folder: Place, layout: Layout[Any]) -> list[str]:
    """What is said of a folder that is divided into train and test."""
    if not layout.held_out:
        return []
    alone = [*layout.held_out, *layout.beside]
    left = f"{some(path.name for path in alone)} {'are' if len(alone) > 1 else 'is'} left alone"
    return [f"{folder} is divided into parts: {layout.root.name} is learned, {left}."]
