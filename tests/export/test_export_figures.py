"""The figures in docs/export.md are those of results/accuracy/export.csv."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows():
    with (ROOT / "results" / "accuracy" / "export.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def shown(row):
    """A row of results as the page has it."""
    images = row["what"].replace(", test part", "").replace("photos, ", "").replace(": resized in the graph", " photos")
    speed = row["times the model's speed"]
    return (
        f"| {images} | {row['learner']} | {row['weights']} | {int(row['same class']):,} of {int(row['images']):,} | "
        f"{row['largest difference of a probability']} | {row['its 99th percentile']} | "
        f"{row['accuracy of the model']} | {row['accuracy of the file']} | {int(row['bytes']) / 1e6:.1f} | {speed} |"
    )


def test_the_page_shows_the_rows_that_were_measured():
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if re.match(r"\| (CIFAR|\w+ photos)", line)] == [*map(shown, rows())]


def test_float32_files_decide_as_the_model_on_ten_thousand_images():
    whole = [row for row in rows() if row["weights"] == "float32" and row["what"].startswith("CIFAR")]
    assert {row["images"] for row in whole} == {"10000"} == {row["same class"] for row in whole}
    assert max(float(row["largest difference of a probability"]) for row in whole) < 1e-4


def test_what_float16_costs_is_what_the_page_says():
    half = [row for row in rows() if row["weights"] == "float16"]
    changed = sum(int(row["images"]) - int(row["same class"]) for row in half) / sum(int(row["images"]) for row in half)
    assert 0.0005 < changed < 0.0015
    for row in half:
        if row["what"].startswith("CIFAR"):
            assert abs(float(row["accuracy of the model"]) - float(row["accuracy of the file"])) <= 0.05
