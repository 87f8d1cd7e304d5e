"""Results as rows of a CSV file, written one by one as runs end."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def rows_of(path: Path) -> list[dict[str, str]]:
    """All rows there are; none if the file is not there yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, Any], fields: Sequence[str] | None = None) -> None:
    """Write one more row; `fields` gives the order of a new file's columns, that of the row unless given."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields or list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
