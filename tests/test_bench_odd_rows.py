"""The bench and what is out of the ordinary: large streams, runs that diverge, damaged files, names that are shared."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import votestream as vs
from test_bench import blobs, row, rows_of
from votestream.bench.appearance import appearances
from votestream.bench.figures import norms
from votestream.bench.finding import added_methods, make_stream
from votestream.bench.metrics import accuracy, measured, norms_of
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results, ResultsError
from votestream.bench.runner import Progress, _line
from votestream.bench.runs import Method, Run, StreamSpec
from votestream.bench.suites import SUITES
from votestream.bench.tables import blocks, failures, latex, markdown, note
from votestream.bench.workers import Report, _told
from votestream.cli.main import app
from votestream.learners import NearestClassMean

HERE = __name__


class WithHead(NearestClassMean):
    """Rows of a head as long as the task is late, counted from 1."""

    length = 1.0

    @property
    def weights_(self):
        return self.length * (self.task_of_class_[:, None] + 1.0) * np.eye(len(self.classes_))


class WithoutLength(WithHead):
    length = 0.0


class Fraction(NearestClassMean):
    def __init__(self, budget: float = 1.0) -> None:
        self.budget = budget


def uneven(seed, backbone=None):
    made = blobs(seed)
    return vs.stream_from(made.data.X, made.data.y, tasks=[4, 2], seed=seed, test_share=0.25, name="uneven")


def no_stream(seed, backbone=None):
    return 3


# ---- files --------------------------------------------------------------------------------------


def test_a_matrix_of_many_classes_is_read_back(tmp_path):
    matrix = ";".join([" ".join(["0"] * 300)] * 300)
    assert len(matrix) > 131_072  # where Python's own csv stops
    (read,) = rows_of(tmp_path, row("NCM", 0, 60, 50, confusion=matrix))
    assert read["confusion"] == matrix


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        (",50,", ",abc,"),
        ("{}", "{tasks"),
        ("{}", "[1]"),
        (",2000,", ",2e3,"),
        ("90 80", "90 eighty"),
        ("90 80", "90 nan"),
    ],
)
def test_a_damaged_cell_is_told_with_its_line(tmp_path, sound, damaged):
    results = Results(tmp_path / "r.csv")
    results.append(row("NCM", 0, 60, 50, Q="2000", **{"after each task": "90 80"}))
    text = results.path.read_text()
    assert sound in text
    results.path.write_text(text.replace(sound, damaged))
    with pytest.raises(ResultsError, match=r"r\.csv, line 2: this is no row of results"):
        results.rows()


def test_a_file_that_is_no_text_is_told_by_name(tmp_path):
    path = tmp_path / "smoke.csv"
    Results(path).append(row("NCM", 0, 60, 50))
    path.write_bytes(path.read_bytes().replace(b"NCM", b"\xff\xfe\xfd"))
    told = CliRunner().invoke(app, ["bench", "show", "smoke", "--results", str(tmp_path)])
    assert told.exit_code == 2
    assert "smoke.csv is no file of results" in " ".join(told.output.split())


# ---- norms --------------------------------------------------------------------------------------


def carried_out(learner, stream="uneven"):
    method = Method("mine", f"{HERE}:{learner}")
    return {
        k: str(v)
        for k, v in carry_out(Run(method, StreamSpec(f"{HERE}:{stream}"), 0, "tiny", "", keeps=("norms",))).items()
    }


def test_the_newest_task_is_what_the_stream_says_where_tasks_differ_in_size():
    made = carried_out("WithHead")
    assert made["norms"] == "1 1 1 1; 2 2;"
    assert measured(made, "newest") == 2
    assert measured(made, "drift") == pytest.approx(6 * np.polyfit(range(6), [1, 1, 1, 1, 2, 2], 1)[0] / (8 / 6))


def test_a_head_of_zeros_and_one_that_diverged_have_no_trend_and_are_not_drawn(tmp_path):
    zeros = carried_out("WithoutLength")
    assert zeros["norms"] == "0 0 0 0; 0 0;"
    lost = {"norms": "nan nan; 1 1;", "by task": "10 10"}
    assert [measured(each, m) for each in (zeros, lost) for m in ("drift", "newest")] == [None] * 4

    suite, fine = SUITES["weight-norms"], {"norms": "1 1; 2 2", "by task": "10 10", "options": '{"tasks": 20}'}
    rows = rows_of(tmp_path, row("CN, online", 0, "", 10, **fine), row("mine", 0, "", 10, **{**fine, **lost}))
    drawn = {series.label for panel in norms(suite, rows) for series in panel.series}
    assert drawn == {"CN, online"}
    Path(tmp_path / "made.csv").rename(tmp_path / "weight-norms.csv")
    told = CliRunner().invoke(app, ["bench", "report", "--results", str(tmp_path), "--out", "page.html"])
    assert told.exit_code == 0, told.output
    text = re.search(r'id="data">(.*?)</script>', Path("page.html").read_text()).group(1)
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


@pytest.mark.parametrize(
    ("row", "sizes"),
    [
        ({"norms": "1 1 1 1 1 1;", "by task": "50 50"}, [6]),  # one task brought all classes of two
        ({"norms": " ".join(["1"] * 100), "by task": " ".join(["50"] * 7)}, [15, 15, 14, 14, 14, 14, 14]),
        ({"norms": "1 1", "by task": "50"}, [2]),
        ({"norms": "", "by task": "50"}, []),
    ],
)
def test_norms_are_read_task_by_task_in_rows_new_and_old(row, sizes):
    assert [len(task) for task in norms_of(row)] == sizes


def test_norms_are_drawn_in_the_suites_order(tmp_path):
    suite = SUITES["weight-norms"]
    fine = {"norms": "1 1; 2 2", "by task": "10 10", "options": '{"tasks": 20}', "paper row": "CN + Exp"}
    rows = rows_of(tmp_path, *(row("CN + Exp, online", 0, "", 10, Q=Q, **fine) for Q in ("10000", "1000", "5000")))
    (panel,) = [panel for panel in norms(suite, rows) if panel.title.startswith("With exemplars")]
    assert [series.label[-6:].strip() for series in panel.series] == ["1,000", "5,000", "10,000"]


# ---- names --------------------------------------------------------------------------------------


def test_learners_of_one_name_from_two_modules_are_both_run_and_both_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("first_net", "second_net"):
        Path(f"{module}.py").write_text("from votestream.learners import NearestClassMean as Net\n")
    held = []
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: held.extend(runs) or sys.exit(7))
    both = ["--learner", "first_net:Net", "--learner", "second_net:Net", "--method", "Net*"]
    CliRunner().invoke(app, ["bench", "run", "smoke", "--seeds", "1", *both])
    assert [run.method.learner for run in held] == ["first_net:Net", "second_net:Net"]

    made = [row("Net", 0, 60, last, learner=f"{name}_net:Net") for name, last in (("first", 50), ("second", 40))]
    made.append(row("NCM", 0, 60, 30, learner="first_net:NCM"))  # the suite has one too
    elsewhere = row("Net", 0, 60, 20, stream="split-cifar10", learner="first_net:Net")
    first, second = blocks(replace(SUITES["smoke"], streams=()), rows_of(tmp_path, *made, elsewhere))
    assert [(line.method, line.cells["Last"].mean) for line in first.lines] == [
        ("Net of first_net:Net", 50),
        ("Net of second_net:Net", 40),
        ("NCM of first_net:NCM", 30),
    ]
    assert [line.method for line in second.lines] == ["Net of first_net:Net"]  # the same name on every stream


def test_a_budget_that_is_no_count_stands_in_the_name(tmp_path):
    (method,) = added_methods(f"{HERE}:Fraction", {"budget": 0.5}, (1000,))
    assert (method.label, method.Q) == ("Fraction, budget=0.5", None)
    (method,) = added_methods(f"{HERE}:Fraction", {"budget": 50}, (1000,))
    assert (method.label, method.Q) == ("Fraction", 50)


def test_no_two_of_thirty_methods_look_the_same():
    assert len(set(appearances([str(i) for i in range(30)]).values())) == 30


def test_what_is_no_stream_is_told():
    with pytest.raises(ValueError, match="no_stream returned int, no Stream"):
        make_stream(StreamSpec(f"{HERE}:no_stream"), 0, None, None)


# ---- what is told -------------------------------------------------------------------------------


def test_tables_of_validation_say_so_and_have_no_figures_of_the_paper(tmp_path):
    Results(tmp_path / "online_validation.csv").append(
        row(
            "CandidatesVoting", 0, 60, 46, Q="2000", stream="split-cifar100", options='{"tasks": 20, "test_share": 0.2}'
        )
    )
    command = ["bench", "table", "online", "--validate", "--results", str(tmp_path)]
    told = CliRunner().invoke(app, command).output
    assert "Tested on a fifth of the training part" in told
    assert "paper" not in told
    assert "| CandidatesVoting | 2000 | 60.0 | 46.0 | 1 |" in told
    assert "paper" in markdown(SUITES["online"], Results(tmp_path / "online_validation.csv").rows())
    assert "fifth" not in note(SUITES["online"])


def test_a_suite_without_rows_says_how_to_make_these(tmp_path):
    told = CliRunner().invoke(app, ["bench", "show", "smoke", "--validate", "--results", str(tmp_path)])
    expected = f"`votestream bench run smoke --validate --results {tmp_path}` makes them."
    assert expected in " ".join(told.output.split())


def test_a_failure_is_told_with_its_whole_reason_budget_and_stream(tmp_path):
    try:
        raise RuntimeError("CUDA error: out of memory\nCompile with | this\nfor more")
    except RuntimeError as error:
        text = _told(error)
    reason = "RuntimeError: CUDA error: out of memory Compile with / this for more"
    assert _told(ValueError("a  b")).splitlines() == ["ValueError: a b"]
    assert text.splitlines()[0].startswith("Traceback")
    assert text.splitlines()[-1] == reason
    rows = rows_of(tmp_path, row("A-GEM", 0, "", "", Q="1000", options='{"tasks": 20}', error=text))
    assert failures(SUITES["online"], rows) == [f"A-GEM, Q 1000 on split-cifar100, seed 0: {reason}"]


def test_a_table_for_a_paper_escapes_what_latex_would_take_for_a_command(tmp_path):
    odd = r"a_b^2~$x{y} 5% #1 & \n"
    tex = latex(SUITES["online"], rows_of(tmp_path, row(odd, 0, 60, 20), row("CandidatesVoting", 0, 50, 30, Q="2000")))
    escaped = r"a\_b\textasciicircum{}2\textasciitilde{}\$x\{y\} 5\% \#1 \& \textbackslash{}n"
    assert escaped in tex
    assert "$-$1.8" in tex  # a minus sign


def test_a_plot_gets_an_ending_if_it_has_none(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Results(tmp_path / "online.csv").append(row("NCM", 0, 60, 50, **{"after each task": "90 80"}))
    told = CliRunner().invoke(app, ["bench", "plot", "online", "--results", str(tmp_path), "--out", "curves"])
    assert "Plot: curves.png" in told.output
    assert Path("curves.png").exists()
    (tmp_path / "there").mkdir()
    for folder in (".", "there"):
        told = CliRunner().invoke(app, ["bench", "plot", "online", "--results", str(tmp_path), "--out", folder])
        assert "is a folder: give the file a name" in " ".join(told.output.replace("│", " ").split())


def test_a_figure_of_bytes_that_nobody_told_is_refused_with_a_reason(tmp_path):
    pytest.importorskip("matplotlib")
    Results(tmp_path / "bytes.csv").append(row("mine", 0, 60, 50, bytes=""))
    told = CliRunner().invoke(app, ["bench", "plot", "bytes", "--results", str(tmp_path), "--out", "b.png"])
    assert told.exit_code == 2
    assert "have nothing to draw" in " ".join(told.output.split())


def test_names_in_brackets_are_shown_as_they_are(tmp_path):
    Results(tmp_path / "online.csv").append(row("Net, path=[/x], mode=[abc]", 0, 60, 50))
    told = CliRunner().invoke(app, ["bench", "show", "online", "--results", str(tmp_path)], env={"COLUMNS": "120"})
    assert "Net, path=[/x], mode=[abc]" in told.output


def test_a_run_is_told_with_the_digits_of_its_table():
    method = Method("NCM", "ncm")
    run = Run(method, StreamSpec("s"), 0, "", "")
    made = {"Avg": None, "Last": 1.84999999, "seconds learning": 0.0, "seconds predicting": 0.0}
    assert "Last 1.9 " in str(_line(Report(run, row=made), Progress(1, 0)))


def test_methods_are_counted_once_for_all_streams():
    told = CliRunner().invoke(app, ["bench", "list"], env={"COLUMNS": "200"}).output
    (line,) = [line for line in told.splitlines() if " online " in line and "exemplar budget" in line]
    labels = {(method.label, method.Q) for method in SUITES["online"].methods}
    assert line.split("│")[4].strip() == str(len(labels))
    assert len(labels) < len(SUITES["online"].methods)


def test_an_accuracy_on_nothing_is_an_error():
    with pytest.raises(ValueError, match="nothing to test on"):
        accuracy(np.array([]), np.array([]))
