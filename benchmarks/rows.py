"""Results as rows of a CSV file."""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from votestream.bench.metrics import interval
from votestream.common.command_line import without_places

RESULTS = Path(__file__).resolve().parent.parent / "results"
ACCURACY, SPEED, FAULTS = RESULTS / "accuracy", RESULTS / "speed", RESULTS / "faults"
# What every row says it was made by.
COMMAND = without_places("python", [f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


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
        writer = csv.DictWriter(file, fields or list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def write(path: Path, rows: list[dict[str, Any]], fields: Sequence[str] | None = None) -> None:
    """Write all rows in place of what was there."""
    path.unlink(missing_ok=True)
    for row in rows:
        append(path, row, fields)


def spread(values: Sequence[float]) -> str:
    """Mean and half the 95 % interval, as tables show them; nothing for no values."""
    return f"{statistics.fmean(values):.1f} ± {interval(values) or 0:.1f}" if values else ""
