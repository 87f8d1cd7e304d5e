"""Rows become plots and the page: what is drawn, under which names, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from test_bench import row, rows_of
from votestream.bench.appearance import appearances
from votestream.bench.figures import against_rates, curves, names
from votestream.bench.kinds import KINDS, Kind, Style
from votestream.bench.metrics import METRICS
from votestream.bench.plot import _draw_panel, _draw_panels, plot_suite
from votestream.bench.report import page
from votestream.bench.results import Results
from votestream.bench.runs import Method
from votestream.bench.suites import SUITES
from votestream.cli.main import app


@pytest.fixture
def results(tmp_path):
    curve = " ".join(f"{90 - i}" for i in range(20))
    for name in ("online", "bytes", "confusion"):
        results = Results(tmp_path / f"{name}.csv")
        more = {"after each task": curve, "class order": '["<b>", "ox"]', "confusion": "9 1;4 6"}
        for seed in range(2):
            results.append(row("CandidatesVoting", seed, 60 + seed, 46, Q="2000", **more))
            results.append(row("Baseline", seed, 50, 40 + seed, Q="2000", **more))
        results.append(row("<i>mine</i>", 0, "", "", error="Traceback | ValueError: <script>"))
    return tmp_path


@pytest.mark.parametrize("name", ["online", "bytes", "confusion"])
def test_a_plot_is_a_plot(results, name):
    told = CliRunner().invoke(app, ["bench", "plot", name, "--results", str(results), "--out", "p.png"])
    assert told.exit_code == 0, told.output
    with Image.open("p.png") as image:
        assert np.asarray(image.convert("L")).std() > 10


def test_a_method_is_named_once_for_all_panels_in_the_suites_order(tmp_path):
    made = [
        row("GaussianVoting", 0, 60, 50, Q="1000", **{"after each task": "90 80"}),
        *(row(m, 0, 60, 50, Q="2000", **{"after each task": "90 80"}) for m in ("GaussianVoting", "MIR", "ER", "NCM")),
    ]
    panels = curves(SUITES["online"], rows_of(tmp_path, *made))
    assert [len(panel.series) for panel in panels] == [1, 4]
    assert names(SUITES["online"], panels) == ["NCM", "MIR", "ER", "GaussianVoting"]  # the suite's order


def test_the_interval_of_two_seeds_does_not_stretch_the_axis(tmp_path):
    figure = pytest.importorskip("matplotlib.figure")
    made = [row("NCM", seed, 60, 50, **{"after each task": f"{95 - 60 * seed} 40"}) for seed in range(2)]
    (panel,) = curves(SUITES["online"], rows_of(tmp_path, *made))
    assert panel.series[0].half[0] > 100
    axes = figure.Figure().subplots()
    _draw_panel(axes, panel, KINDS["curves"].style, appearances(["NCM"]))
    assert axes.get_ylim() == (0, 100)


def test_intervals_of_one_task_stand_beside_one_another(tmp_path):
    made = [row(m, 0, 60, 50, **{"after each task": "90 80"}) for m in ("NCM", "SLDA", "RLS")]
    (panel,) = curves(SUITES["online"], rows_of(tmp_path, *made))
    left, middle, right = (series.shift for series in panel.series)
    assert -0.5 < left < middle == 0 < right < 0.5
    assert [series.x for series in panel.series] == [[1, 2]] * 3  # what is read off stays the task


def test_confusion_matrices_have_a_colour_bar_and_titles_in_full(results):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    panels = KINDS["confusion"].panels(SUITES["confusion"], Results(results / "confusion.csv").rows())
    _draw_panels(figure, panels, Style(), [])
    assert figure.axes[-1].get_ylabel() == "share of the true class's test samples"
    assert figure.axes[0].get_title() == "Baseline, Q = 2,000\nSplit CIFAR-100: Last 40.0 %"


def test_a_method_that_is_asked_once_is_a_point_at_the_end(tmp_path):
    whole = row("NCM", 0, 60, 50, **{"after each task": "90 60 50", "by task": "90; 60 60; 50 50 50"})
    once = row("RanPAC", 0, "", 40, Q="1000", **{"by task": "40 40 40"})
    earlier = {**whole, "seed": "1", "after each task": "", "by task": "70 70 70", "Last": "70"}
    (panel,) = curves(SUITES["online"], rows_of(tmp_path, whole, earlier, once))
    assert panel.series[0].y == [90, 60, 50]
    assert [(series.label, series.x) for series in panel.series] == [("NCM", [1, 2, 3]), ("RanPAC", [3])]


def test_rates_are_drawn_as_lines_over_the_rate_and_storage_not_at_all(tmp_path):
    results = Results(tmp_path / "rates.csv")
    for lr, last in ((0.1, 50), (0.01, 60)):
        settings = json.dumps({"budget": 2000, "lr": lr})
        results.append(row(f"MIR, lr {lr}", 9, last, last, Q="2000", learner="mir", settings=settings))
    (panel,) = against_rates(SUITES["rates"], results.rows())
    assert [(series.label, series.x, series.y) for series in panel.series] == [("MIR", [0.01, 0.1], [60, 50])]
    told = CliRunner().invoke(app, ["bench", "plot", "rates", "--results", str(tmp_path), "--out", "p.png"])
    assert told.exit_code == 0, told.output
    Results(tmp_path / "storage.csv").append(row("ER", 0, "", 40, Q="1000"))
    told = CliRunner().invoke(app, ["bench", "plot", "storage", "--results", str(tmp_path)])
    assert told.exit_code == 2
    assert "storage has no figure" in told.output
    told = CliRunner().invoke(app, ["bench", "report", "--results", str(tmp_path), "--out", "page.html"])
    assert told.exit_code == 0, told.output
    assert 'data-suite="rates"' in Path("page.html").read_text()
    assert 'data-suite="storage"' not in Path("page.html").read_text()


def test_rates_are_read_from_settings_and_lines_named_by_methods_whatever_these_are_called(tmp_path):
    settings = [{"lr": lr, "replay": 5} for lr in (0.1, 0.3)]
    methods = tuple(Method(f"variant {n}", "er", how, family="ER") for n, how in enumerate(settings))
    rows = [row(m.label, 0, 50, 50 + n, learner="er", settings=m.settings_json) for n, m in enumerate(methods)]
    stranger = [row("mine, lr 0.1", 0, 50, 40, learner="mine:Net", settings='{"lr": 0.2}')]
    (panel,) = against_rates(replace(SUITES["rates"], methods=methods), rows_of(tmp_path, *rows, *stranger))
    assert [(series.label, series.x, series.y) for series in panel.series] == [
        ("ER", [0.1, 0.3], [50, 51]),
        ("mine, lr 0.1", [0.2], [40]),
    ]


def test_a_kind_of_plot_that_is_declared_is_drawn_in_the_plot_and_on_the_page(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(KINDS, "mine", Kind(curves, Style("weeks", "marks", "in week {x}", percent=False)))
    suite = replace(SUITES["online"], plot="mine")
    rows = rows_of(tmp_path, row("NCM", 0, 60, 50, **{"after each task": "900 800"}))
    plot_suite(suite, rows, tmp_path / "p.png")
    with Image.open(tmp_path / "p.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    data = json.loads(re.search(r'id="data">(.*?)</script>', page([(suite, rows)])).group(1))
    assert data["online"]["style"] == {
        **asdict(Style()),
        "x": "weeks",
        "y": "marks",
        "point": "in week {x}",
        "percent": False,
    }
    assert data["online"]["panels"][0]["series"][0]["y"] == [900, 800]


def test_every_suite_shows_what_is_known_and_keeps_what_its_plot_shows():
    for suite in SUITES.values():
        assert set(suite.metrics) <= set(METRICS)
        assert suite.plot in ("", *KINDS)
        assert set(suite.keeps) == {suite.plot} & {"confusion", "norms"}


def test_a_file_that_cannot_be_read_hides_no_other(results):
    path = results / "online.csv"
    path.write_text(path.read_text().replace("\n", "\n<<<<<<< HEAD\n", 2))
    for arguments in (["show", "online"], ["run", "online", "--stream", "sample"]):
        told = CliRunner().invoke(app, ["bench", *arguments, "--results", str(results)])
        assert told.exit_code == 2, told.output
        assert "online.csv, line 2: this is no row of results." in " ".join(told.output.split())
    told = CliRunner().invoke(app, ["bench", "list", "--results", str(results)])
    assert told.exit_code == 1, told.output
    told = CliRunner().invoke(app, ["bench", "report", "--results", str(results), "--out", "page.html"])
    assert told.exit_code == 1, told.output
    assert "Left out: " in told.output
    assert re.findall('href="([^"]*)"', Path("page.html").read_text()) == ["#confusion", "#bytes"]


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing_from_the_rows(results):
    told = CliRunner().invoke(app, ["bench", "report", "--results", str(results), "--out", "page.html"])
    assert told.exit_code == 0, told.output
    text = Path("page.html").read_text()
    assert not re.search(r"https?:|//[a-z]+\.|\bsrc=|<link|@import|url\(", text)
    assert re.findall('href="([^"]*)"', text) == ["#against-the-paper", "#online", "#confusion", "#bytes"]
    assert text.count("<script") == 2
    assert "<i>mine" not in text
    assert "&lt;script&gt;" in text
    assert "<td><b>60.5 ± 6.4</b></td><td><b>51.8</b></td><td>+8.7</td>" in text
