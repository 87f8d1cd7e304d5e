"""The file beside a model that says which photos it has learned, so that none is learned twice.

`shop.safetensors.learned` is text. A photo is a line of 32 hex digits, the digest of its bytes, a number n: it was the
n-th photo that the model learned, and its class. Nothing of a photo can be made from it. Lines of version 0.1.0 have
no class; their digest is of the class and the bytes together.

Photos are noted just before the model is saved. A run that is killed between the two leaves lines whose number
is above what the model says it has learned; they do not count, and so every photo is learned exactly once. The
same rule holds after an older copy of the model was put back. Where the file was deleted, nothing is known, and
everything offered counts as new. A file of that name that is not ours is left alone, and so is a pipe or a folder.
The newest photos stand in the journal too, if there is one, and it is right where the two differ.

A change of classes (`votestream forget`, `rename`) is noted after a line `as` with the fingerprint of the model to
come: what follows holds for that model, what stands before it for the model before the change.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from votestream.photos.finding import PhotoError

_PHOTO = re.compile(r'([0-9a-f]{32}) ([0-9]{1,18})(?: (".*"))?')
_RUN = re.compile(r"run ([0-9a-f]{32}) (.+)")
_AS = re.compile(r"as ([0-9a-f]{64})")
_BEGINS = "# Digests of the photos that "
_ABOUT = _BEGINS + "{model} has learned. Delete this file, and it learns them again."


Entry = tuple[str, "str | None"]  # a photo's digest and class; None in lines of version 0.1.0


class Digests(NamedTuple):
    """How a photo is known again: its bytes, and its class and bytes as version 0.1.0 took them."""

    content: str
    dated: str = ""


class LearnedPhotos:
    """What the model beside it has learned: `total` photos, of which these are known by digest.

    `newest` are the last of them by a journal, (digest, class) each, in place of their lines. Where the file was
    deleted they do not count either. `fingerprint` is the model's.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Path(folder) / "shop.safetensors"
    ...     learned = LearnedPhotos(model, total=0)
    ...     learned.note([("a" * 32, "oak"), ("b" * 32, "elm")])
    ...     learned.write()
    ...     saved, killed = LearnedPhotos(model, total=2), LearnedPhotos(model, total=1)
    >>> [photos.knows(Digests("b" * 32), "elm") for photos in (saved, killed)], saved.classes_of("b" * 32)
    ([True, False], ('elm',))
    """

    def __init__(
        self, model: Path, total: int, newest: Iterable[tuple[str, str]] = (), fingerprint: str | None = None
    ) -> None:
        self.path = followed(sidecar_of(model))
        self._beside = self.path.with_name(f".{self.path.name}.partial")
        for path in (sidecar_of(model), self._beside):
            check_place(path, "notes which photos it has learned", _is_ours)
        newest = list(newest) if self.path.exists() else []
        self.total = total - len(newest)
        self._kept: list[str] | None = [_ABOUT.format(model=model.name)]  # None once they are on disk
        self._new: list[str] = []
        self._classes: dict[str, tuple[str, ...]] = {}  # of each photo, before this run
        self._dated: set[str] = set()
        self._noted: set[tuple[str, str]] = set()  # by this run
        self._run = ("", "")
        if total:
            self._read(fingerprint)
        for digest, label in newest:
            self._meet(digest, label)
        self.note(newest)

    def _read(self, fingerprint: str | None) -> None:
        try:
            lines = self.path.read_text("utf-8", errors="replace").split("\n")[:-1]  # the last may be half a line
        except FileNotFoundError:
            return
        assert self._kept is not None
        for line in _holding(lines, fingerprint):
            if (photo := _PHOTO.fullmatch(line)) and int(photo[2]) <= self.total:
                label = _label_in(photo[3])
                if label is None:
                    self._dated.add(photo[1])
                else:
                    self._meet(photo[1], label)
                self._kept.append(line)
            elif run := _RUN.fullmatch(line):
                self._run = (run[1], run[2])
                self._kept.append(line)

    def _meet(self, digest: str, label: str) -> None:
        self._classes[digest] = (*self._classes.get(digest, ()), label)

    @property
    def holds_dated(self) -> bool:
        """Whether there are lines of version 0.1.0, which need its digests."""
        return bool(self._dated)

    def classes_of(self, digest: str) -> tuple[str, ...]:
        """The classes in which earlier runs learned a photo of these bytes."""
        return self._classes.get(digest, ())

    def has_met(self, digests: Digests) -> bool:
        """Whether an earlier run learned it, in whatever class."""
        return digests.content in self._classes or digests.dated in self._dated

    def knows(self, digests: Digests, label: str) -> bool:
        """Whether it was learned in this class."""
        noted = (digests.content, label) in self._noted
        return noted or label in self.classes_of(digests.content) or digests.dated in self._dated

    def task_for(self, labels: Iterable[str], taken: Iterable[object]) -> str:
        """The name of the task that a run's new classes form: a new one, unless an interrupted run goes on.

        A run goes on where the last one stopped if it offers the same classes.
        """
        offered = hashlib.blake2b("\0".join(sorted(labels)).encode(), digest_size=16).hexdigest()
        if self._run[0] != offered:
            names = set(taken)
            number = next(n for n in range(len(names) + 1, 2 * len(names) + 2) if f"run {n}" not in names)
            self._run = (offered, f"run {number}")
            self._new.append(f"run {offered} run {number}")
        return self._run[1]

    def note(self, photos: Iterable[tuple[str, str]]) -> None:
        """Photos the model has learned just now, digest and class, in their order."""
        for digest, label in photos:
            self.total += 1
            self._noted.add((digest, label))
            self._new.append(f"{digest} {self.total} {json.dumps(label)}")

    def entries(self) -> list[Entry]:
        """Every photo known; before anything is written."""
        lines = [*(self._kept or ()), *self._new]
        return [(photo[1], _label_in(photo[3])) for line in lines if (photo := _PHOTO.fullmatch(line))]

    def adopt(self, entries: Iterable[Entry], fingerprint: str | None = None) -> None:
        """Know these photos, numbered anew; once the model with this fingerprint is on disk, if one is given."""
        if fingerprint is not None:
            self._new.append(f"as {fingerprint}")
            self._new += [f"run {self._run[0]} {self._run[1]}"] if self._run[0] else []
        for number, (digest, label) in enumerate(entries, 1):
            self._new.append(f"{digest} {number}" + ("" if label is None else f" {json.dumps(label)}"))

    def write(self) -> None:
        """Put on disk what was noted; to be called before the model is saved."""
        if self._kept is not None:  # once a run the file is made anew, without lines that do not count
            _put(self._beside, "w", self._kept + self._new)
            os.replace(self._beside, self.path)
            self._kept = None
        else:
            _put(self.path, "a", self._new)
        self._new = []


def sidecar_of(model: Path) -> Path:
    """Beside the model itself, wherever a link to it lies: a model has one sidecar."""
    path = followed(model)
    return path.with_name(f"{path.name}.learned")


def journal_of(model: Path) -> Path:
    """Where a model's journal lies, if it has one."""
    path = followed(model)
    return path.with_name(f"{path.name}.journal")


