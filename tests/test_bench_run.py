"""`votestream bench run` in processes of its own: what is in the file whatever happens to them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import votestream as vs
from votestream.bench.columns import KEY
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runner import run_all
from votestream.bench.runs import Method, Run, StreamSpec
from votestream.bench.suites import SUITES
from votestream.bench.tables import blocks
from votestream.bench.workers import Workers
from votestream.cli.main import app

DOCS = Path(__file__).parents[1] / "docs" / "bench.md"
MEASURED = (*KEY, "Q", "class order", "after each task", "by task", "Avg", "Last", "forgetting", "bytes", "error")
TROUBLE = """

import os
import time
import warnings

from votestream.learners import NearestClassMean


class Fails(LastSeen):
    def predict(self, X):
        warnings.warn("answers of mine are odd", RuntimeWarning)
        raise RuntimeError("this one never answers")


class SLDA(LastSeen):  # it has the name of a method of the suite
    def predict(self, X):
        warnings.warn("answers of mine are odd", RuntimeWarning)
        return super().predict(X)


class Upright(LastSeen):
    def predict(self, X):
        return super().predict(X)[:, None]


class Dies(LastSeen):
    def predict(self, X):
        os._exit(9)


class Slow(NearestClassMean):
    def learn(self, X, classes, offset):
        time.sleep(0.1)
        super().learn(X, classes, offset)
