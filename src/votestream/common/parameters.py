"""What values a constructor argument may have: declared once, checked for callers and for model files alike."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np


class Range(NamedTuple):
    """Finite numbers from `low` to `high`, and values that are no numbers, such as None or "auto".

    >>> whole(1, 100, None).check("rank", 101)
    Traceback (most recent call last):
    ...
    ValueError: rank must be None or an integer from 1 to 100, got 101
    """

    low: float
    high: float
    integer: bool
    others: tuple[Any, ...]

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError unless the value is allowed."""
        if any(value is other or (isinstance(value, str) and value == other) for other in self.others):
            return
        kinds = (int, np.integer) if self.integer else (int, float, np.number)
        if isinstance(value, bool) or not isinstance(value, kinds) or not self.low <= value <= self.high:
            wanted = "an integer" if self.integer else "a number"
            shown = str if self.integer else "{:g}".format
            either = "".join(f"{other!r} or " for other in self.others)
            given = f"{value!r:.60}"
            raise ValueError(
                f"{name} must be {either}{wanted} from {shown(self.low)} to {shown(self.high)}, got {given}"
            )


class Choice(NamedTuple):
    """One of some values."""

    values: Collection[Any]

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError unless the value is allowed."""
        check_choice(name, value, self.values)


Ranges = dict[str, Range | Choice]


def whole(low: int, high: int, *others: Any) -> Range:
    """Integers."""
    return Range(low, high, True, others)


def real(low: float, high: float, *others: Any) -> Range:
    """Numbers."""
    return Range(low, high, False, others)


def choice(*values: Any) -> Choice:
    """One of these values."""
    return Choice(values)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise a ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shortened(repr(value))}")


SWITCH = choice(False, True)
EXEMPLARS = whole(1, 10**15)  # a budget of exemplars or images: room is taken as they come
LEARNING_RATE = real(1e-9, 100)


def shortened(text: str, most: int = 60) -> str:
    """The text, or its beginning where it is long.

    >>> shortened("a" * 100, most=5)
    'aaaaa...'
    """
    return text if len(text) <= most else f"{text[:most]}..."
