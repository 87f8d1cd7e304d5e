"""The list of labelled photos in a folder: each folder in it is a class, and all photos below belong to that class."""

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
    """Says why nothing can be done with these photos."""


class Photo(NamedTuple):
    """A photo file and its class, which is the name of its folder."""

    path: Place
    label: str


@dataclass
class PhotoList:
    """The labelled photos of a folder, and what to tell the user about the folder."""

    photos: list[Photo] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubt: str = ""  # why the folders in it may not be the classes
    instead: Place | None = None  # the folder that was probably intended

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(photo.label for photo in self.photos))


def list_photos(folder: Place, ignore: tuple[Path, ...] = ()) -> PhotoList:
    """List the photos below a folder or URL, always in the same order; its direct subfolders are the classes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for path in ("oak/1.jpg", "oak/more/2.jpg", "elm/3.jpg", "elm/.DS_Store"):
    ...         (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
    ...         (Path(name) / path).touch()
    ...     [(photo.path.name, photo.label) for photo in list_photos(Path(name)).photos]
    [('3.jpg', 'elm'), ('1.jpg', 'oak'), ('2.jpg', 'oak')]
    """
    layout, loose = _read_layout(folder)
    if not layout.classes:
        raise PhotoError(_no_classes(layout.root, loose))
    ours = {os.path.realpath(path) for path in ignore}
    found = PhotoList(notes=_parts(folder, layout), doubt=layout.doubt, instead=layout.instead)
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
        hold, classes = ("hold", "these classes are") if len(empty) > 1 else ("holds", "this class is")
        found.problems.append(f"{some(empty, 5)} {hold} no photo: {classes} not learned.")
    return found


def _read_layout(folder: Place) -> tuple[Layout[Any], list[Any]]:
    """The layout of a folder, and the files in it that lie in no class folder."""
    try:
        if not folder.exists():
            raise PhotoError(f"There is no folder {folder}.")
        if not folder.is_dir():
            raise PhotoError(_only_file(folder))
        layout: Layout[Any] = layout_of(folder)
        return layout, loose_files(layout.root)
    except PhotoError:
        raise
    except Exception as problem:  # packages that read URLs raise errors of their own types
        if isinstance(folder, Url):
            raise PhotoError(f"{folder} cannot be opened: {str(problem).rstrip('.')}.") from None
        if isinstance(problem, OSError):
            raise PhotoError(f"{problem.filename} cannot be opened: {problem.strerror}.") from None
        raise


def _only_file(path: Place) -> str:
    from votestream.images.labelled import SHARDS, TABLES  # it imports NumPy, which would slow --help down

    if path.name.lower().endswith((*TABLES, *SHARDS)):
        return (
            f"{path} is a file, and this command reads folders of photos. In Python, "
            f"`model.partial_fit({str(path)!r})` learns it; see docs/data_in.md."
        )
    return f"{path} is a file: give the folder that holds one folder of photos for each class."


def _no_classes(folder: Place, loose: list[Place]) -> str:
    if any(path.suffix.lower() in SUFFIXES for path in loose):
        up = not isinstance(folder, Url) and folder.name in ("", "..")
        above = Path(os.path.abspath(folder)).parent if up else folder.parent
        return (
            f"There is no class folder in {folder}, only photos. If {label_of(folder)} is a class, give the folder "
            f"above it, {above}. Otherwise put the photos of each class into a folder named after the class."
        )
    return (
        f"There is no class folder in {folder}: put the photos of each class into a folder named after the class, "
        f"such as {folder / 'oak'} and {folder / 'elm'}."
    )


def _parts(folder: Place, layout: Layout[Any]) -> list[str]:
    """A note for the user if the folder is divided into train and test."""
    if not layout.held_out:
        return []
    unused = [*layout.held_out, *layout.beside]
    left = f"{some(path.name for path in unused)} {'are' if len(unused) > 1 else 'is'} not used"
    return [f"{folder} is divided into parts: {layout.root.name} is used for training, {left}."]
