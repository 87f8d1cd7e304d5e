"""One entry of the feature cache: an .npy file filled chunk by chunk, with a checksum for every chunk.

A chunk counts as done when its checksum is on record and fits what is in the file. So an entry that was
interrupted and one that was damaged are the same case: the chunks that do not fit are computed again.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np


class Entry:
    """A folder with `about.json` (its description), `features.npy`, and `chunks.jsonl` (checksums of finished chunks).

    Example:
        >>> import tempfile
        >>> about = {"images": 5, "feature_dim": 2, "chunk": 3}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     entry = Entry.start(Path(folder, "entry"), about)
        ...     entry.write(0, np.ones((3, 2), np.float32))
        ...     again = Entry.start(Path(folder, "entry"), about)
        ...     again.missing()
        [1]
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.about = about
        self.shape = (int(about["images"]), int(about["feature_dim"]))
        self.chunk = int(about["chunk"])

    @classmethod
    def start(cls, path: Path, about: dict[str, Any]) -> Entry:
        """Open the entry; create it if there is none or if it cannot be repaired."""
        found = read_about(path)
        same = found is not None and all(found.get(key) == about[key] for key in ("images", "feature_dim"))
        if found is not None and same and isinstance(found.get("chunk"), int) and found["chunk"] > 0:
            entry = cls(path, found)
            if entry._fits():
                return entry
        entry = cls(path, about)
        entry._begin()
        return entry

    def rows(self, index: int) -> slice:
        return slice(index * self.chunk, min((index + 1) * self.chunk, self.shape[0]))

    def features(self) -> np.ndarray:
        """The whole array, memory-mapped and read-only."""
        features: np.ndarray = np.load(self.path / "features.npy", mmap_mode="r")
        return features

    def missing(self) -> list[int]:
        """Chunks that are missing or damaged."""
        recorded = read_checksums(self.path)
        features = self.features()
        count = -(-self.shape[0] // self.chunk)
        return [i for i in range(count) if recorded.get(i) != zlib.crc32(features[self.rows(i)].data)]

    def write(self, index: int, features: np.ndarray) -> None:
        """Store a chunk; its checksum follows only when the features are safely on disk."""
        rows = self.rows(index)
        if features.shape != (rows.stop - rows.start, self.shape[1]):
            raise ValueError(f"Chunk {index} should have {rows.stop - rows.start} rows, got {features.shape}.")
        data = np.ascontiguousarray(features, np.float32)
        # Plain writes, since a full disk is an error there but kills a process that writes to mapped memory.
        with open(self.path / "features.npy", "r+b") as file:
            file.seek(self.features().offset + 4 * self.shape[1] * rows.start)  # type: ignore[attr-defined]
            file.write(data.tobytes())
            file.flush()
            os.fsync(file.fileno())
        with open(self.path / "chunks.jsonl", "a", encoding="utf-8") as file_of_checksums:
            file_of_checksums.write(f"\n{json.dumps([index, zlib.crc32(data.data)])}\n")

    def _fits(self) -> bool:
        try:
            features = self.features()
        except (OSError, ValueError, EOFError):
            return False
        return features.shape == self.shape and features.dtype == np.float32

    def _begin(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "chunks.jsonl").unlink(missing_ok=True)
        # Another process may still read the older file: it is replaced, never shortened.
        np.lib.format.open_memmap(self.path / "new.npy", "w+", np.float32, self.shape).flush()
        os.replace(self.path / "new.npy", self.path / "features.npy")
        (self.path / "new.json").write_text(json.dumps(self.about, indent=1))
        os.replace(self.path / "new.json", self.path / "about.json")


def read_about(path: Path) -> dict[str, Any] | None:
    """The description of an entry; None if it cannot be read."""
    try:
        about = json.loads((path / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) else None


def read_checksums(path: Path) -> dict[int, int]:
    """The checksum of each chunk; a line that a killed process left incomplete is ignored."""
    checksums: dict[int, int] = {}
    try:
        lines = (path / "chunks.jsonl").read_text(errors="replace").splitlines()
    except OSError:
        return checksums
    for line in lines:
        try:
            index, checksum = json.loads(line)
            checksums[index] = checksum
        except (ValueError, TypeError):
            continue
    return checksums
