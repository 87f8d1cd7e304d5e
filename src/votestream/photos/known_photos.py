"""Digests of photos that a model has learned, small enough to send to every worker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from votestream.photos.sidecar import Digests, Entry

DIGEST, CLASS = 16, 4  # bytes of an entry: the photo's digest, and the number of its class
DATED = (1 << 8 * CLASS) - 1  # in place of the class: the digest is one of version 0.1.0, over class and photo


class KnownPhotos:
    """20 bytes a photo, sorted, to be searched by halves.

    >>> known = KnownPhotos([("ab" * 16, "oak"), ("01" * 16, "elm")])
    >>> known.has_met(Digests("ab" * 16)), known.knows(Digests("ab" * 16), "elm"), known.nbytes
    (True, False, 40)
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._numbers: dict[str, int] = {}
        found = [bytes.fromhex(digest) + self._class(label) for digest, label in entries]
        self.holds_dated = any(entry.endswith(DATED.to_bytes(CLASS, "big")) for entry in found)
        self._table = b"".join(sorted(found))

    @property
    def nbytes(self) -> int:
        return len(self._table)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self._table + repr(list(self._numbers)).encode()).hexdigest()

    def has_met(self, digests: Digests) -> bool:
        """Whether an earlier run learned it, in whatever class."""
        met = any(number != DATED for number in self._numbers_of(digests.content))
        return met or DATED in self._numbers_of(digests.dated)

    def knows(self, digests: Digests, label: str) -> bool:
        """Whether it was learned in this class."""
        number = self._numbers.get(label)
        known = number is not None and number in self._numbers_of(digests.content)
        return known or DATED in self._numbers_of(digests.dated)

    def _class(self, label: str | None) -> bytes:
        number = DATED if label is None else self._numbers.setdefault(label, len(self._numbers))
        return number.to_bytes(CLASS, "big")

    def _numbers_of(self, digest: str) -> list[int]:
        """The classes of a photo."""
        wanted, size, found = bytes.fromhex(digest), DIGEST + CLASS, []
        low, high = 0, len(self._table) // size if digest else 0
        while low < high:
            middle = (low + high) // 2
            if self._table[middle * size : middle * size + DIGEST] < wanted:
                low = middle + 1
            else:
                high = middle
        while digest and self._table[low * size : low * size + DIGEST] == wanted:
            found.append(int.from_bytes(self._table[low * size + DIGEST : (low + 1) * size], "big"))
            low += 1
        return found