"""


def example():
    """The file that the documentation shows."""
    return re.search(r"```python\n(import numpy.*?)```", DOCS.read_text(), re.DOTALL).group(1)


def bench(folder, *arguments):
    (folder / "mine.py").write_text(example() + TROUBLE)
    env = {**os.environ, "PYTHONPATH": str(Path(vs.__file__).parents[1]), "VOTESTREAM_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "votestream", "bench", "run", "smoke", *arguments]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process, code=0):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == code, output
    return output


def rows_in(folder):
    return Results(folder / "results" / "smoke.csv").rows()


def lines_in(folder):
    path = folder / "results" / "smoke.csv"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


# ---- the smoke suite, with a learner of one's own and two that fail ------------------------------


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    own = ("Fails", "Dies", "LastSeen", "SLDA", "Upright")
    extra = [part for name in own for part in ("--learner", f"mine:{name}")]
    return folder, ended(bench(folder, "--seeds", "1", "--jobs", "2", *extra), code=1)


def test_the_smoke_suite_ends_where_the_demo_does(smoke):
    last = {row["method"]: float(row["Last"]) for row in rows_in(smoke[0]) if not row["error"]}
    assert last["GaussianVoting"] > last["Baseline + EA + CS(w)"] > last["Baseline + EA + CS(w/o)"] > 45
    assert last["Baseline + EA + CS(w)"] > last["Baseline"]


def test_a_row_says_how_it_came_about(smoke):
    (row,) = [row for row in rows_in(smoke[0]) if row["learner"] == "slda"]
    assert row["digest"] == vs.create_backbone("reduced_resnet18", device="cpu").digest[:12]
    assert row["command"].startswith("votestream bench run smoke --seeds 1")
    assert row["version"] == vs.__version__
    assert "CPU" in row["hardware"]
    assert float(row["seconds learning"]) > 0
    assert float(row["seconds predicting"]) > 0
    assert len(row["after each task"].split()) == 5


def test_the_learner_of_the_documentation_runs_beside_the_others(smoke):
    (row,) = [row for row in rows_in(smoke[0]) if row["method"] == "LastSeen"]
    assert (row["Q"], row["error"]) == ("200", "")
    assert 10 < float(row["Last"]) < 30  # it keeps the last task's two classes of ten
    shown = CliRunner().invoke(app, ["bench", "table", "smoke", "--results", str(smoke[0] / "results")]).output
    assert "| LastSeen | 200 |" in shown


def test_a_run_that_fails_and_one_whose_process_dies_are_recorded_and_the_others_go_on(smoke):
    folder, output = smoke
    errors = {row["method"]: row["error"] for row in rows_in(folder) if row["error"]}
    assert errors["Fails"].endswith("RuntimeError: this one never answers")
    assert errors["Dies"] == "the process died (exit code 9)"
    assert errors["Upright"].endswith("predict returned an array of shape (100, 1) for 100 rows: it must be (100,)")
    assert len(rows_in(folder)) == 12
    assert "3 of them failed; `--retry` runs them again." in output
    shown = CliRunner().invoke(app, ["bench", "show", "smoke", "--results", str(folder / "results")]).output
    assert "Failed: Fails, Q 200 on sample, seed 0: RuntimeError: this one never answers" in " ".join(shown.split())


def test_a_warning_of_several_processes_is_told_once_and_without_a_source_line(smoke):
    assert [line for line in smoke[1].splitlines() if "odd" in line] == ["note: answers of mine are odd"]
    assert "RuntimeWarning" not in smoke[1]


def test_a_learner_with_the_name_of_a_method_is_told_from_it(smoke):
    assert {row["learner"] for row in rows_in(smoke[0]) if row["method"] == "SLDA"} == {"slda", "mine:SLDA"}
    (block,) = blocks(SUITES["smoke"], rows_in(smoke[0]))
    assert {"SLDA", "SLDA of mine:SLDA"} < {line.method for line in block.lines}


def test_a_failed_run_is_run_again_only_when_asked_to(smoke, monkeypatch):
    folder, _ = smoke
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("VOTESTREAM_CACHE", str(folder / "cache"))
    before = lines_in(folder)
    alone = ["bench", "run", "smoke", "--seeds", "1", "--learner", "mine:Fails", "--method", "Fails"]
    told = CliRunner().invoke(app, alone)
    assert "1 of 1 runs were done before" in told.output
    assert told.exit_code == 1  # what was asked for is not there
    assert lines_in(folder) == before
    assert CliRunner().invoke(app, [*alone, "--retry"]).exit_code == 1
    assert lines_in(folder) == before + 1
    assert len(rows_in(folder)) == 12


def test_a_run_that_is_there_is_run_again_when_asked_to_and_the_new_row_counts(smoke, monkeypatch):
    folder, _ = smoke
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VOTESTREAM_CACHE", str(folder / "cache"))
    path = folder / "results" / "smoke.csv"
    before = lines_in(folder)
    alone = ["bench", "run", "smoke", "--seeds", "1", "--method", "NCM"]
    path.write_text(path.read_text().replace(f",{vs.__version__},", ",0.0.1,"))
    assert "1 of 1 runs were done before, 0 done" in CliRunner().invoke(app, alone).output
    assert "Rows of versions" not in CliRunner().invoke(app, ["bench", "show", "smoke"]).output
    assert CliRunner().invoke(app, [*alone, "--again"]).exit_code == 0
    assert lines_in(folder) == before + 1
    assert {row["method"]: row["version"] for row in rows_in(folder)}["NCM"] == vs.__version__
    told = CliRunner().invoke(app, ["bench", "show", "smoke"]).output
    assert f"Rows of versions 0.0.1, {vs.__version__} are together here" in told


# ---- interruptions ------------------------------------------------------------------------------

SERIES = ["--learner", "mine:Slow", "--method", "Slow", "--method", "NCM", "--stream", "mine:blobs", "--seeds", "5"]


def test_killed_and_gone_on_with_by_two_at_once_is_the_same_as_never_stopped(tmp_path, monkeypatch):
    process = bench(tmp_path, *SERIES, "--jobs", "1")
    while lines_in(tmp_path) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    path, before = tmp_path / "results" / "smoke.csv", lines_in(tmp_path)
    assert 3 <= before < 10
    kept = path.read_bytes()
    path.write_bytes(kept + b'Slow,mine:Slow,{},"torn')

    both = [bench(tmp_path, *SERIES, "--jobs", "1") for _ in range(2)]
    outputs = [ended(process) for process in both]
    assert sum(int(re.search(r"(\d+) done in", output).group(1)) for output in outputs) == 10 - before
    assert path.read_bytes().startswith(kept)
    assert lines_in(tmp_path) == 10
    assert list((tmp_path / "results" / ".smoke.running").iterdir()) == []

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    digest = vs.create_backbone("reduced_resnet18", device="cpu").digest[:12]
    whole = Results(tmp_path / "whole.csv")
    for seed in range(5):
        for method in (Method("NCM", "ncm"), Method("Slow", "mine:Slow")):
            whole.append(carry_out(Run(method, StreamSpec("mine:blobs"), seed, "reduced_resnet18", digest)))
    assert measured(rows_in(tmp_path)) == measured(whole.rows())


def test_what_a_process_left_that_died_when_its_row_was_written_is_cleared_away(tmp_path):
    run = Run(Method("NCM", "ncm"), StreamSpec("mine:blobs"), 0, "reduced_resnet18", "d")
    results = Results(tmp_path / "smoke.csv")
    results.claim(run)  # and dies, once the row is there
    results.append(run.columns)
    (left,) = (tmp_path / ".smoke.running").iterdir()
    assert run_all([run], results).done_before == 1
    assert not left.exists()


def measured(rows):
    return sorted(tuple(row[name] for name in MEASURED) for row in rows)


def test_ctrl_c_ends_the_processes_gives_back_the_runs_and_says_how_to_go_on(monkeypatch):
    started = []

    def interrupted(workers, timeout):
        started.extend(process for process, _ in workers._busy.values())
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "reports", interrupted)
    told = CliRunner().invoke(app, ["bench", "run", "smoke", "--jobs", "1"])
    assert told.exit_code == 130
    assert "Interrupted. No run had ended yet; run the same command to continue." in told.output
    assert [process.is_alive() for process in started] == [False]
    assert list(Path("results/.smoke.running").iterdir()) == []


# ---- in a process, with a package's entry points ------------------------------------------------

PACKAGE = '''
import numpy as np

import votestream as vs


class Ridge(vs.learners.StreamingRidge):
    """A learner of a package of one's own."""


