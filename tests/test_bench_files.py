"""The file of results: rows are whole whatever happens to who writes them, and files of earlier versions go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import votestream as vs
from test_bench_suites import row
from votestream.bench.columns import FIELDS
from votestream.bench.results import Results, ResultsError

ENV = {**os.environ, "PYTHONPATH": str(Path(vs.__file__).parents[1])}  # the package that is under test


def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path):
    results = Results(tmp_path / "r.csv")
    results.append(row("a"))
    whole = results.path.read_bytes()
    results.path.write_bytes(whole + b'zz,"{}",spl')
    assert [each["method"] for each in results.rows()] == ["a"]
    results.append(row("b"))
    assert [each["method"] for each in results.rows()] == ["a", "b"]
    assert results.path.read_bytes().startswith(whole)


@pytest.mark.parametrize("left", [0, 5, 40])
def test_a_torn_header_is_written_anew(tmp_path, left):
    results = Results(tmp_path / "r.csv")
    results.append(row("a"))
    results.path.write_bytes(results.path.read_bytes()[:left])
    assert results.rows() == []
    results.append(row("a"))
    assert len(results.rows()) == 1


def test_a_failed_run_is_done_unless_tried_again_and_then_its_new_row_counts(tmp_path):
    results = Results(tmp_path / "r.csv")
    results.append(row("a", error="Traceback\n  line\nValueError: no"))
    assert len(results.done()) == 1
    assert len(results.done(retry=True)) == 0
    results.append(row("a", Last="40"))
    assert [(each["error"], each["Last"]) for each in results.rows()] == [("", "40")]
    assert results.path.read_bytes().count(b"\n") == 3


def test_a_file_of_other_columns_is_not_gone_on_with(tmp_path):
    (tmp_path / "r.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ResultsError, match="move it away"):
        Results(tmp_path / "r.csv").rows()


# ---- files of an earlier version ----------------------------------------------------------------

EARLIER = FIELDS[: FIELDS.index("norms")]


def old_file(path, *methods):
    lines = [",".join(EARLIER)]
    for seed, method in enumerate(methods):
        made = row(method, seed, error='of, "many" words')
        lines.append(",".join('"{}"'.format(made[name].replace('"', '""')) for name in EARLIER))
    path.write_text("\n".join(lines) + "\n")
    return path.read_bytes()


def test_a_file_with_fewer_columns_is_read_as_it_is(tmp_path):
    path = tmp_path / "r.csv"
    text = old_file(path, "a", "b")
    rows = Results(path).rows()
    assert [(each["method"], each["error"], each["norms"]) for each in rows] == [
        ("a", 'of, "many" words', ""),
        ("b", 'of, "many" words', ""),
    ]
    assert len(Results(path).done()) == 2
    assert path.read_bytes() == text


def test_a_file_with_fewer_columns_gets_the_new_ones_with_the_next_row(tmp_path):
    path = tmp_path / "r.csv"
    old_file(path, "a", "b")
    before = Results(path).rows()
    with path.open("ab") as file:
        file.write(b'"torn')
    Results(path).append(row("c", norms="1 2"))
    assert path.read_text().startswith(",".join(FIELDS) + "\n")
    assert Results(path).rows() == [*before, row("c", norms="1 2")]
    assert sorted(each.name for each in tmp_path.iterdir()) == [".r.lock", "r.csv"]


def test_a_row_that_an_earlier_version_appends_meanwhile_is_read(tmp_path):
    path = tmp_path / "r.csv"
    Results(path).append(row("a", norms="1 2"))
    with path.open("a") as file:
        file.write(",".join(row("b")[name] for name in EARLIER) + "\n")
    Results(path).append(row("c"))
    assert [(each["method"], each["norms"]) for each in Results(path).rows()] == [("a", "1 2"), ("b", ""), ("c", "")]


def test_processes_that_write_a_file_at_once_lose_no_row_whether_it_is_new_or_has_fewer_columns(tmp_path):
    old_file(tmp_path / "old.csv", "old")
    program = (
        "import sys; from votestream.bench.results import Results\n"
        "for i in range(30):\n"
        "    for name in ('new.csv', 'old.csv'):\n"
        "        Results(name).append({'method': sys.argv[1], 'seed': i, 'error': 'x' * 3000, 'norms': '1 ' * 500})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, name], cwd=tmp_path, env=ENV) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    written = [(method, seed) for method in "ab" for seed in range(30)]
    for name, before in (("new.csv", []), ("old.csv", [("old", 0)])):
        rows = Results(tmp_path / name).rows()
        assert sorted((each["method"], int(each["seed"])) for each in rows) == written + before
        assert {len(each["error"]) for each in rows if each["method"] != "old"} == {3000}