def followed(path: Path) -> Path:
    """The file that is meant where a link is given, whether it exists or not."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_place(path: Path, use: str, is_ours: Callable[[bytes], bool]) -> None:
    """Refuse a place where something lies that is not ours: a pipe would keep us waiting, a file would be lost."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                if is_ours(file.read(4096)):
                    return
    except FileNotFoundError:
        return
    raise PhotoError(f"{path} is in the way: `votestream learn` {use} there, and this is something else. Move it away.")


def _holding(lines: list[str], fingerprint: str | None) -> list[str]:
    """The lines that hold for a model, where a change of classes may have been interrupted."""
    for place, line in enumerate(lines):
        if change := _AS.fullmatch(line):
            return lines[place + 1 :] if change[1] == fingerprint else lines[:place]
    return lines


def _label_in(text: str | None) -> str | None:
    """The class at the end of a line; None where there is none that can be read."""
    try:
        label = json.loads(text or "null")
    except json.JSONDecodeError:
        return None
    return label if isinstance(label, str) else None


def _is_ours(start: bytes) -> bool:
    """Whether a file begins as a sidecar does, if only a few of its lines are left."""
    begins = _BEGINS.encode()
    if start[: len(begins)] == begins[: len(start)]:
        return True
    lines = start.decode("utf-8", "replace").split("\n")
    return any(_PHOTO.fullmatch(line) or _RUN.fullmatch(line) for line in lines)


def _put(path: Path, mode: str, lines: list[str]) -> None:
    with path.open(mode, encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
