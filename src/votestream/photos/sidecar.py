"""The file beside a model that says which photos it has learned, so that none is learned twice.

`shop.safetensors.learned` is text. A photo is a line of 32 hex digits, the digest of its class and its bytes,
and a number n: it was the n-th photo that the model learned. Nothing of a photo can be made from it.

Photos are noted just before the model is saved. A run that is killed between the two leaves lines whose number
is above what the model says it has learned; they do not count, and so every photo is learned exactly once. The
same rule holds after an older copy of the model was put back. Where the file was deleted, nothing is known, and
everything offered counts as new. A file of that name that is not ours is left alone, and so is a pipe or a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from votestream.photos.finding import PhotoError

_PHOTO = re.compile(r"([0-9a-f]{32}) ([0-9]{1,18})")
_RUN = re.compile(r"run ([0-9a-f]{32}) (.+)")
_BEGINS = "# Digests of the photos that "
_ABOUT = _BEGINS + "{model} has learned. Delete this file, and it learns them again."


class LearnedPhotos:
    """What the model beside it has learned: `total` photos, of which these are known by digest.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Path(folder) / "shop.safetensors"
    ...     learned = LearnedPhotos(model, total=0)
    ...     learned.note(["a" * 32, "b" * 32])
    ...     learned.write()
    ...     saved, killed = LearnedPhotos(model, total=2), LearnedPhotos(model, total=1)
    >>> "b" * 32 in saved, "b" * 32 in killed
    (True, False)
    """

    def __init__(self, model: Path, total: int) -> None:
        self.path = followed(sidecar_of(model))
        self._beside = self.path.with_name(f".{self.path.name}.partial")
        for path in (sidecar_of(model), self._beside):
            check_place(path, "notes which photos it has learned", _is_ours)
        self.total = total
        self._kept: list[str] | None = [_ABOUT.format(model=model.name)]  # None once they are on disk
        self._new: list[str] = []
        self._known: set[str] = set()
        self._run = ("", "")
        if total:
            self._read()

    def _read(self) -> None:
        try:
            lines = self.path.read_text("utf-8", errors="replace").split("\n")[:-1]  # the last may be half a line
        except FileNotFoundError:
            return
        assert self._kept is not None
        for line in lines:
            if (photo := _PHOTO.fullmatch(line)) and int(photo[2]) <= self.total:
                self._known.add(photo[1])
                self._kept.append(line)
            elif run := _RUN.fullmatch(line):
                self._run = (run[1], run[2])
                self._kept.append(line)

    def __contains__(self, digest: object) -> bool:
        return digest in self._known

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

    def note(self, digests: Iterable[str]) -> None:
        """Photos the model has learned just now, in their order."""
        for digest in digests:
            self.total += 1
            self._known.add(digest)
            self._new.append(f"{digest} {self.total}")

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
