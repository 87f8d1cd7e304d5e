"""Finding photos: one folder a class, whatever lies below it belongs to it, what the system left there does not."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

# What systems leave in folders without being asked, besides everything that begins with a dot.
LITTER = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir", "$recycle.bin"}


class PhotoError(Exception):
    """A sentence for the person at the terminal: why there is nothing to be done."""


class Photo(NamedTuple):
    path: Path
    label: str


@dataclass
class Offer:
    """What a folder offers to learn, and what in it cannot be offered."""

    photos: list[Photo] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(photo.label for photo in self.photos))


def offer(folder: Path, ignore: tuple[Path, ...] = ()) -> Offer:
    """The photos below `folder`, whose own folders are the classes, always in the same order.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for path in ("oak/1.jpg", "oak/more/2.jpg", "elm/3.jpg", "elm/.DS_Store"):
    ...         (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
    ...         (Path(name) / path).touch()
    ...     [(photo.path.name, photo.label) for photo in offer(Path(name)).photos]
    [('3.jpg', 'elm'), ('1.jpg', 'oak'), ('2.jpg', 'oak')]
    """
    if not folder.exists():
        raise PhotoError(f"There is no folder {folder}.")
    if not folder.is_dir():
        raise PhotoError(f"{folder} is a file: give the folder that holds one folder of photos for each class.")
    found, ours = Offer(), {os.path.realpath(path) for path in ignore}
    try:
        entries = sorted(path for path in folder.iterdir() if not is_litter(path.name))
    except OSError as problem:
        raise PhotoError(f"{folder} cannot be opened: {problem.strerror}.") from None
    classes = [path for path in entries if path.is_dir()]
    if not classes:
        raise PhotoError(
            f"There is no class folder in {folder}: put the photos of each class into a folder named after it, "
            f"such as {folder / 'oak'} and {folder / 'elm'}."
        )
    for path in entries:
        if path not in classes and os.path.realpath(path) not in ours:
            found.problems.append(f"{path} lies in no class folder.")
    for path in classes:
        unreadable = len(found.problems)
        photos = [photo for photo in walk(path, found.problems) if os.path.realpath(photo) not in ours]
        found.photos += [Photo(photo, label_of(path)) for photo in photos]
        if not photos and len(found.problems) == unreadable:
            found.problems.append(f"{path} holds no photo: there is no class to learn from it.")
    return found


def walk(folder: Path, problems: list[str]) -> Iterator[Path]:
    """Every file below a folder in order of names; folders that cannot be opened go to `problems`."""
    # A link to a folder above would lead in circles, and to photos of other classes.
    been = {str(parent) for parent in folder.resolve().parents}

    def visit(folder: Path) -> Iterator[Path]:
        real = os.path.realpath(folder)
        if real in been:
            return
        been.add(real)
        try:
            entries = sorted(folder.iterdir())
        except OSError as problem:
            problems.append(f"{folder} cannot be opened: {problem.strerror}.")
            return
        for entry in entries:
            if is_litter(entry.name):
                continue
            if entry.is_dir():
                yield from visit(entry)
            else:
                yield entry

    return visit(folder)


def is_litter(name: str) -> bool:
    """Whether a file or folder is hidden, or one that a system made for itself.

    >>> [is_litter(name) for name in (".DS_Store", "Thumbs.db", "oak.jpg")]
    [True, True, False]
    """
    return name.startswith(".") or name.lower() in LITTER


def label_of(folder: Path) -> str:
    """The folder's name, the same wherever it was typed: systems differ in how they compose an accent.

    >>> label_of(Path("photos/Bu\\u0308che")) == label_of(Path("photos/B\\u00fcche"))
    True
    """
    name = os.path.basename(os.path.abspath(folder))
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
