"""Tests between tasks: what they measure, what they change, and what they cost nobody who does not ask for them."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from test_bench import BLOBS, blobs, row, rows_of
from test_bench_suites import IMAGES
from votestream.bench.columns import FIELDS
from votestream.bench.course import Course
from votestream.bench.figures import anytime
from votestream.bench.metrics import anytime_of, measured, worst_case
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runs import Method, Run
from votestream.bench.suites import SUITES
from votestream.bench.tables import blocks, comma_separated
from votestream.cli.main import app
from votestream.learners import NearestClassMean

ON_FEATURES = ["ncm", "slda", "rls", "fecam", "knn", "er_features", "candidates_voting", "gaussian_voting"]


class Counting(NearestClassMean):
    """Counts how often it is asked."""

    asked = 0

    def predict(self, X):
        Counting.asked += 1
        return super().predict(X)


class WholeTasks(NearestClassMean):
    """Is given each task whole, as the rivals of many passes are."""

    whole_tasks = True

    def fit_task(self, X, y, task=None):
        return self.partial_fit(X, y, task=task)


def run_of(learner, every=0, stream=BLOBS, ask="each", **settings):
    return Run(Method(learner, learner, settings, ask=ask), stream, 0, "reduced_resnet18", "d", anytime=every)


def by_hand(every):
    """Test, then train, in mini-batches of 10, 60 samples a task, as the definitions say."""
    model, tests, right, learned = vs.create("ncm", seed=0), [], 0, 0
    for task in (stream := blobs(0)):
        X, y = task.test
        for number, (x, labels) in enumerate(task, 1):
            right += 0 if not learned else int((model.predict(x) == labels).sum())
            model.partial_fit(x, labels, task=task.name)
            learned += len(labels)
            if 10 * number % every == 0 or number == len(task):
                hits = model.predict(X) == y
                groups = [np.isin(y, earlier.new_classes) for earlier in list(stream)[: task.number + 1]]
                tests.append((learned, 100 * hits.mean(), [100 * hits[group].mean() for group in groups]))
    return tests, 100 * right / learned


def test_a_run_is_tested_every_so_many_samples_and_measured_as_the_definitions_say():
    made, (tests, prequential) = carry_out(run_of("ncm", every=20)), by_hand(20)
    told = [test.split() for test in made["anytime"].split(";")]
    assert [int(samples) for samples, _ in told] == [20, 40, 60, 80, 100, 120, 140, 160, 180]
    assert [int(samples) for samples, _ in told] == [learned for learned, _, _ in tests]
    assert [float(accuracy) for _, accuracy in told] == pytest.approx([a for _, a, _ in tests], abs=0.01)
    assert made["AAA"] == pytest.approx(statistics.fmean(a for _, a, _ in tests))
    first = min(by_task[0] for _, _, by_task in tests[3:])  # while the second and third task were learned
    second = min(by_task[1] for _, _, by_task in tests[6:])
    assert made["WC-Acc"] == pytest.approx(tests[-1][2][2] / 3 + 2 / 3 * (first + second) / 2)
    assert made["prequential"] == pytest.approx(prequential)
    assert 10 < made["prequential"] < 100


def test_a_task_that_so_many_samples_do_not_divide_is_tested_at_its_end_too():
    course = Course(vs.create("ncm"), blobs(0), anytime=25)
    tests = list(course.tests())
    assert [test.samples for test in tests] == [30, 60, 90, 120, 150, 180]  # whole mini-batches of 10
    assert [test.ends_task for test in tests] == [False, True] * 3
    assert [len(test.by_task) for test in tests] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("learner", ON_FEATURES)
def test_tests_between_tasks_do_not_change_what_is_learned(learner):
    often, seldom = carry_out(run_of(learner, every=20)), carry_out(run_of(learner))
    same = ("after each task", "by task", "Avg", "Last", "forgetting", "bytes", "class order")
    assert {name: often[name] for name in same} == {name: seldom[name] for name in same}
    assert 0 < often["WC-Acc"] <= 100


def test_without_anytime_a_run_is_asked_after_tasks_only_and_its_row_has_nothing_new():
    Counting.asked = 0
    made = carry_out(run_of(f"{__name__}:Counting"))
    assert Counting.asked == 3
    assert [made[name] for name in ("anytime", "AAA", "WC-Acc", "prequential")] == ["", None, None, None]
    assert json.loads(made["options"]) == {}


def test_anytime_asks_once_a_mini_batch_and_once_a_test():
    Counting.asked = 0
    carry_out(run_of(f"{__name__}:Counting", every=30))
    assert Counting.asked == 17 + 6  # the first mini-batch of 18 meets a model that knows nothing


def test_a_learner_of_whole_tasks_and_one_that_is_costly_to_ask_are_tested_as_without_it():
    whole = carry_out(run_of(f"{__name__}:WholeTasks", 20))
    costly = carry_out(run_of("ncm", 20, ask="last"))
    for made in (whole, costly):
        assert [made[name] for name in ("anytime", "AAA", "WC-Acc", "prequential")] == ["", None, None, None]
    assert len(whole["after each task"].split()) == 3


def test_a_learner_that_trains_a_network_is_tested_between_tasks_but_not_before_each_mini_batch():
    made = carry_out(run_of("er", 30, IMAGES, budget=30, backbone="tiny"), "cpu")
    assert len(made["anytime"].split(";")) > 3
    assert made["AAA"] > 0
    assert made["prequential"] is None


def test_worst_case_counts_from_when_a_task_was_learned():
    assert worst_case([[10.0], [90.0], [80.0, 20.0], [85.0, 60.0]]) == (60 + 80) / 2


def test_worst_case_of_a_single_task_is_its_accuracy_and_tasks_without_tests_are_passed_over():
    nan = float("nan")
    assert worst_case([[70.0], [80.0]]) == 80.0
    assert worst_case([[nan], [nan, 60.0], [nan, 50.0, 80.0]]) == pytest.approx(80 / 3 + 50 * 2 / 3)
    assert worst_case([[90.0], [80.0, nan]]) is None


# ---- rows ---------------------------------------------------------------------------------------


def test_a_run_fills_every_column_that_is_declared_and_no_other():
    made = carry_out(run_of("ncm", every=20))
    assert set(FIELDS) - set(made) == {"error", "command"}  # which whoever runs it adds
    assert set(made) <= set(FIELDS)


def test_backward_transfer_follows_from_rows_of_earlier_versions():
    matrix = "90; 70 80; 75 60 95"
    assert measured(row("NCM", 0, 60, 50, **{"by task": matrix, "after each task": "90 75 77"}), "BWT") == -17.5
    assert measured(row("NCM", 0, "", 50, **{"by task": "75 60 95"}), "BWT") is None  # tested once


def test_rows_tested_every_so_many_samples_are_not_averaged_with_others(tmp_path):
    runs = [replace(run_of("ncm"), seed=seed, anytime=every) for seed, every in ((0, 0), (1, 20), (2, 30))]
    assert len({run.key for run in runs}) == 3
    rows = rows_of(tmp_path, *({**run.columns, "Last": 50 + run.seed} for run in runs))
    assert [[line.cells["Last"].mean for line in block.lines] for block in blocks(SUITES["smoke"], rows)] == [
        [50.0],
        [51.0],
        [52.0],
    ]


def test_a_stream_keeps_its_name_and_the_papers_figures_when_it_is_tested_between_tasks(tmp_path):
    options = '{"anytime": 500, "tasks": 20}'
    (block,) = blocks(SUITES["online"], rows_of(tmp_path, row("GDUMB", 0, 60, 50, Q="2000", options=options)))
    assert block.stream == "split-cifar100"
    (line,) = [line for line in block.lines if line.seeds]
    assert line.cells["Last"].paper == 26.4


# ---- the command, tables and plots --------------------------------------------------------------


def test_the_command_says_how_often_and_a_suite_may_have_its_own(monkeypatch):
    held = []
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: held.extend(runs) or sys.exit(7))
    command = ["bench", "run", "smoke", "--seeds", "1"]
    for extra in ([], ["--anytime", "100"]):
        CliRunner().invoke(app, [*command, *extra])
    assert [run.anytime for run in held] == [0] * 7 + [100] * 7
    assert {run.anytime for run in SUITES["anytime"].runs("d", range(1))} == {500}
    told = CliRunner().invoke(app, [*command, "--anytime", "0"])
    assert told.exit_code == 2
    assert "Invalid value for '--anytime'" in told.output


@pytest.fixture
def results(tmp_path):
    results = Results(tmp_path / "smoke.csv")
    for learner in ("ncm", "slda"):
        for seed in range(2):
            results.append(carry_out(replace(run_of(learner, every=20), seed=seed)))
    return tmp_path


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_tables_show_the_metrics_that_are_asked_for(results):
    told = bench("table", "smoke", "--results", results, "--metric", "AAA", "--metric", "BWT")
    assert "| method | Q | AAA | BWT | seeds |" in told.output
    rows = Results(results / "smoke.csv").rows()
    mean = statistics.fmean(float(each["AAA"]) for each in rows if each["method"] == "ncm")
    assert f"| ncm |  | {mean:.1f} ± " in told.output
    suite = replace(SUITES["smoke"], metrics=("AAA",))
    (cell,) = [c for c in csv.DictReader(io.StringIO(comma_separated(suite, rows))) if c["method"] == "ncm"]
    assert float(cell["mean"]) == pytest.approx(mean, rel=1e-5)
    told = bench("show", "smoke", "--results", results, "--metric", "AAB")
    assert told.exit_code == 2
    assert "There is no metric 'AAB'. Did you mean 'AAA'" in told.output


def test_accuracy_over_samples_is_drawn_in_the_plot_and_on_the_page(results, monkeypatch):
    (panel,) = anytime(SUITES["smoke"], Results(results / "smoke.csv").rows())
    assert [series.label for series in panel.series] == ["ncm", "slda"]
    assert panel.series[0].x == [20.0 * step for step in range(1, 10)]
    assert all(half is not None for half in panel.series[0].half)
    told = bench("plot", "smoke", "--results", results, "--kind", "anytime", "--out", results / "p.png")
    assert told.exit_code == 0, told.output
    with Image.open(results / "p.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    told = bench("plot", "smoke", "--results", results, "--kind", "anytim")
    assert told.exit_code == 2
    assert "There is no kind of plot 'anytim'. Did you mean 'anytime'?" in told.output
    Path(results / "smoke.csv").rename(results / "anytime.csv")
    assert bench("report", "--results", results, "--out", results / "page.html").exit_code == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', (results / "page.html").read_text()).group(1))
    assert data["anytime"]["style"]["point"] == "after {x} samples"
    assert len(data["anytime"]["panels"][0]["series"]) == 2


# ---- what the documentation says ----------------------------------------------------------------

ROOT = Path(__file__).parents[1]


def fall(each):
    """How far accuracy falls from the end of a task to 500 samples of the next, on average."""
    accuracies = [accuracy for _, accuracy in anytime_of(each)]
    return statistics.fmean(accuracies[end - 1] - accuracies[end] for end in range(5, 100, 5))


def test_every_figure_in_the_findings_is_one_that_the_bench_measured():
    text = (ROOT / "docs" / "bench.md").read_text()
    findings = text[text.index("Results for Split CIFAR-100, three seeds") : text.index("## Rivals that train")]
    told, falls = findings.split("falls by")
    table = re.findall(r"\d+\.\d", (ROOT / "docs" / "tables" / "anytime.md").read_text().partition("###")[2])
    figures = re.findall(r"\d+\.\d", told)
    assert len(figures) >= 10
    assert set(figures) <= set(table)
    rows = Results(ROOT / "results" / "accuracy" / "anytime.csv").rows()
    measured_falls = {
        name: f"{statistics.fmean(fall(each) for each in rows if each['method'] == name):.1f}"
        for name in ("CandidatesVoting, to the letter", "RLS", "RanPAC", "FeCAM", "GaussianVoting")
    }
    assert re.findall(r"\d+\.\d", falls) == list(measured_falls.values())
