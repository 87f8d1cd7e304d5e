"""What the bench measures, makes tables of, and says to wrong input."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.bench import metrics, paper
from votestream.bench.columns import FIELDS
from votestream.bench.finding import added_methods, find_learner, make_stream
from votestream.bench.methods import bytes_of, later_rivals, random_features
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runs import Method, Run, StreamSpec
from votestream.bench.suites import SUITES, find_suite
from votestream.bench.tables import blocks, comma_separated, latex, markdown
from votestream.cli.main import app
from votestream.learners.ours.nearest_cache import NearestCache

ENV = {**os.environ, "PYTHONPATH": str(Path(vs.__file__).parents[1])}  # the package that is under test
BLOBS = StreamSpec(f"{__name__}:blobs")


def blobs(seed, backbone=None):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 40)
    X = (rng.normal(size=(6, 8))[y] + 0.5 * rng.normal(size=(len(y), 8))).astype(np.float32)
    return vs.stream_from(X, y, tasks=3, seed=seed, test_share=0.25, name="blobs")


def row(method, seed, avg, last, Q="", stream="split-cifar100", error="", **more):
    columns = {"method": method, "stream": stream, "seed": seed, "Avg": avg, "Last": last, "Q": Q, "error": error}
    fixed = {"learner": method, "settings": f'{{"Q": "{Q}"}}', "options": "{}", "digest": "d"}
    return {**dict.fromkeys(FIELDS, ""), **fixed, **columns, "bytes": "1280000", **more}


def rows_of(tmp_path, *rows):
    results = Results(tmp_path / "made.csv")
    for each in rows:
        results.append(each)
    return results.rows()


# ---- metrics ------------------------------------------------------------------------------------


def test_a_run_is_measured_as_the_definitions_say():
    run = Run(Method("NCM", "ncm"), BLOBS, 3, "reduced_resnet18", "d", keeps=("confusion",))
    made = carry_out(run)
    stream, model, after, matrix = blobs(3), vs.create("ncm", seed=3), [], []
    for task in stream:
        model.partial_fit(*task.train, task=task.name)
        X, y = task.test
        right = model.predict(X) == y
        after.append(100 * right.mean())
        groups = [np.isin(y, earlier.new_classes) for earlier in list(stream)[: task.number + 1]]
        matrix.append([100 * right[group].mean() for group in groups])
    assert [float(a) for a in made["after each task"].split()] == pytest.approx(after, abs=0.01)
    assert made["Avg"] == pytest.approx(sum(after) / 3)
    assert made["Last"] == pytest.approx(after[-1])
    first = max(matrix[0][0], matrix[1][0]) - matrix[2][0]
    assert made["forgetting"] == pytest.approx((first + matrix[1][1] - matrix[2][1]) / 2)
    assert [[float(a) for a in line.split()] for line in made["by task"].split("; ")] == [
        pytest.approx(line, abs=0.01) for line in matrix
    ]
    assert made["bytes"] == model.memory_bytes()
    assert made["class order"] == str(stream.class_order)
    counts = np.array([line.split() for line in made["confusion"].split(";")], int)
    assert counts.sum() == len(y)
    assert 100 * np.trace(counts) / counts.sum() == pytest.approx(after[-1])


def test_a_method_that_is_costly_to_ask_is_asked_once():
    made = carry_out(Run(Method("NCM", "ncm", ask="last"), BLOBS, 0, "reduced_resnet18", "d"))
    whole = carry_out(Run(Method("NCM", "ncm"), BLOBS, 0, "reduced_resnet18", "d"))
    assert made["Last"] == whole["Last"]
    assert made["Avg"] is None
    assert made["forgetting"] is None
    assert made["after each task"] == ""


def test_forgetting_needs_two_tasks_and_passes_over_those_without_tests():
    assert metrics.forgetting([[90.0]]) is None
    nan = float("nan")
    assert metrics.forgetting([[nan], [nan, 80.0], [nan, 70.0, 90.0]]) == 10.0


def test_the_interval_is_students():
    values = [50.0, 52.0, 51.0, 49.0, 53.0]
    assert metrics.interval(values) == pytest.approx(2.776445 * np.std(values, ddof=1) / 5**0.5)
    assert metrics.interval([50.0]) is None


# ---- asking again -------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("keep", ["mean_distance", "reservoir"])
def test_an_examiner_answers_as_predict_does(stream, told, keep):
    model = vs.CandidatesVoting(budget=20, keep=keep, device="cpu")
    ask = model.examiner(stream.X)
    rng = np.random.default_rng(0)
    mixed = rng.permutation(len(stream.X)) if not told else np.arange(len(stream.X))
    for start in range(0, len(mixed), 20):
        some = mixed[start : start + 20]
        model.partial_fit(stream.X[some], stream.y[some], task=int(stream.y[some[0]] // 2) if told else None)
        rows = np.flatnonzero(rng.random(len(stream.X)) < 0.7)
        assert ask(rows).tolist() == model.predict(stream.X[rows]).tolist()


def test_what_is_remembered_is_measured_no_second_time(monkeypatch):
    X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    known, rows, measured = NearestCache(X), np.arange(30), []
    real = NearestCache._measure

    def counting(self, rows, group, items, arrivals, members):
        measured.append(len(rows) * len(members))
        real(self, rows, group, items, arrivals, members)

    monkeypatch.setattr(NearestCache, "_measure", counting)
    items, arrivals, groups = X[:6] + 1, np.arange(6), np.repeat([0, 1], 3)
    known.distances(rows, items, arrivals, groups, 2)
    measured.clear()
    again = known.distances(rows, items, arrivals, groups, 2)
    assert sum(measured) == 0
    plain = np.linalg.norm(X[:, None] - items, axis=2)
    assert again == pytest.approx(np.stack([plain[:, :3].min(1), plain[:, 3:].min(1)], 1), abs=1e-5)


# ---- tables -------------------------------------------------------------------------------------


def test_a_cell_has_mean_interval_paper_and_difference(tmp_path):
    seeds = [row("CandidatesVoting", seed, 60 + seed, 45 + seed, Q="2000") for seed in range(3)]
    (block,) = blocks(SUITES["online"], rows_of(tmp_path, *seeds))
    (line,) = [line for line in block.lines if line.seeds]
    cell = line.cells["Last"]
    assert (cell.mean, cell.paper, cell.seeds) == (46.0, 36.5, 3)
    assert cell.difference == pytest.approx(9.5)
    assert cell.half == pytest.approx(4.302653 / 3**0.5)


def test_the_formats_say_the_same_and_leave_empty_what_is_missing(tmp_path):
    suite = SUITES["online"]
    rows = rows_of(
        tmp_path,
        row("CandidatesVoting", 0, 60, 46, Q="2000"),
        row("RanPAC", 0, "", 50.04, Q="2000"),
        row("NCM", 0, "", "", error="boom"),
        row("mine_all", 0, 30, 20),
    )
    text = markdown(suite, rows)
    assert "| CandidatesVoting | 2000 | 60.0 | 51.8 | +8.2 | 46.0 | 36.5 | +9.5 | 1 |" in text
    assert "| RanPAC | 2000 |  |  |  | 50.0 |  |  | 1 |" in text
    assert "| MIR | 1000 |  | 37.4 |  |  | 19.1 |  |  |" in text
    assert "| mine_all |  | 30.0 |  |  | 20.0 |  |  | 1 |" in text
    assert "NCM" not in text
    tex = latex(suite, rows)
    assert r"CandidatesVoting & 2000 & 60.0 & 51.8 & +8.2 & 46.0 & 36.5 & +9.5 & 1 \\" in tex
    assert r"mine\_all" in tex
    assert "±" not in tex
    assert r"95 \% interval" in tex
    cells = {(c["method"], c["Q"], c["metric"]): c for c in csv.DictReader(io.StringIO(comma_separated(suite, rows)))}
    mine = cells["CandidatesVoting", "2000", "Last"]
    assert (mine["mean"], mine["paper"], mine["difference"], mine["interval"]) == ("46", "36.5", "9.5", "")
    assert cells["RanPAC", "2000", "Avg"]["mean"] == ""


def test_rows_of_another_learner_or_of_another_streams_settings_are_not_averaged(tmp_path):
    rate = {name: json.dumps({"budget": 2000, "lr": lr}) for name, lr in (("earlier", 0.03), ("now", 0.01))}
    rows = rows_of(
        tmp_path,
        row("SLDA", 0, 60, 40, learner="slda", settings="{}"),
        row("SLDA", 1, 10, 10, learner="mine:SLDA", settings="{}"),
        row("MIR", 0, 9, 9, "2000", "split-cifar10", learner="mir", settings=rate["earlier"]),
        row("MIR", 0, 80, 70, "2000", "split-cifar10", learner="mir", settings=rate["now"]),
    )
    text = markdown(SUITES["online"], rows)
    assert "| SLDA |  | 60.0 |  |  | 40.0 |  |  | 1 |" in text
    assert "| MIR | 2000 | 80.0 | 80.2 | -0.2 | 70.0 | 66.2 | +3.8 | 1 |" in text


def test_rows_of_different_backbones_are_not_averaged(tmp_path):
    rows = rows_of(tmp_path, row("NCM", 0, 60, 40), row("NCM", 0, 70, 50, digest="other"))
    assert [block.stream for block in blocks(SUITES["online"], rows)] == ["split-cifar100, d", "split-cifar100, other"]


def test_another_backbone_has_a_table_of_its_own_without_figures_that_only_the_paper_has(tmp_path):
    usual = SUITES["online"].backbone
    rows = rows_of(tmp_path, row("NCM", 0, 60, 40, backbone=usual), row("NCM", 0, 70, 50, backbone="b", digest="o"))
    one, other = blocks(SUITES["online"], rows)
    assert (one.stream, other.stream) == (f"split-cifar100, {usual}", "split-cifar100, b")
    assert "MIR" in {line.method for line in one.lines}
    assert {line.method for line in other.lines} == {"NCM"}


def test_the_papers_tables_are_as_printed():
    assert paper.figure("online", "core50-nc", "GDUMB", 10_000, "Avg") == 56.1
    assert paper.figure("online", "split-cifar10", "Ours", 1000, "Last") == 62.9
    assert paper.figure("ablation", "split-cifar100", "Baseline + EA + CS(w)", 2000, "Avg") == 52.0
    assert paper.figure("ablation", "core50-nc", "Upper-bound", None, "Avg") == 67.9
    assert paper.figure("augmentation", "split-cifar100", "Baseline + EA", 5000, "Avg") == 25.4
    assert paper.figure("augmentation", "split-cifar100", "Baseline", 2000, "Avg") is None
    assert paper.figure("storage", "split-cifar100", "images", 2000, "bytes") == 3 * 32 * 32 * 2000


def test_every_method_of_the_paper_has_its_figures_in_every_stream():
    for name in ("online", "ablation", "augmentation"):
        for stream, rows in paper.FIGURES[name].items():
            assert stream in [spec.name for spec in SUITES[name].streams]
            compared = {(method.paper, method.Q) for method in SUITES[name].methods}
            assert {(label, Q) for label, by_q in rows.items() for Q in by_q} <= compared


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_method_of_a_suite_can_be_made_and_no_two_runs_are_alike(suite):
    runs = list(suite.runs("d", range(2)))
    assert len({run.key for run in runs}) == len(runs)
    for method in suite.methods:
        find_learner(method.learner)(**method.settings)


def test_what_stands_for_a_budget_fits_into_its_bytes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 160)).astype(np.float32), np.repeat(np.arange(100), 6)
    methods = [Method("RanPAC", "ranpac", {"projection": random_features(1000, 160)}), *later_rivals(1000, 160)]
    for method in methods:
        model = vs.create(method.learner, **method.settings, device="cpu").partial_fit(X, y)
        assert 0.8 * bytes_of(1000, 160) < model.memory_bytes() <= bytes_of(1000, 160)


def test_budgets_in_bytes_follow_the_backbones_width():
    def bytes_of(width):
        return [
            m.settings["budget_bytes"] for m in find_suite("online", width).methods if m.learner == "gaussian_voting"
        ]

    assert bytes_of(1280) == [8 * size for size in bytes_of(160)]


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_made_for_many_seeds_is_the_one_that_the_name_makes(tmp_path):
    for number in range(24):
        folder = tmp_path / ("test" if number % 2 else "train") / f"class{number % 4 // 2}{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number * 9, np.uint8)).save(folder / f"{number}.png")
    spec = StreamSpec(f"folder:{tmp_path}", {"tasks": 3})
    for seed in (0, 5):
        one = make_stream(spec, seed, None, None)
        other = vs.stream(spec.name, tasks=3, seed=seed)
        assert one.class_order == other.class_order
        for a, b in zip(one, other, strict=True):
            assert a.rows.tolist() == b.rows.tolist()
            assert a.test[1].tolist() == b.test[1].tolist()


def test_a_limit_lets_so_many_samples_of_each_class_arrive():
    made = make_stream(StreamSpec(BLOBS.name, {"limit": 7}), 0, None, None)
    arrived = np.concatenate([task.train[1] for task in made])
    assert np.unique(arrived, return_counts=True)[1].tolist() == [7] * 6
    first, whole = made[0].train[1], blobs(0)[0].train[1]
    assert first.tolist() == [y for i, y in enumerate(whole) if (whole[:i] == y).sum() < 7]


# ---- wrong input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "smok"], "There is no suite 'smok'. Did you mean 'smoke'?"),
        (["run", "smoke", "--learner", "slda2"], "There is no learner 'slda2'. Did you mean 'slda' or"),
        (["run", "smoke", "--learner", "nowhere:Mine"], "nowhere:Mine: there is no module 'nowhere'"),
        (["run", "smoke", "--learner", "json:Mine"], "json:Mine: the module 'json' has nothing called 'Mine'"),
        (["run", "smoke", "--learner", "json:dumps"], "json:dumps is no learner"),
        (["run", "smoke", "--learner", "knn", "--set", "kk=3"], "knn has no setting kk. It has budget, k,"),
        (["run", "smoke", "--learner", "knn", "--set", "k"], "--set takes NAME=VALUE, not 'k'"),
        (["run", "smoke", "--set", "k=3"], "--set needs --learner"),
        (["run", "smoke", "--method", "sldaa"], "No method of smoke is called sldaa. Known: NCM, SLDA"),
        (["run", "smoke", "--method", "NCM", "--method", "sldaa"], "No method of smoke is called sldaa."),
        (["run", "smoke", "--device", "gpu"], "device must be 'auto', 'cpu' or 'cuda', got 'gpu'"),
        (["report", "--out", "."], ". is a folder: give the file a name"),
        (["run", "online", "--stream", "mnist"], "No stream of online is called mnist. Known: split-cifar10"),
        (["run", "smoke", "--backbone", "resnet999"], "There is no backbone 'resnet999'"),
        (["run", "online", "--data-dir", "none"], "cifar100 is not in none: `votestream data get cifar100"),
        (["run", "smoke", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["table", "smoke", "--format", "xls"], "Invalid value for '--format'"),
        (["show", "smoke", "--results", "r"], "no rows in r/smoke.csv: `votestream bench run smoke --results r`"),
        (["plot", "smoke", "--results", "r"], "There are no rows in r/smoke.csv"),
        (["report", "--results", "r"], "There are no results in r: "),
        (["report", "--out", "nowhere/page.html"], "there is no folder nowhere"),
        (["run", "online", "--preset", "short"], "online has no method of many passes that could be short"),
        (["run", "offline", "--preset", "long"], "Invalid value for '--preset'"),
        (["run", "offline", "--stream", "*of 7"], "Known: CIFAR-100, steps of 5; CIFAR-100, steps of 10;"),
        (
            ["run", "offline", "--preset", "short", "--method", "ER"],
            "No method of offline is called ER. Known: LwF, short",
        ),
    ],
)
def test_wrong_input_is_told_and_nothing_is_run(arguments, told):
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())
    assert not Path("results").exists()


def test_a_learner_with_a_budget_runs_with_each_of_the_suites():
    assert [method.settings for method in added_methods("knn", {"k": 3}, (10, 20))] == [
        {"k": 3, "budget": 10},
        {"k": 3, "budget": 20},
    ]
    (one,) = added_methods("knn", {"budget": 7}, (10, 20))
    assert one.Q == 7
    (free,) = added_methods("votestream.learners.statistics.ncm:NearestClassMean", {}, (10, 20))
    assert (free.label, free.Q) == ("NearestClassMean", None)


TABLES = sorted((Path(__file__).parent.parent / "docs" / "tables").glob("*.md"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_tables_in_the_docs_are_those_of_the_results(path):
    rows = Results(path.parents[2] / "results" / "accuracy" / f"{path.stem}.csv").rows()
    assert path.read_text() == markdown(SUITES[path.stem], rows), "`make tables` brings them up to date"
