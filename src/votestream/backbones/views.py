"""Views of an image: the sizes in which it is read, and whether it is mirrored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from votestream.backbones.stages import as_names


class View(NamedTuple):
    """One view of an image: its height and width in pixels, and whether it is mirrored.

    >>> View.of("40m")
    View(size=40, mirrored=True)
    >>> str(View(40, True))
    '40m'
    """

    size: int
    mirrored: bool = False

    @classmethod
    def of(cls, text: str) -> View:
        found = re.fullmatch(r"([1-9][0-9]{0,3})(m?)", text)
        if not found:
            raise ValueError(f"A view must be a size in pixels, followed by m if mirrored (32, 32m), got {text!r}.")
        return cls(int(found[1]), bool(found[2]))

    def __str__(self) -> str:
        return f"{self.size}{'m' if self.mirrored else ''}"


def as_views(views: str | Iterable[str]) -> tuple[View, ...]:
    """Views given as a list or in one string, separated by commas.

    >>> [str(view) for view in as_views("32,32m")]
    ['32', '32m']
    """
    return tuple(View.of(name) for name in as_names(views, "views"))
