"""Parts that are done, by what they were made from: a job that was stopped finds them again."""

from __future__ import annotations

import os
from pathlib import Path

from votestream.images.urls import Url, as_place
from votestream.io.partial_files import write_whole


class PartStore:
    """A folder, here or behind a URL that every worker can reach; nothing in it is ever changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = PartStore(folder)
    ...     store.put("ab12", b"statistics")
    ...     store.get("ab12"), store.get("cd34")
    (b'statistics', None)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = as_place(folder)

    def get(self, key: str) -> bytes | None:
        """The part of that key; None where there is none."""
        place = self._place(key)
        try:
            return place.read_bytes()
        except FileNotFoundError:
            return None

    def put(self, key: str, part: bytes) -> None:
        """Written under another name and moved, so that a reader finds it whole or not at all."""
        place = self._place(key)
        if isinstance(place, Url):
            place.write_whole(part)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, part)

    def _place(self, key: str) -> Path | Url:
        return self._folder / key[:2] / f"{key}.part"  # a folder of a million files is slow on some systems
