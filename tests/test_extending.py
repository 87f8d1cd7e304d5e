"""docs/extending.md shows one file, a package's entry points and its tests: they work as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import votestream as vs
from conftest import one_thread
from test_plugins import install
from votestream.cli.main import app
from votestream.testing import learner_checks

DOCS = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
*MODULE, TESTS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
(PYPROJECT,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The package, as pip would install it."""
    points = {}
    for line in PYPROJECT.splitlines():
        if group := re.fullmatch(r'\[project\.entry-points\."(.*)"\]', line):
            points[group[1]] = {}
        elif line:
            name, value = re.fullmatch(r'(\w+) = "(.*)"', line).groups()
            points[list(points)[-1]][name] = value
    install(tmp_path, "\n\n".join(MODULE), points)
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield points
    sys.modules.pop("my_plugin", None)


def test_every_entry_point_of_the_page_is_known(plugin):
    assert plugin["votestream.learners"].keys() <= set(vs.list_learners())
    assert plugin["votestream.backbones"].keys() <= set(vs.list_backbones())
    assert plugin["votestream.keep_rules"].keys() <= set(vs.list_keep_rules())
    assert plugin["votestream.streams"].keys() <= set(vs.list_streams())
    assert plugin["votestream.suites"].keys() <= set(vs.list_suites())
    assert len(plugin) == 5


def test_the_pages_tests_pass(plugin):
    shown: dict = {}
    exec(TESTS, shown)
    for check in learner_checks(shown["ClassSums"]):
        shown["test_the_contract"](check)
    shown["test_last_in"]()
    with one_thread():
        shown["test_balanced_replay"]()


def test_the_pages_suite_runs(plugin):
    ended = CliRunner().invoke(app, ["bench", "run", "newest", "--jobs", "1", "--seeds", "1", "--device", "cpu"])
    assert ended.exit_code == 0, ended.output
    table = CliRunner().invoke(app, ["bench", "table", "newest"]).output
    for method in ("Class sums", "kNN, last_in", "kNN, mean_distance", "Balanced replay"):
        assert f"| {method} |" in table, table
