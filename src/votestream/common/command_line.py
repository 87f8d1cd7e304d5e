"""The command that a row says it was made by: what was run, not where things lay on one machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

PLACES = ("--data-dir", "--data", "--features", "--results", "--out")


def without_places(program: str, arguments: Sequence[str], places: Iterable[str] = PLACES) -> str:
    """The command line, options that name a folder or file left out together with their values.

    >>> without_places("votestream", ["bench", "run", "online", "--data-dir", "/mnt/data", "--seeds", "3"])
    'votestream bench run online --seeds 3'
    """
    kept, skip = [], False
    for argument in arguments:
        named = argument.split("=", 1)[0] in places
        if not skip and not named:
            kept.append(argument)
        skip = named and "=" not in argument
    return shlex.join([program, *kept])
