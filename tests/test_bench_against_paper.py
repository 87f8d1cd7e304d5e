"""The paper's figures beside ours, the appearance of a method in every plot, and what tables mark as the best."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from test_bench import row, rows_of
from votestream.bench import paper
from votestream.bench.appearance import METHODS, OURS, appearances, split
from votestream.bench.figures import Beside, Mark, against_paper, joined
from votestream.bench.kinds import KINDS
from votestream.bench.methods import rivals
from votestream.bench.report import page
from votestream.bench.results import Results
from votestream.bench.suites import SUITES
from votestream.bench.tables import best_places, blocks, groups, header
from votestream.cli.main import app

LITE = {"backbone": "efficientnet_lite0", "digest": "e"}


@pytest.fixture
def online(tmp_path):
    """Two seeds of MIR, one of GSS to the letter, ours, and a method without a budget."""
    return rows_of(
        tmp_path,
        *(row("MIR", seed, 50, 40 + 2 * seed, Q="2000", **{"paper row": "MIR"}) for seed in range(2)),
        row("GSS, to the letter", 0, 30, 15, Q="2000", **{"paper row": "GSS"}),
        row("GaussianVoting", 0, 70, 58, Q="2000"),
        row("GaussianVoting", 0, 70, 57, Q="1000"),
        row("NCM", 0, 60, 48),
    )


def test_the_papers_figures_stand_beside_what_the_rows_say(online):
    (table,) = against_paper(SUITES["online"], online)
    assert table.title == "Online methods, Split CIFAR-100: accuracy after the last task (%)"
    assert table.columns == ["Q = 1,000", "Q = 2,000", "Q = 5,000", "Q = 10,000"]
    mir, gss = table.cells["MIR"]["Q = 2,000"], table.cells["GSS"]["Q = 2,000"]
    assert mir.paper == paper.figure("online", "split-cifar100", "MIR", 2000, "Last") == 26.1
    assert (mir.marks[0].mean, mir.marks[0].seeds) == (41, 2)
    assert mir.marks[0].half == pytest.approx(12.7, abs=0.05)
    assert gss == Beside(16.7, [Mark("to the letter", 15, None, 1)])
    assert table.cells["MIR"]["Q = 1,000"] == Beside(19.1, [])  # what was not run is the paper's figure alone


def test_methods_that_the_paper_has_not_come_after_its_own_the_best_first(online):
    (table,) = against_paper(SUITES["online"], online)
    assert table.papers == ["A-GEM", "MIR", "GSS", "ASER", "GDUMB", "CandidatesVoting"]
    assert table.others == ["GaussianVoting", "NCM"]
    assert set(table.cells["GaussianVoting"]) == {"Q = 1,000", "Q = 2,000"}
    assert set(table.cells["NCM"]) == set(table.columns)  # it has no budget, and stands beside every one


def test_the_ablation_and_the_augmentation_are_columns_of_one_table(tmp_path):
    ablation = [
        row("Baseline + EA", 0, 52, 31, Q="2000"),
        row("Baseline + EA + CS(w), not centred", 0, 55, 33, Q="2000"),
    ]
    (tmp_path / "other").mkdir()
    augmentation = rows_of(tmp_path / "other", row("Baseline + EA", 0, 51, 30, Q="1000"))
    (table,) = joined(
        [
            *against_paper(SUITES["ablation"], rows_of(tmp_path, *ablation)),
            *against_paper(SUITES["augmentation"], augmentation),
        ]
    )
    assert table.columns == ["Q = 1,000", "Q = 2,000", "Q = 5,000", "Q = 10,000"]
    assert table.cells["Baseline + EA"]["Q = 1,000"] == Beside(18.5, [Mark("", 51, None, 1)])
    assert table.cells["Baseline + EA"]["Q = 2,000"] == Beside(20.1, [Mark("", 52, None, 1)])
    assert not table.others  # a variant that is neither to the letter nor short stands in the tables only


def test_a_larger_network_stands_beside_the_papers_resnet_50_only(tmp_path):
    steps = {"options": '{"tasks": 10}', "backbone": "reduced_resnet18"}
    made = [
        row("CandidatesVoting", 0, 60, 47, Q="2000", **steps),
        row("CandidatesVoting", 0, 66, 57, Q="2000", **{**steps, **LITE}),
    ]
    (table,) = against_paper(SUITES["offline"], rows_of(tmp_path, *made))
    assert table.columns == ["steps of 10"]
    marks = {method: table.cells[method]["steps of 10"].marks for method in table.papers}
    assert [mark.mean for mark in marks["CandidatesVoting"]] == [47]
    assert [mark.mean for mark in marks["CandidatesVoting (EfficientNet-Lite0)"]] == [57]
    made = [{**each, "options": "{}"} for each in made]
    (table,) = against_paper(SUITES["online"], rows_of(tmp_path, *made))
    assert not [method for method in table.cells if "Lite0" in method]


def test_a_tick_is_drawn_for_the_papers_figure_and_a_mark_for_each_of_ours(online):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    from votestream.bench.plot import _draw_tables

    _draw_tables(figure, against_paper(SUITES["online"], online))
    column = figure.axes[1]
    assert column.get_title() == "Q = 2,000"
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["A-GEM", "MIR", "GSS", "ASER", "GDUMB", "CandidatesVoting", "GaussianVoting", "NCM"]
    ticks = [line.get_xdata()[0] for line in column.lines if line.get_marker() == "|"]
    assert ticks == [4.83, 26.1, 16.7, 27.8, 26.4, 36.5]
    marks = {line.get_xdata()[0]: line for line in column.lines if line.get_marker() in ("o", "^", "s")}
    assert sorted(marks) == [15, 41, 48, 58]
    assert {mean: line.get_markerfacecolor() == "white" for mean, line in marks.items()} == {
        **dict.fromkeys((15, 48, 58), True),  # one seed
        41: False,
    }
    assert marks[15].get_marker() == "^"  # to the letter
    assert marks[41].get_color() != marks[58].get_color()  # what the paper has, and what it has not


def test_the_interval_of_two_seeds_does_not_stretch_the_comparison(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    from votestream.bench.plot import _draw_tables

    rows = rows_of(tmp_path, *(row("MIR", seed, 50, 40 + 30 * seed, Q="2000") for seed in range(2)))
    _draw_tables(figure, against_paper(SUITES["online"], rows))
    assert figure.axes[0].get_xlim() == (-2, 102)


def test_several_suites_make_one_figure_of_one_kind(tmp_path):
    pytest.importorskip("matplotlib")
    Results(tmp_path / "online.csv").append(row("MIR", 0, 50, 40, Q="2000"))
    Results(tmp_path / "bytes.csv").append(row("NCM", 0, 50, 40))
    plot = ["bench", "plot", "--results", str(tmp_path), "--out", "p.png"]
    told = CliRunner().invoke(app, [*plot, "online", "--kind", "paper"])
    assert told.exit_code == 0, told.output
    with Image.open("p.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    told = CliRunner().invoke(app, [*plot, "online", "bytes"])
    assert told.exit_code == 2
    assert "online as curves, bytes as bytes. --kind names one." in " ".join(told.output.split())
    told = CliRunner().invoke(app, [*plot, "bytes", "--kind", "paper"])
    assert told.exit_code == 2
    assert "The rows of bytes have nothing to draw" in " ".join(told.output.split())


# ---- appearance ---------------------------------------------------------------------------------


def test_every_method_of_our_suites_has_an_appearance_of_its_own_which_is_the_same_everywhere():
    for suite in (suite for suite in SUITES.values() if suite.name != "rates"):  # whose lines are named by families
        labels = list(dict.fromkeys(m.label for m in suite.methods))
        assert not {split(label)[0] for label in labels} - set(METHODS), "bench/appearance.py declares each"
        assert len(set(appearances(labels).values())) == len(labels), suite.name
        for label in labels:
            assert appearances([label])[label] == appearances(labels)[label]


def test_colours_of_ours_are_nobody_elses():
    ours = {colour for method, (colour, _) in METHODS.items() if method in OURS}
    known = {split(m.label)[0] for m in SUITES["online"].methods} | {"SRDA", "KLDA", "RanDumb", "F-OAL"}
    assert not [method for method in known if METHODS[method][0] in ours and not method.startswith(OURS)]
    assert not [look for look in appearances(map(str, range(30))).values() if look.colour in ours]


def test_a_variant_has_its_methods_colour_and_shape_and_other_dashes():
    full, short, decay = appearances(["LwF", "LwF, short", "LwF, authors' decay"]).values()
    assert {(each.colour, each.shape) for each in (full, short, decay)} == {(full.colour, full.shape)}
    assert (full.dashes, short.dashes, decay.dashes) == ("solid", "dashed", "dotted")


# ---- tables of the page -------------------------------------------------------------------------


def test_the_best_among_rows_of_one_budget_is_bold_and_bounds_do_not_compete(tmp_path):
    suite = SUITES["online"]
    rows = rows_of(
        tmp_path,
        row("MIR", 0, 50, 40, Q="1000"),
        row("GaussianVoting", 0, 70, 40, Q="1000"),
        row("ER", 0, 49, 39, Q="1000"),
        row("MIR", 0, 55, 41, Q="2000"),
        row("GaussianVoting", 0, 71, 58, Q="2000"),
        row("Upper bound: linear, on all features", 0, 90, 90, Q="2000"),
    )
    (block,) = blocks(suite, rows)
    columns, lines = header(block), block.lines
    bold = {(lines[n].method, lines[n].Q, columns[c]) for n, c in best_places(block) if columns[c] != "paper"}
    assert {each for each in bold if each[1] == "1000"} == {
        ("GaussianVoting", "1000", "Avg"),
        ("GaussianVoting", "1000", "Last"),
        ("MIR", "1000", "Last"),  # it looks the same
    }
    assert {each[:2] for each in bold if each[1] == "2000"} == {("GaussianVoting", "2000")}
    theirs = {lines[n].method for n, c in best_places(block) if columns[c] == "paper"}
    assert theirs == {"CandidatesVoting, to the letter"}  # the paper's own best, which was not run
    assert list(groups(block)) == ["1000", "2000", "5000", "10000"]
    text = page([(suite, rows)])
    assert re.findall(r'class="group"><th colspan="9">([^<]*)<', text) == [
        *("Q = 1,000", "Q = 2,000", "Q = 5,000", "Q = 10,000")
    ]
    assert "<td>2000</td><td><b>71.0</b></td>" in text


def test_of_bytes_none_is_the_best_of_forgetting_the_least_and_of_equals_none(tmp_path):
    rows = rows_of(
        tmp_path,
        row("NCM", 0, 50, 40, forgetting="9", bytes="100"),  # no better in Avg than the only other one
        row("SLDA", 0, 50, 41, forgetting="8", bytes="200"),
    )
    (block,) = blocks(SUITES["bytes"], rows)
    assert {(block.lines[n].method, header(block)[c]) for n, c in best_places(block)} == {
        ("SLDA", "Last"),
        ("SLDA", "forgetting"),
    }


def test_the_page_shows_where_we_stand_first(online):
    text = page([(SUITES["online"], online)])
    assert text.index("Where we stand against the paper") < text.index("Online methods by exemplar budget")
    assert "Where we stand" not in page([(SUITES["bytes"], online)])


def test_gdumb_is_asked_after_each_task_where_twenty_trainings_can_be_afforded():
    asked = {Q: m.ask for Q in (1000, 2000, 5000) for m in rivals(Q, "split-cifar100") if m.learner == "gdumb"}
    assert asked == {1000: "each", 2000: "each", 5000: "last"}
    assert "paper" in KINDS
