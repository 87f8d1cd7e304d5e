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
            either = "".join(f"{other!r} or " for other in self.others)
            low, high = (f"{end:.0f}" if self.integer else f"{end:g}" for end in (self.low, self.high))
            raise ValueError(f"{name} must be {either}{wanted} from {low} to {high}, got {shown(value)}")


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
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")


SWITCH = choice(False, True)
EXEMPLARS = whole(1, 10**15)  # a budget of exemplars or images: room is taken as they come
LEARNING_RATE = real(1e-9, 100)


def shown(value: Any, most: int = 60) -> str:
    """The value as messages quote it: its `repr`, or the beginning of that where it is long.

    >>> shown("a" * 100, most=5), shown(10**5000)
    ("'aaaa...", 'an integer of 16610 bits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write such numbers down
        text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."
