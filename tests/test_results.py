"""`results/README.md` says what each file of results is and what made it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = (RESULTS / "README.md").read_text(encoding="utf-8")


def listed() -> dict[str, str]:
    """The command of each file that the page names, by folder and name."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        folder = section.split("\n", 1)[0]
        for name, command in re.findall(r"^\| `([\w-]+\.csv)` \| .* \| `([^`]+)` \|$", section, re.M):
            found[f"{folder}/{name}"] = command
    return found


def rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_names_every_file_of_results_and_no_other():
    there = {path.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("*.csv")}
    assert len(there) > 40
    assert set(listed()) == there


def test_the_rows_of_every_file_were_made_by_the_command_that_the_page_names():
    for name, command in listed().items():
        made_by = {row["command"].replace("'", "") for row in rows(name) if row.get("command")}
        assert made_by, name
        assert [other for other in made_by if not set(command.split()) <= set(other.split())] == [], name
