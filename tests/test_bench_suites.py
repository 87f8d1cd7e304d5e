"""The suites of the network rivals: offline, weight norms, learning rates; and what they ask of the bench."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from conftest import ImageStream, Stream
from votestream.backbones import BackboneUnavailable
from votestream.bench import paper
from votestream.bench.columns import FIELDS
from votestream.bench.finding import find_learner, make_stream
from votestream.bench.methods import DECAYS, OFFLINE_RATES, ONLINE_RATES
from votestream.bench.metrics import drift, measured, norms_of
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runs import Method, Run, StreamSpec
from votestream.bench.suites import SUITES
from votestream.bench.tables import blocks, body, header, markdown, note
from votestream.cli.main import app

ENV = {**os.environ, "PYTHONPATH": str(Path(vs.__file__).parents[1])}
FEATURES, IMAGES = StreamSpec(f"{__name__}:features"), StreamSpec(f"{__name__}:images")
FEW = {"epochs": 2, "batch_size": 30, "augment": False}


def features(seed, backbone=None):
    made = Stream()
    return vs.stream_from(made.X, made.y, tasks=3, seed=seed, test_share=0.25, name="features")


def images(seed, backbone=None, test_share=None):
    made, unseen = ImageStream(), ImageStream(seed=1)
    test = None if test_share else (unseen.X, unseen.y)
    return vs.stream_from(made.X, made.y, test=test, test_share=test_share, tasks=3, seed=seed, name="images")


def run_of(method, stream=FEATURES, **more):
    return Run(method, stream, 0, "tiny", "d", **more)


def row(method, seed=0, stream="split-cifar100", **more):
    fixed = {"learner": "l", "settings": "{}", "options": "{}", "digest": "d", "method": method, "stream": stream}
    return {**dict.fromkeys(FIELDS, ""), **fixed, "seed": str(seed), **more}


# ---- the first task in several passes -----------------------------------------------------------


def test_the_first_task_is_gone_over_as_often_as_the_method_says():
    once = Method("CandidatesVoting", "candidates_voting", {"budget": 20, "device": "cpu"})
    often = Method("CandidatesVoting", "candidates_voting", {"budget": 20, "device": "cpu"}, first_passes=3)
    made = carry_out(run_of(often, keeps=("norms",)))
    model = vs.CandidatesVoting(budget=20, device="cpu")
    for task in (stream := features(0)):
        if task.number:
            model.partial_fit(*task.train, task=task.name)
        else:
            model.fit_task(*task.train, task=task.name, passes=3)
    norms = dict(zip(model.classes_.tolist(), np.linalg.norm(model.weights_, axis=1), strict=True))
    assert [norm for task in norms_of(made) for norm in task] == pytest.approx(
        [norms[label] for label in stream.class_order], rel=1e-4
    )
    assert made["Last"] == pytest.approx(100 * np.mean(model.predict(task.test[0]) == task.test[1]))
    assert json.loads(made["settings"]) == {"budget": 20, "device": "cpu", "first_passes": 3}
    assert made["settings"] != carry_out(run_of(once))["settings"]


def test_norms_are_kept_for_the_suite_that_draws_them_only():
    method = Method("CandidatesVoting", "candidates_voting", {"budget": 20})
    assert carry_out(run_of(method))["norms"] == ""
    assert {run.keeps for run in SUITES["online"].runs("d", range(1))} == {()}
    assert {run.keeps for run in SUITES["weight-norms"].runs("d", range(1))} == {("norms",)}
    assert carry_out(run_of(Method("NCM", "ncm"), keeps=("norms",)))["norms"] == ""


# ---- rivals that learn whole tasks --------------------------------------------------------------


def test_what_learns_whole_tasks_is_learned_as_such():
    made = carry_out(run_of(Method("WA", "wa", {"budget": 30, **FEW}), IMAGES, keeps=("norms",)), "cpu")
    model, after = vs.WeightAligning(budget=30, backbone="tiny", device="cpu", **FEW), []
    for task in images(0):
        model.fit_task(*task.train, task=task.name)
        after.append(100 * np.mean(model.predict(task.test[0]) == task.test[1]))
    assert [float(a) for a in made["after each task"].split()] == pytest.approx(after, abs=0.01)
    assert len(made["norms"].split()) == 6


@pytest.mark.parametrize(("learner", "trainings"), [("kd", [1, 2, 3]), ("joint_images", [0, 0, 1])])
def test_a_task_is_trained_on_when_it_ends_but_everything_at_once_when_it_is_asked(learner, trainings, monkeypatch):
    cls, trained, after_each = find_learner(learner), [], []
    real = cls._learn_task

    def counting(*arguments):
        trained.append(1)
        return real(*arguments)

    monkeypatch.setattr(cls, "_learn_task", counting)
    method = Method(learner, learner, FEW, ask="last")
    carry_out(run_of(method, IMAGES), "cpu", tell=lambda *_: after_each.append(len(trained)))
    assert after_each == trainings


# ---- offline ------------------------------------------------------------------------------------


def test_the_papers_offline_table_is_as_printed():
    assert paper.figure("offline", "CIFAR-100, steps of 5", "LWF", None, "Avg after the first") == 29.7
    assert paper.figure("offline", "CIFAR-100, steps of 10", "BIC", 2000, "Last") == 52.0
    assert paper.figure("offline", "CIFAR-100, steps of 20", "Ours", 2000, "Avg after the first") == 70.5
    for row_, Q in (("LWF", None), ("ICARL", 2000), ("EEIL", 2000), ("BIC", 2000), ("WA", 2000), ("Ours", 2000)):
        average = paper.figure("offline", "CIFAR-100, steps of 50", row_, Q, "Avg after the first")
        assert average == paper.figure("offline", "CIFAR-100, steps of 50", row_, Q, "Last")
    assert paper.figure("offline", "CIFAR-100, steps of 5", "WA", 2000, "Avg") is None


def test_the_papers_average_is_compared_with_ours_after_the_first_task():
    rows = [
        row("WA, short", options='{"tasks": 5}', Q="2000", Avg="70", Last="50", **{"after each task": "90 60 50"}),
        row("KD", options='{"tasks": 5}', Avg="60", Last="40", **{"after each task": "90 50 40"}),
    ]
    text = markdown(SUITES["offline"], rows)
    assert "### CIFAR-100, steps of 20\n" in text
    assert "| WA, short | 2000 | 70.0 | 55.0 | 66.6 | -11.6 | 50.0 | 59.2 | -9.2 | 1 |" in text
    assert "| KD |  | 60.0 | 45.0 |  |  | 40.0 |  |  | 1 |" in text
    assert "| WA | 2000 |" not in text  # the paper's figures stand beside what was run
    assert "| iCaRL | 2000 |  |  | 63.3 |" in text  # and alone where nothing was
    assert "iCaRL, short" not in text
    assert "a fifth of their passes" in note(SUITES["offline"])


def test_steps_are_tables_of_their_own_in_the_suites_order():
    rows = [row("KD", options=f'{{"tasks": {n}}}', Last="4", backbone="b") for n in (2, 20, 10)]
    rows += [row("KD", options='{"limit": 3, "tasks": 10}', Last="4", backbone="b")]
    rows += [row("KD", options='{"tasks": 10, "test_share": 0.2}', Last="4", backbone="b")]
    assert [block.stream for block in blocks(SUITES["offline"], rows[:4])] == [
        *(f"CIFAR-100, steps of {n}" for n in (5, 10, 50)),
        "split-cifar100, limit 3, tasks 10",
    ]
    assert [block.stream for block in blocks(SUITES["offline"], rows[4:])] == ["CIFAR-100, steps of 10"]


def test_a_method_of_many_passes_runs_in_one_length_and_the_others_in_both():
    suite = SUITES["offline"]
    full, short = suite.of_length("full").methods, suite.of_length("short").methods
    assert len(full) == len(short) == 16
    assert [m.label for m in short if m.length] == [f"{m.label}, short" for m in full if m.length]
    assert all(m.settings["preset"] == "short" for m in short if m.length)
    assert not any("preset" in m.settings for m in full if m.length)
    assert [m for m in full if not m.length] == [m for m in short if not m.length]


def test_wa_runs_without_clipping_too_and_at_the_same_rate():
    methods = {m.label: m for m in SUITES["offline"].methods}
    for length in ("", ", short"):
        usual, other = methods[f"WA{length}"], methods[f"WA, without clipping{length}"]
        assert other.settings == {**usual.settings, "clip": False}
        assert other.paper == usual.paper == "WA"
    assert not [m for m in SUITES["rates"].methods if "clip" in m.settings]


def test_gss_runs_to_the_letter_too():
    for suite in ("online", "rates"):
        methods = [m for m in SUITES[suite].methods if m.learner == "gss"]
        for method in methods:
            assert (method.settings.get("preset") == "paper") == method.label.startswith("GSS, to the letter")
        assert 2 * sum("preset" in m.settings for m in methods) == len(methods) > 0


def test_full_length_is_what_the_paper_says():
    passes = {"lwf": (128, 70), "icarl": (128, 70), "eeil": (128, 70), "bic": (128, 250), "wa": (32, 250)}
    for method in SUITES["offline"].of_length("full").methods:
        if method.learner in passes:
            model = vs.create(method.learner, **method.settings)
            assert (model.batch_size, model.epochs) == passes[method.learner]


# ---- learning rates -----------------------------------------------------------------------------


def test_rates_are_chosen_on_no_test_part_and_on_no_seed_of_a_table():
    suite = SUITES["rates"]
    assert {stream.options["test_share"] for stream in suite.streams} == {0.2}
    tables = [other for other in SUITES.values() if not other.chooses]
    assert suite.first_seed >= max(other.first_seed + other.seeds for other in tables)
    told = CliRunner().invoke(app, ["bench", "run", "rates", "--first-seed", "0", "--stream", IMAGES.name])
    assert told.exit_code == 2
    assert "on seeds from 9 on" in told.output


def test_a_stream_of_ones_own_is_not_tested_on_its_test_part_either(monkeypatch):
    held = []
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: held.extend(runs) or sys.exit(7))
    command = ["bench", "run", "rates", "--stream", IMAGES.name, "--stream", "split-cifar10", "--limit", "3"]
    told = CliRunner().invoke(app, [*command, "--data-dir", "nowhere"])
    assert told.exit_code == 7, told.output
    assert {(run.stream.name, run.seed) for run in held} == {(IMAGES.name, 9)}
    assert {json.dumps(run.stream.options) for run in held} == {'{"test_share": 0.2, "limit": 3}'}
    assert len(held) == len(SUITES["rates"].methods)
    made = make_stream(held[0].stream, 9, None, None)
    learned = {x.tobytes() for x in ImageStream().X}
    assert all(x.tobytes() in learned for x in made[2].test[0])  # of the training part, which is another seed's


def test_a_stream_of_ones_own_meets_each_method_once():
    for suite in SUITES.values():
        runs = list(replace(suite, streams=(FEATURES,)).runs("d", range(1)))
        assert {(run.method.label, run.method.Q) for run in runs} == {(m.label, m.Q) for m in suite.methods}
        assert len({(run.method.label, run.method.Q) for run in runs}) == len(runs)


def test_every_rival_is_tried_with_several_rates_online_or_in_short_steps_of_20():
    tried = {}
    for run in SUITES["rates"].runs("d", range(9, 10)):
        kind = {name: value for name, value in run.method.settings.items() if name != "lr"}
        tried.setdefault(run.stream.title, []).append((run.method.learner, str(kind), run.method.settings["lr"]))
    online = {"agem", "mir", "gss", "aser", "er", "gdumb"}
    assert list(tried) == ["split-cifar10", "split-cifar100", "CIFAR-100, steps of 20"]
    for title, methods in tried.items():
        assert ({learner for learner, _, _ in methods} == online) == title.startswith("split")
        assert min(Counter(methods).values()) == max(Counter(methods).values()) == 1
        assert min(Counter((learner, kind) for learner, kind, _ in methods).values()) >= 4
    assert all("short" in kind for _, kind, _ in tried["CIFAR-100, steps of 20"])


def test_the_rates_in_use_are_those_that_were_best():
    rows = Results(Path(__file__).parent.parent / "results" / "accuracy" / "rates.csv").rows()
    best = {}
    for row in rows:
        settings, tasks = json.loads(row["settings"]), json.loads(row["options"])["tasks"]
        assert json.loads(row["options"])["test_share"] == 0.2
        learner = "finetune" if settings.get("replay") == 0 else row["learner"]
        learner += ", to the letter" if settings.get("preset") == "paper" else ""
        if settings.get("weight_decay") != DECAYS.get(learner):
            continue
        key = "offline" if (row["stream"], tasks) == ("split-cifar100", 5) else row["stream"], learner
        best[key] = max(best.get(key, (0, 0)), (float(row["Last"]), settings["lr"]))
    for stream, rates in {**ONLINE_RATES, "offline": OFFLINE_RATES}.items():
        chosen = {learner: lr for (where, learner), (_, lr) in best.items() if where == stream}
        assert {learner: lr for learner, lr in rates.items() if learner != "joint_images"} == chosen


def test_the_weight_decay_in_use_is_the_better_one_for_lwf_and_icarl_together():
    rows = Results(Path(__file__).parent.parent / "results" / "accuracy" / "rates.csv").rows()
    best: defaultdict[tuple[str, float | None], float] = defaultdict(float)
    for row in (row for row in rows if row["learner"] in DECAYS):
        key = row["learner"], json.loads(row["settings"]).get("weight_decay")
        best[key] = max(best[key], float(row["Last"]))
    chosen, authors = (sum(best[learner, decay] for learner in DECAYS) for decay in (1e-5, None))
    assert set(DECAYS.values()) == {1e-5}
    assert chosen > authors > 0


def test_rows_of_other_settings_are_not_averaged_with_the_suites():
    method = next(m for m in SUITES["online"].methods if m.label == "MIR" and m.part == "split-cifar100")
    usual = json.dumps(dict(method.settings), sort_keys=True)

    def last(*settings):
        rows = [
            row("MIR", seed, Q="1000", settings=each, options='{"tasks": 20}', Last=str(10 * seed))
            for seed, each in enumerate(settings, 1)
        ]
        (block,) = blocks(SUITES["online"], rows)
        return next(line.cells["Last"].mean for line in block.lines if (line.method, line.Q) == ("MIR", "1000"))

    assert last(usual, '{"lr": 9}', usual) == 20
    assert last('{"lr": 9}', usual) == 20
    assert last('{"lr": 9}', '{"lr": 8}', '{"lr": 8}') == 25  # the suite's are not there: the latest


def test_the_best_rate_of_each_method_is_marked():
    def tried(learner, lr, last, Q="2000", **more):
        settings = json.dumps({"lr": lr, **more})
        return row(f"{learner}, lr {lr}", Q=Q, learner=learner, settings=settings, Avg=str(lr), Last=str(last))

    rows = [tried("mir", 0.01, 30), tried("mir", 0.03, 40), tried("mir", 0.1, 35), tried("er", 0.03, 20)]
    rows += [tried("er", 0.01, 50, "", replay=0), tried("er", 0.1, 10, "", replay=0)]
    (block,) = blocks(SUITES["rates"], rows)
    assert header(block)[-1] == "best"
    marked = {line[0]: line[-1] for line in body(block)}
    assert {label for label, mark in marked.items() if mark} == {"mir, lr 0.03", "er, lr 0.01"}
    assert "best" not in header(blocks(SUITES["online"], rows)[0])


# ---- weight norms -------------------------------------------------------------------------------


def test_drift_is_the_rise_of_the_trend_over_the_mean():
    norms = 2 + 0.01 * np.arange(100)
    assert drift(norms) == pytest.approx(100 * 0.01 / norms.mean())
    assert drift(norms[::-1]) == pytest.approx(-drift(norms))
    assert drift([3.0] * 10) == pytest.approx(0)
    assert measured(row("CN", norms=""), "drift") is None


@pytest.fixture
def norm_rows(tmp_path):
    results = Results(tmp_path / "weight-norms.csv")
    rng = np.random.default_rng(0)
    for run in SUITES["weight-norms"].runs("d", range(1)):
        if run.method.length != "full":
            rise = rng.uniform(0, 1) * np.arange(20) + rng.normal(size=20)
            by_task = " ".join(["40.0"] * run.stream.options["tasks"])
            made = {"Q": run.method.Q, "paper row": run.method.paper, "Last": 40.0, "by task": by_task}
            results.append({**run.columns, **made, "norms": " ".join(f"{10 + each:.3f}" for each in rise)})
    return tmp_path


def test_norms_are_a_table_a_image_and_part_of_the_page(norm_rows):
    suite, rows = SUITES["weight-norms"], Results(norm_rows / "weight-norms.csv").rows()
    assert len(blocks(suite, rows)) == 3
    (first,) = [each for each in rows if each["method"] == "KD, offline, short" and each["options"] == '{"tasks": 20}']
    lengths = [float(norm) for norm in first["norms"].split()]
    expected, latest = drift(lengths), lengths[-1] / np.mean(lengths[:-1])  # 20 rows, 20 tasks
    assert f"| KD, offline, short |  | {expected:.2f} | {latest:.2f} | 40.0 | 1 |" in markdown(suite, rows)

    told = CliRunner().invoke(app, ["bench", "plot", "weight-norms", "--results", str(norm_rows), "--out", "n.png"])
    assert told.exit_code == 0, told.output
    with Image.open("n.png") as image:
        assert np.asarray(image.convert("L")).std() > 10
    told = CliRunner().invoke(app, ["bench", "report", "--results", str(norm_rows), "--out", "page.html"])
    assert told.exit_code == 0, told.output
    data = json.loads(re.search(r'id="data">(.*?)</script>', Path("page.html").read_text()).group(1))
    style, panels, appearances = data["weight-norms"].values()
    assert style["point"] == "for class {x}"
    assert [(panel["title"], len(panel["series"])) for panel in panels] == [
        ("Plain training (CN)\nby classes a task", 6),
        ("All methods\nCIFAR-100, steps of 5, Q = 1,000", 10),
        ("With exemplars (CN + Exp), by their number\nCIFAR-100, steps of 5", 6),
        ("Distillation (KD) and exemplars (CN + Exp)\nCIFAR-100, steps of 5, Q = 1,000", 4),
    ]
    (drawn,) = [s for s in panels[3]["series"] if s["label"] == "KD, offline, short"]
    assert {s["label"]: appearances[s["label"]]["dashes"] for s in panels[3]["series"]} == {
        **{f"{row}, offline, short": "dashed" for row in ("KD", "CN + Exp")},
        **{f"{row}, online": "solid" for row in ("KD", "CN + Exp")},
    }
    assert np.mean(drawn["y"]) == pytest.approx(1)
    assert drawn["trend"] == pytest.approx(np.polyval(np.polyfit(drawn["x"], drawn["y"], 1), drawn["x"]))
    assert drawn["trend"][-1] - drawn["trend"][0] == pytest.approx(expected * 19 / 20)


# ---- what the command chooses -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "steps", "methods"),
    [
        (["offline", "--stream", "*steps of 5"], [5], 16),
        (["offline", "--stream", "*of 10", "--stream", "*of 50"], [10, 50], 16),
        (["offline", "--stream", "split-cifar100", "--method", "WA"], [5, 10, 20, 50], 2),
        (["offline", "--preset", "short", "--method", "WA*", "--stream", "*5"], [5], 2),
        (["weight-norms", "--stream", "*of 20", "--method", "*online"], [20], 8),
    ],
)
def test_steps_and_methods_can_be_chosen(arguments, steps, methods, monkeypatch):
    held = []
    monkeypatch.setattr("votestream.cli.bench.with_available_data", lambda suite, _: suite)
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: held.extend(runs) or sys.exit(7))
    told = CliRunner().invoke(app, ["bench", "run", *arguments, "--seeds", "1"])
    assert told.exit_code == 7, told.output
    assert {run.stream.title for run in held} == {f"CIFAR-100, steps of {step}" for step in steps}
    assert len(held) == methods * len(steps)


def test_a_backbone_whose_package_is_missing_is_told_in_a_sentence(monkeypatch):
    def missing(name, **options):
        raise BackboneUnavailable("efficientnet_lite0 needs a package; pip install it.")

    monkeypatch.setattr("votestream.bench.finding.create_backbone", missing)
    told = CliRunner().invoke(app, ["bench", "run", "smoke", "--backbone", "nowhere_to_be_found"])
    assert told.exit_code == 2
    assert "pip install it" in told.output
    assert "Traceback" not in told.output
