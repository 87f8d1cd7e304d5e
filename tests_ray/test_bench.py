"""`votestream bench run --on ray`: cells are tasks; one whose worker was killed runs again, a finished one never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from votestream.bench.columns import KEY
from votestream.bench.results import Results

pytest.importorskip("ray")

LEARNERS = """
import os
from pathlib import Path

from votestream.learners import NearestClassMean

class DiesOnce(NearestClassMean):
    def predict(self, X):
        if not Path(os.environ["DIED"]).exists():
            Path(os.environ["DIED"]).touch()
            os._exit(9)
        return super().predict(X)


class DiesAlways(NearestClassMean):
    def predict(self, X):
        os._exit(9)
"""
MEASURED = (*KEY, "class order", "after each task", "by task", "Avg", "Last", "forgetting", "bytes", "error")


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "votestream", "bench", "run", "smoke", "--seeds", "1", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def rows_in(folder: Path) -> dict[str, dict[str, str]]:
    return {row["method"]: row for row in Results(folder / "results" / "smoke.csv").rows()}


@pytest.fixture(scope="module")
def ran(cluster, tmp_path_factory):
    """The folder of a run on Ray with a learner that dies once and one that always does, and what it printed."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "mine.py").write_text(LEARNERS)
    asked = ["--method", "NCM", "--method", "Baseline", "--method", "mine:*", "--on", "ray", "--jobs", "2"]
    own = [part for name in ("DiesOnce", "DiesAlways") for part in ("--learner", f"mine:{name}")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ADDRESS", cluster.address)
        yield folder, bench(folder, *asked, *own)


def test_rows_are_those_of_processes_here(ran, tmp_path):
    folder, told = ran
    bench(tmp_path, "--method", "NCM", "--method", "Baseline", "--jobs", "1")
    here, there = rows_in(tmp_path), rows_in(folder)
    assert here.keys() == {"NCM", "Baseline"}, told.stderr
    for method, row in here.items():
        assert {name: there[method][name] for name in MEASURED} == {name: row[name] for name in MEASURED}


def test_a_cell_whose_worker_was_killed_runs_again(ran):
    folder, _ = ran
    row = rows_in(folder)["DiesOnce"]
    assert not row["error"]
    assert float(row["Last"]) == float(rows_in(folder)["NCM"]["Last"])


def test_a_cell_at_which_three_workers_die_has_failed_and_says_so(ran):
    folder, told = ran
    assert told.returncode == 1
    assert "3 of Ray's workers died at it" in rows_in(folder)["DiesAlways"]["error"]
    assert "(raylet)" not in told.stdout + told.stderr  # Ray's own messages begin so


def test_a_finished_cell_never_runs_again(ran):
    folder, _ = ran
    before = (folder / "results" / "smoke.csv").read_bytes()
    again = bench(folder, "--method", "NCM", "--method", "Baseline", "--on", "ray")
    assert "2 of 2 runs were done before, 0 done" in again.stdout
    assert (folder / "results" / "smoke.csv").read_bytes() == before


def test_a_gpu_that_the_cluster_has_not_is_named(ran, tmp_path):
    told = bench(tmp_path, "--method", "NCM", "--on", "ray", "--device", "cuda")
    assert told.returncode == 2
    assert "the Ray cluster has no GPU" in told.stderr
