"""Copies of photos, sorted into folders by predicted class: nothing is overwritten, moved or deleted."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from collections import Counter
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from votestream.common.printing import shown
from votestream.io.partial_files import beside
from votestream.photos.photo_list import PhotoError

if TYPE_CHECKING:
    from votestream.photos.predictions import Prediction

# Names of devices on Windows, with any ending.
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
UNKNOWN = "\0"  # no label holds this character
LONGEST = 200  # bytes; systems allow 255


class FolderSorter:
    """Copies photos, or links to them, into class folders of `folder`."""

    def __init__(self, folder: Path, link: bool) -> None:
        if folder.exists() and not folder.is_dir():
            raise PhotoError(f"{folder} is a file: give --sort-into a folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise PhotoError(f"{folder} cannot be made: {problem.strerror or problem}.") from None
        self.folder, self.link = folder, link
        self.problems: list[str] = []
        self._folders: dict[str, str] = {}  # of each label
        self._done: Counter[str] = Counter()

    def sort(self, prediction: Prediction) -> None:
        """Put the photo into the folder of its predicted class, unless it is there already."""
        place = self.folder / self._folder_for(prediction)
        try:
            place.mkdir(exist_ok=True)
            self._done["new" if self._put(prediction.path, place) else "there"] += 1
        except OSError as problem:
            self.problems.append(f"{prediction.path} could not be put into {place}: {problem.strerror or problem}.")

    def _folder_for(self, prediction: Prediction) -> str:
        """The folder of a prediction. Photos reported as unknown have a folder of their own."""
        label = UNKNOWN if prediction.numbers.get("unknown") else str(prediction.numbers["label"])
        if label not in self._folders:
            taken = {name.casefold() for name in self._folders.values()}
            named = "unknown" if label is UNKNOWN else safe_name(label)
            names = (named if n == 1 else f"{named} ({n})" for n in count(1))
            self._folders[label] = next(name for name in names if name.casefold() not in taken)
        return self._folders[label]

    def _put(self, photo: Path, folder: Path) -> bool:
        """Put the photo there; False if it was there already."""
        for n in count(1):
            place = folder / (photo.name if n == 1 else f"{photo.stem} ({n}){photo.suffix}")
            try:
                (_link if self.link else _copy)(photo, place)
                return True
            except FileExistsError:
                if _same(photo, place):
                    return False
        raise AssertionError("numbers do not end")

    @property
    def summary(self) -> str:
        what = "linked" if self.link else "copied"
        there = f"; {self._done['there']:,} were there already" if self._done["there"] else ""
        return f"{self._done['new']:,} photos {what} into {self.folder}{there}."


def safe_name(label: str) -> str:
    """A folder name for any label: never a path, a hidden folder or a device.

    >>> [safe_name(label) for label in ("oak", "../up", "a/b", "", "con", "end. ")]
    ['oak', '_.._up', 'a_b', '_', 'con_', 'end']
    """
    name = re.sub(r'[/\\:*?"<>|]', "_", shown(label)).strip().rstrip(". ")
    name = f"_{name}" if name.startswith(".") else name
    name = os.fsencode(name)[:LONGEST].decode("utf-8", "ignore")
    return f"{name}_" if RESERVED.fullmatch(name) else name or "_"


def _copy(photo: Path, place: Path) -> None:
    """Copy the whole file or nothing; raises FileExistsError if there is a file of that name."""
    if os.path.lexists(place):
        raise FileExistsError(place)
    with beside(place) as (handle, name):
        os.close(handle)
        shutil.copy2(photo, name)
        try:
            os.link(name, place)  # unlike a rename, it never replaces a file that was written meanwhile
        except FileExistsError:
            raise
        except OSError:  # a file system without links, such as a memory card
            os.rename(name, place)
        else:
            os.unlink(name)


def _link(photo: Path, place: Path) -> None:
    os.symlink(os.path.abspath(photo), place)


def _same(photo: Path, place: Path) -> bool:
    return place.is_file() and filecmp.cmp(photo, place, shallow=False)
