"""How far merged learning is from learning in sequence, as measured, and as docs/contract.md tells it."""

from __future__ import annotations

import csv
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = {
    "in sequence": ("in sequence", ""),
    "in sequence, the samples of each task reordered": ("in sequence, reordered", ""),
    "merged, a call of `vs.learn` for each task": ("a job a task", "512"),
    "merged, all tasks in one call": ("one job", "512"),
}


def mean(column, data_set, method, learned, chunk, orders=None):
    with (ROOT / "results" / "accuracy" / "merged_learning.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tested on"] == "the test part"]
    wanted = {"data set": data_set, "method": method, "learned": learned, "chunk": chunk}
    found = [float(row[column]) for row in rows if wanted.items() <= row.items()]
    assert len(found) >= 5
    return statistics.fmean(found[:orders])


@pytest.mark.parametrize("data_set", ["CIFAR-100", "CIFAR-10"])
@pytest.mark.parametrize("learned", ["a job a task", "one job"])
@pytest.mark.parametrize("orders", [5, 10])
def test_gaussian_voting_merged_loses_no_tenth_of_a_point_to_learning_in_sequence(data_set, learned, orders):
    merged = mean("Last", data_set, "gaussian_voting", learned, "512", orders)
    assert merged > mean("Last", data_set, "gaussian_voting", "in sequence", "", orders) - 0.1


@pytest.mark.parametrize("data_set", ["CIFAR-100", "CIFAR-10"])
@pytest.mark.parametrize("method", ["ncm", "slda", "rls", "fecam", "ranpac"])
def test_the_others_predict_as_in_sequence(data_set, method):
    same = mean("predicted as in sequence", data_set, method, "a job a task", "512")
    assert same > (99.8 if method in ("slda", "rls") else 99.99)


def test_the_page_tells_what_was_measured():
    page = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    for told, (learned, chunk) in ROWS.items():
        (cells,) = re.findall(rf"^\| {re.escape(told)} \| (.*) \|$", page, re.M)
        expected = []
        for data_set in ("CIFAR-100", "CIFAR-10"):
            last, same = (
                mean(column, data_set, "gaussian_voting", learned, chunk)
                for column in ("Last", "predicted as in sequence")
            )
            expected += [f"{last:.2f}", "" if learned == "in sequence" else f"{same:.1f} %"]
        assert [cell.strip() for cell in cells.split("|")] == expected
