"""`votestream bench run --log`: what is recorded of a run, and that no record costs a row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from votestream.bench import logs
from votestream.bench.logs import Logs, as_record
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runner import run_all
from votestream.bench.runs import Method, Run, StreamSpec
from votestream.bench.suites import find_suite
from votestream.cli.main import app


def ncm_run(**more):
    method = Method("NCM", "ncm")
    return Run(method, StreamSpec("sample", {"tasks": 2, "limit": 5}), 0, "reduced_resnet18", "0" * 12, **more)


class Kept:
    """A log that keeps records in memory; it fails from the so many-th on."""

    def __init__(self, fails_at=99):
        self.records, self.figures, self.fails_at, self.closed = [], [], fails_at, False

    def add(self, record):
        if len(self.records) + 1 >= self.fails_at:
            raise ConnectionError("the server is gone")
        self.records.append(record)

    def add_figure(self, suite, path):
        self.figures.append((suite, Path(path).read_bytes()[:4]))

    def close(self):
        self.closed = True


@pytest.fixture
def kept(monkeypatch):
    log = Kept()
    monkeypatch.setattr(logs, "_open", lambda name: log)
    return log


def test_a_record_says_what_the_row_says():
    row = carry_out(ncm_run(anytime=20), "cpu")
    record = as_record("smoke", row)
    so_far = [float(value) for value in row["after each task"].split()]
    assert record.curves["accuracy/all so far"] == [(1, so_far[0]), (2, so_far[1])]
    assert [step for step, _ in record.curves["accuracy/task 2"]] == [2]
    assert record.by_samples[-1] == (50, so_far[-1])
    assert record.numbers["Last"] == pytest.approx(row["Last"], abs=0.01)
    assert record.numbers["AAA"] == row["AAA"]
    assert record.settings["learner"] == "ncm"
    assert record.settings["options.limit"] == 5
    assert record.about["version"] == row["version"]
    assert record.name == "NCM on sample, seed 0"


def test_runs_are_recorded_by_the_driver_as_they_end_and_failed_ones_too(tmp_path, kept):
    suite = find_suite("smoke")
    recorder = Logs(suite, ["tensorboard"])
    results = Results(tmp_path / "smoke.csv")
    fails = Run(Method("none", "no_such_module:Learner"), StreamSpec("sample"), 0, "reduced_resnet18", "0" * 12)
    run_all([ncm_run(), fails], results, jobs=1, device="cpu", log=recorder.add)
    assert [(record.name, bool(record.error)) for record in kept.records] == [
        ("NCM on sample, seed 0", False),
        ("none on sample, seed 0", True),
    ]
    assert not kept.records[1].numbers
    recorder.finish(results.rows())
    assert kept.closed
    assert kept.figures in ([("smoke", b"\x89PNG")], [])  # the second where matplotlib is not installed


def test_a_log_that_fails_is_told_once_and_costs_no_row(tmp_path, kept):
    kept.fails_at = 1
    recorder = Logs(find_suite("smoke"), ["wandb"])
    with pytest.warns(UserWarning, match=r"wandb keeps no more records of these runs \(ConnectionError: the server is"):
        recorder.add(carry_out(ncm_run(), "cpu"))
    recorder.add(carry_out(ncm_run(), "cpu"))
    recorder.finish([])
    assert not kept.records


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mlflow", "--log mlflow needs the package mlflow, which is not installed: `pip install mlflow`."),
        ("wandb", "--log wandb needs the package wandb, which is not installed: `pip install wandb`."),
        ("paper", "--log must be one of mlflow, tensorboard, wandb, got paper"),
    ],
)
def test_a_library_that_is_missing_or_unknown_is_told_before_anything_runs(monkeypatch, name, told):
    monkeypatch.setitem(sys.modules, name, None)
    said = CliRunner().invoke(app, ["bench", "run", "smoke", "--log", name])
    assert said.exit_code == 2
    assert told in said.stderr
    assert not list(Path("results").glob("*.csv"))
