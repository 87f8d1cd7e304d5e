"""Photos to teach in rounds and photos to test on, found in any folder of class folders."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from votestream.images.class_folders import HELD_OUT, SUFFIXES, is_litter, layout_of, some
from votestream.model_store.paths import ModelStoreError
from votestream.photos.photo_list import Photo, PhotoList, list_photos


@dataclass
class Parts:
    """A set of photos: what is taught, a list for each round, and what is tested."""

    name: str
    rounds: list[list[Photo]]
    test: list[Photo]
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return list(dict.fromkeys(photo.label for photos in self.rounds for photo in photos))

    def only(self, classes: set[str]) -> list[list[Photo]]:
        """The rounds with photos of these classes and no others; rounds without any are left out."""
        kept = [[photo for photo in photos if photo.label in classes] for photos in self.rounds]
        return [photos for photos in kept if photos]


def parts_of(folder: Path, n_rounds: int = 3, test_share: float = 0.3, seed: int = 0) -> Parts:
    """What a folder offers, by its layout.

    - `round1/CLASS`, `round2/CLASS`, ... and `test/CLASS`: as they stand, rounds in the order of their names;
    - `train/CLASS` and `test/CLASS` (also `val`, ...): the classes are taught in rounds drawn by the seed;
    - `CLASS/`: the same, and a share of each class's photos, drawn by the seed, is the test part.
    """
    found = list_photos(folder)  # says what is wrong with a folder that holds nothing
    layout = layout_of(folder)
    if layout.held_out:
        parts = Parts(label(folder), _drawn(found.photos, n_rounds, seed), _photos(layout.held_out[0], found))
    elif rounds := _rounds_in(layout.classes):
        test, *others = rounds.pop(), *[top for top in layout.classes if top.name.lower() in HELD_OUT][1:]
        found = PhotoList(notes=[f"{some(path.name for path in others)} left alone."] if others else [])
        parts = Parts(label(folder), [_photos(part, found) for part in rounds], _photos(test, found))
    elif layout.doubt:
        raise ModelStoreError(f"{layout.doubt} Give the folder that holds the classes, or rounds and a folder `test`.")
    else:
        taught, test_part = _split(found, test_share, seed)
        parts = Parts(label(folder), _drawn(taught, n_rounds, seed), test_part)
    parts.notes = found.notes + found.problems
    return _checked(folder, parts)


def label(folder: Path) -> str:
    return folder.resolve().name


def _rounds_in(tops: list[Path]) -> list[Path]:
    """Folders of class folders beside a test part, in the order of their numbers, and the test part last; or none."""
    tests = sorted(
        (top for top in tops if top.name.lower() in HELD_OUT), key=lambda top: HELD_OUT.index(top.name.lower())
    )
    rounds = [top for top in tops if top not in tests]
    if not tests or not rounds or not all(_holds_classes(top) for top in (*rounds, tests[0])):
        return []
    return [*sorted(rounds, key=_in_order), tests[0]]


def _in_order(path: Path) -> list[str]:
    """round2 before round10."""
    return [word.zfill(12) for word in re.split(r"(\d+)", path.name)]


def _holds_classes(folder: Path) -> bool:
    inside = [path for path in folder.iterdir() if not is_litter(path.name)]
    loose = any(path.suffix.lower() in SUFFIXES for path in inside if not path.is_dir())
    return not loose and any(path.is_dir() for path in inside)


def _photos(part: Path, said: PhotoList) -> list[Photo]:
    found = list_photos(part)
    said.notes += found.notes
    said.problems += found.problems
    return found.photos


def _drawn(photos: list[Photo], n_rounds: int, seed: int) -> list[list[Photo]]:
    """The classes in rounds of about as many, drawn by the seed."""
    classes = sorted({photo.label for photo in photos})
    order = np.random.default_rng(seed).permutation(len(classes))
    groups = [{classes[i] for i in part} for part in np.array_split(order, n_rounds) if len(part)]
    return [[photo for photo in photos if photo.label in group] for group in groups]


def _split(found: PhotoList, share: float, seed: int) -> tuple[list[Photo], list[Photo]]:
    """A share of each class's photos to test on, at least one; the others to teach."""
    rng, taught, test = np.random.default_rng(seed), [], []
    for name in found.labels:
        own = [photo for photo in found.photos if photo.label == name]
        if len(own) < 2:
            found.problems.append(f"{name} has one photo, and two are needed to teach and to test it: it is left out.")
            continue
        shuffled = [own[i] for i in rng.permutation(len(own))]
        cut = min(len(own) - 1, max(1, round(share * len(own))))
        test += shuffled[:cut]
        taught += shuffled[cut:]
    return taught, test


def _checked(folder: Path, parts: Parts) -> Parts:
    """Without test photos of classes that are never taught; refused where too little is left."""
    known = set(parts.classes)
    if strangers := sorted({photo.label for photo in parts.test} - known):
        parts.notes.append(f"Of {some(strangers, 5)} no photo is taught: left out of the test.")
        parts.test = [photo for photo in parts.test if photo.label in known]
    if untested := sorted(known - {photo.label for photo in parts.test}):
        parts.notes.append(f"Of {some(untested, 5)} no photo is tested.")
    if len(known) < 2 or not parts.test:
        had = f"{len(known)} class{'' if len(known) == 1 else 'es'} to teach and {len(parts.test)} photos to test"
        raise ModelStoreError(
            f"{folder} has {had}: two classes are needed, with a few photos each. {' '.join(parts.notes)}"
        )
    taught = {_digest(Path(photo.path)) for photos in parts.rounds for photo in photos}
    if twice := sum(_digest(Path(photo.path)) in taught for photo in parts.test):
        parts.notes.append(f"{twice} of the test photos are taught too, byte for byte: the accuracy is too high.")
    return parts


def _digest(path: Path) -> str:
    try:
        return hashlib.md5(path.read_bytes()).hexdigest()
    except OSError:
        return str(path)  # whoever teaches it names the problem
