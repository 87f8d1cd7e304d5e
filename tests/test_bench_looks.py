"""Rows of methods whose backbone looks more carefully than the suite's."""

from __future__ import annotations

import json
import sys

from typer.testing import CliRunner

from votestream.backbones import create_backbone
from votestream.bench import methods
from votestream.bench.finding import looking
from votestream.bench.protocol import carry_out
from votestream.bench.runs import Run, StreamSpec, Suite
from votestream.bench.suites import SUITES
from votestream.bench.tables import blocks
from votestream.cli.main import app

CAREFUL = "GaussianVoting, careful"


def test_online_bytes_and_offline_have_a_careful_row_beside_the_usual_one():
    for name, budgets in (("online", 4), ("bytes", 4), ("offline", 1)):
        rows = [m for m in SUITES[name].methods if m.label == CAREFUL]
        assert len(rows) == budgets
        assert all(row.settings["budget_bytes"] == methods.bytes_of(row.Q, 160) for row in rows)


def test_a_careful_run_learns_what_the_careful_backbone_sees(monkeypatch, tmp_path):
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path))
    settings = {"budget_bytes": 1_280_000, "block": 32}
    method = methods.Method(CAREFUL, "gaussian_voting", settings, 2000, views="quick", stages="quick", ask="last")
    (run,) = Suite("s", "", (method,), (StreamSpec("sample", {"limit": 3}),)).runs("d", range(1))
    row = carry_out(run, "cpu")
    assert json.loads(row["settings"]) == {**settings, "views": "32", "stages": "3:centre,4"}
    (entry, _) = sorted(tmp_path.glob("*/about.json"))
    digest = create_backbone("reduced_resnet18", stages="quick", device="cpu").digest
    assert json.loads(entry.read_text())["backbone_digest"] == digest


def test_a_backbone_without_chosen_looks_has_no_careful_row():
    suite = Suite("s", "", (methods.careful(2000, 160),), (StreamSpec("sample"),), backbone="timm:resnet50")
    assert list(suite.runs("d", range(1))) == []


def test_where_the_room_is_small_there_are_fewer_features():
    assert methods.careful(1000, 160).stages == "quick"
    assert methods.careful(2000, 160).stages == methods.careful(1000, 1280).stages == "careful"


def test_careful_rows_stand_in_the_same_table():
    suite = Suite("s", "", (methods.ours(2000, 160)[2], methods.careful(2000, 160)), (StreamSpec("sample"),))
    rows = [_row(run) for run in suite.runs("d", range(1))]
    (block,) = blocks(suite, rows)
    assert [line.method for line in block.lines] == ["GaussianVoting", CAREFUL]


def _row(run: Run) -> dict[str, str]:
    return {**run.columns, "Q": "2000", "paper row": "", "Avg": "60", "Last": "50", "error": "", "version": "1"}


def test_bench_run_takes_views_and_stages_for_methods_on_features(monkeypatch):
    held: list[Run] = []
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: held.extend(runs) or sys.exit(7))
    told = CliRunner().invoke(app, ["bench", "run", "smoke", "--seeds", "1", "--views", "32,32m", "--stages", "quick"])
    assert told.exit_code == 7, told.output
    assert {run.method.settings_json for run in held if run.method.label == "NCM"} == {
        '{"stages": "3:centre,4", "views": "32,32m"}'
    }
    told = CliRunner().invoke(app, ["bench", "run", "smoke", "--backbone", "onnx:x.onnx", "--views", "careful"])
    assert told.exit_code == 2


def test_methods_that_train_a_network_keep_their_own_way_of_looking():
    suite = Suite("s", "", (methods.Method("ER", "er"), methods.Method("NCM", "ncm")), (StreamSpec("sample"),))
    assert [m.views for m in looking(suite, "32m", None).methods] == [None, "32m"]
