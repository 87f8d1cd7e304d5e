"""What a user may have meant by a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def begun(names: Iterable[str]) -> str:
    """Names as messages list them: the beginnings of the first few.

    >>> begun(["resnet5", 100 * "x"])
    'resnet5, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    """
    return ", ".join(f"{name:.60}" for name in list(names)[:5])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known names as a question, or all of them where none is near.

    Example:
        >>> did_you_mean("resnet5", ["resnet50", "resnet18", "vgg16"])
        "Did you mean 'resnet50' or 'resnet18'?"
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return f"Known: {', '.join(known[:20])}{', ...' if len(known) > 20 else '.'}"
