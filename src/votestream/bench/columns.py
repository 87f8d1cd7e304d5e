"""The columns of `SUITE.csv`, declared once: their order, what may stand in them, which of them tell a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


def text(value: str) -> None:
    """Anything may stand there."""


def count(value: str) -> None:
    if not value.isdigit():
        raise ValueError(value)


def number(value: str) -> None:
    if not math.isfinite(float(value)):
        raise ValueError(value)


def finite_numbers(value: str) -> None:
    for each in value.replace(";", " ").split():
        number(each)


def numbers(value: str) -> None:
    list(map(float, value.replace(";", " ").split()))


def as_mapping(value: str) -> None:
    if not isinstance(json.loads(value), dict):
        raise ValueError(value)


def as_list(value: str) -> None:
    if not isinstance(json.loads(value), list):
        raise ValueError(value)


@dataclass(frozen=True)
class Column:
    """`check` raises ValueError where a text is not what readers take it for; an empty cell is never checked.

    Columns with `key` tell a run from the others. `digits` are what tables show of a number.
    """

    name: str
    check: Callable[[str], None] = text
    key: bool = False
    digits: int = 1


COLUMNS = (
    Column("method", key=True),
    Column("learner", key=True),
    Column("settings", as_mapping, key=True),
    Column("stream", key=True),
    Column("options", as_mapping, key=True),
    Column("backbone", key=True),
    Column("digest", key=True),
    Column("seed", count, key=True),
    Column("Q", count),
    Column("paper row"),
    Column("class order", as_list),
    Column("after each task", finite_numbers),
    Column("by task", numbers),  # a semicolon after each test; nan for a task without test samples
    Column("Avg", number),
    Column("Last", number),
    Column("forgetting", number),
    Column("bytes", number, digits=0),
    Column("seconds learning", number),
    Column("seconds predicting", number),
    Column("confusion", numbers),
    Column("error"),
    Column("version"),
    Column("hardware"),
    Column("finished"),
    Column("command"),
    # New columns go to the end: what an earlier version appends meanwhile stays readable.
    Column("norms", numbers),  # they may be lost to infinity
    Column("anytime", finite_numbers),  # samples learned and accuracy, a semicolon after each test
    Column("AAA", number),
    Column("WC-Acc", number),
    Column("prequential", number),
)
FIELDS = tuple(column.name for column in COLUMNS)
KEY = tuple(column.name for column in COLUMNS if column.key)


def key_of(row: Mapping[str, str]) -> tuple[str, ...]:
    """How a row of the results is told from the others: the key of its run."""
    return tuple(row[name] for name in KEY)


def is_sound(row: Mapping[str, str]) -> bool:
    """Whether what readers take for numbers, settings and names is that.

    >>> is_sound({"seed": "0", "Last": "48.7"}), is_sound({"seed": "0", "Last": "lost"})
    (True, False)
    """
    try:
        for column in COLUMNS:
            if row.get(column.name):
                column.check(row[column.name])
    except ValueError:
        return False
    return bool(row["seed"])
