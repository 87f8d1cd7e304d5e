"""The file beside a model that lists the photos it has learned, so that no photo is learned twice.

`shop.safetensors.learned` is text. Each photo is one line: 32 hex digits (the digest of its bytes), a number n (it was
the n-th photo that the model learned) and its class. Nothing of a photo can be made from its digest. Lines of version
0.1.0 have no class; their digest is over the class and the bytes together.

Lines are written just before the model is saved. A run that is killed between the two leaves lines with numbers above
the number of photos in the model; such lines are ignored, so every photo is learned exactly once. The same rule holds
after an older copy of the model was put back. If the file was deleted, every photo counts as new. A file of that name
that VoteStream did not write is left alone, and so is a pipe or a folder. The journal, if there is one, also lists the
newest photos; where the two differ, the journal is right.

A change of classes (`votestream forget`, `rename`) is written after a line `as` with the fingerprint of the changed
model: the lines after it belong to the changed model, the lines before it to the model before the change.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from votestream.model_store.paths import check_own_file, resolve_link, sidecar_path

_PHOTO = re.compile(r'([0-9a-f]{32}) ([0-9]{1,18})(?: (".*"))?')
_RUN = re.compile(r"run ([0-9a-f]{32}) (.+)")
_AS = re.compile(r"as ([0-9a-f]{64})")
_BEGINS = "# Digests of the photos that "
_ABOUT = _BEGINS + "{model} has learned. Delete this file, and it learns them again."


PhotoEntry = tuple[str, "str | None"]  # a photo's digest and class; None in lines of version 0.1.0


class PhotoDigests(NamedTuple):
    """The digests that identify a photo: of its bytes, and of class and bytes together as in version 0.1.0."""

    content: str
    dated: str = ""


class LearnedPhotos:
    """The photos that a model has learned, read from the sidecar and written back to it.

    Args:
        model: The model file.
        total: How many photos the model has learned. Lines with higher numbers are ignored.
        newest: The last of them according to the journal, (digest, class) each. They replace their lines in the
            file, and are ignored if the file was deleted.
        fingerprint: The model's fingerprint.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Path(folder) / "shop.safetensors"
    ...     learned = LearnedPhotos(model, total=0)
    ...     learned.note([("a" * 32, "oak"), ("b" * 32, "elm")])
    ...     learned.write()
    ...     saved, killed = LearnedPhotos(model, total=2), LearnedPhotos(model, total=1)
    >>> [photos.has_learned(PhotoDigests("b" * 32), "elm") for photos in (saved, killed)], saved.classes_of("b" * 32)
    ([True, False], ('elm',))
    """

    def __init__(
        self, model: Path, total: int, newest: Iterable[tuple[str, str]] = (), fingerprint: str | None = None
    ) -> None:
        self.path = resolve_link(sidecar_path(model))
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        for path in (sidecar_path(model), self._partial):
            check_own_file(path, "notes which photos it has learned", _is_ours)
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
            self._add_class(digest, label)
        self.note(newest)

    def _read(self, fingerprint: str | None) -> None:
        try:
            lines = self.path.read_text("utf-8", errors="replace").split("\n")[:-1]  # the last may be half a line
        except FileNotFoundError:
            return
        assert self._kept is not None
        for line in _lines_for(lines, fingerprint):
            if (photo := _PHOTO.fullmatch(line)) and int(photo[2]) <= self.total:
                label = _label_in(photo[3])
                if label is None:
                    self._dated.add(photo[1])
                else:
                    self._add_class(photo[1], label)
                self._kept.append(line)
            elif run := _RUN.fullmatch(line):
                self._run = (run[1], run[2])
                self._kept.append(line)

    def _add_class(self, digest: str, label: str) -> None:
        self._classes[digest] = (*self._classes.get(digest, ()), label)

    @property
    def holds_dated(self) -> bool:
        """Whether there are lines of version 0.1.0, which need digests as that version took them."""
        return bool(self._dated)

    def classes_of(self, digest: str) -> tuple[str, ...]:
        """The classes in which earlier runs learned a photo with these bytes."""
        return self._classes.get(digest, ())

    def has_digest(self, digests: PhotoDigests) -> bool:
        """Whether an earlier run learned the photo, in any class."""
        return digests.content in self._classes or digests.dated in self._dated

    def has_learned(self, digests: PhotoDigests, label: str) -> bool:
        """Whether the photo was learned in this class."""
        noted = (digests.content, label) in self._noted
        return noted or label in self.classes_of(digests.content) or digests.dated in self._dated

    def task_for(self, labels: Iterable[str], used: Iterable[object]) -> str:
        """The task name for a run's new classes: a new name, or that of the run which this one continues.

        A run continues the last one if it brings the same classes.
        """
        digest = hashlib.blake2b("\0".join(sorted(labels)).encode(), digest_size=16).hexdigest()
        if self._run[0] != digest:
            names = set(used)
            number = next(n for n in range(len(names) + 1, 2 * len(names) + 2) if f"run {n}" not in names)
            self._run = (digest, f"run {number}")
            self._new.append(f"run {digest} run {number}")
        return self._run[1]

    def note(self, photos: Iterable[tuple[str, str]]) -> None:
        """Add photos that the model has just learned, (digest, class) each, in their order."""
        for digest, label in photos:
            self.total += 1
            self._noted.add((digest, label))
            self._new.append(f"{digest} {self.total} {json.dumps(label)}")

    def entries(self) -> list[PhotoEntry]:
        """Every learned photo; call it before `write`."""
        lines = [*(self._kept or ()), *self._new]
        return [(photo[1], _label_in(photo[3])) for line in lines if (photo := _PHOTO.fullmatch(line))]

    def adopt(self, entries: Iterable[PhotoEntry], fingerprint: str | None = None) -> None:
        """Replace all lines by these photos, numbered from 1.

        With a fingerprint, the new lines count once the model with that fingerprint is on disk.
        """
        if fingerprint is not None:
            self._new.append(f"as {fingerprint}")
            self._new += [f"run {self._run[0]} {self._run[1]}"] if self._run[0] else []
        for number, (digest, label) in enumerate(entries, 1):
            self._new.append(f"{digest} {number}" + ("" if label is None else f" {json.dumps(label)}"))

    def write(self) -> None:
        """Put the noted photos on disk; call it before the model is saved."""
        if self._kept is not None:  # once a run the file is written anew, without the lines that were ignored
            _put(self._partial, "w", self._kept + self._new)
            os.replace(self._partial, self.path)
            self._kept = None
        else:
            _put(self.path, "a", self._new)
        self._new = []


def _lines_for(lines: list[str], fingerprint: str | None) -> list[str]:
    """The lines that belong to a model, where a change of classes may have been interrupted."""
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
    """Whether a file begins as a sidecar does, even if only a few of its lines are left."""
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
