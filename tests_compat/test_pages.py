"""The examples of docs/integrations.md that need another library run, and the versions it names are those pinned."""

from __future__ import annotations

import csv
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
# Sessions run in the ordinary tests; these blocks are by the library that they need.
FOUND = [block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if not block.startswith(">>>")]
BLOCKS = {re.search(r"votestream\.compat\.(\w+)", block)[1]: block for block in FOUND}
NEEDS_JAVA = {"capymoa"}


def output(library, capsys):
    if find_spec(library) is None or (library in NEEDS_JAVA and shutil.which("java") is None):
        pytest.skip(f"{library} is not installed, or there is no Java")
    exec(BLOCKS[library], {})
    return capsys.readouterr().out


def test_each_library_has_one_block():
    assert len(FOUND) == len(BLOCKS)
    assert set(BLOCKS) == {"skops", "river", "avalanche", "capymoa"}


def test_the_example_of_skops_runs(capsys):
    assert output("skops", capsys) == "['elm']\n"


def test_the_example_of_river_runs(capsys):
    assert float(re.fullmatch(r"Accuracy: (.*)%\n", output("river", capsys))[1]) > 85


def test_the_example_of_avalanche_runs(capsys):
    accuracies = [float(line) for line in output("avalanche", capsys).split()]
    assert len(accuracies) == 6
    assert accuracies[:5] == sorted(accuracies[:5])  # more of the test stream is known each time
    assert min(accuracies[4:]) > 0.85


def test_the_example_of_capymoa_runs(capsys):
    assert float(output("capymoa", capsys)) > 90


@pytest.mark.parametrize("package", ["river", "avalanche-lib", "torchvision", "skops", "polars", "capymoa"])
def test_versions_on_the_page_are_those_pinned(package):
    pinned = re.search(rf"^{package}==(.*)$", (ROOT / "constraints-compat.txt").read_text(), re.M)[1]
    name = {"avalanche-lib": "Avalanche", "river": "river", "capymoa": "CapyMOA"}.get(package, package)
    row = next(line for line in PAGE.splitlines() if line.startswith("|") and name in line)
    assert pinned in row


def test_accuracies_on_the_page_are_those_measured():
    with (ROOT / "results" / "accuracy" / "river_prequential.csv").open(newline="") as file:
        found = {(row["model"], row["data"]): row["accuracy"] for row in csv.DictReader(file)}
    shown = re.findall(r"^\| (?:`|river: )([\w ]+)`? \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
    assert len(shown) == len(found) / 2
    for model, *accuracies in shown:
        name = model.replace(" then ", " | ")
        assert accuracies == [found[name, data] for data in ("CIFAR-10", "CIFAR-100")]