def shades(seed, backbone=None, test_share=None):
    """Twelve grey images of each of four classes."""
    y = np.repeat(["night", "dusk", "dawn", "day"], 12)
    bright = np.repeat([20, 90, 160, 230], 12)[:, None, None, None]
    X = (bright + np.random.default_rng(0).integers(-20, 21, (48, 32, 32, 3))).astype(np.uint8)
    return vs.stream_from(X, y, tasks=2, seed=seed, backbone=backbone, test_share=test_share or 0.25, name="shades")
'''


@pytest.fixture
def package(tmp_path):
    """What pip leaves behind: a module, and what it offers."""
    (tmp_path / "shaded.py").write_text(PACKAGE)
    about = tmp_path / "shaded-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shaded\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[votestream.learners]\nshaded_ridge = shaded:Ridge\n\n[votestream.streams]\nshades = shaded:shades\n"
    )
    return tmp_path


def test_offline_rivals_and_a_packages_learner_run_in_processes(package):
    """The whole way on the CPU, with the built-in backbone: command, worker, network, row, table."""
    paths = os.pathsep.join([str(Path(vs.__file__).parents[1]), str(package)])
    env = {**os.environ, "PYTHONPATH": paths, "VOTESTREAM_CACHE": str(package)}
    command = [
        sys.executable,
        "-m",
        "votestream.cli.main",
        "bench",
        "run",
        "offline",
        "--preset",
        "short",
        "--seeds",
        "1",
    ]
    chosen = ["CN + Exp, short", "CandidatesVoting", "GaussianVoting", "shaded_ridge"]
    command += [part for name in chosen for part in ("--method", name)]
    command += ["--learner", "shaded_ridge", "--stream", "shades", "--limit", "6", "--jobs", "2", "--device", "cpu"]
    ended = subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {each["method"]: each for each in Results(package / "results" / "offline.csv").rows()}
    assert set(rows) == set(chosen)
    assert {each["error"] for each in rows.values()} == {""}
    assert {each["options"] for each in rows.values()} == {'{"limit": 6}'}
    assert json.loads(rows["CandidatesVoting"]["settings"]) == {"budget": 2000, "first_passes": 10}
    assert json.loads(rows["CN + Exp, short"]["settings"])["preset"] == "short"
    assert float(rows["GaussianVoting"]["Last"]) > 60
