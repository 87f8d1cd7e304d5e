"""--preset, --views and --stages: a model keeps the ones it was made with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app

OPTIONS = "--backbone", "reduced_resnet18", "--views", "32,32m", "--stages", "3:centre,4"


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    pixels, labels = vs.sample_images("train")
    for i, (image, label) in enumerate(zip(pixels[:30], labels[:30], strict=True)):
        path = Path(folder, str(label), f"{i}.png")
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    result = run("learn", photos, "--model", path, "--yes", *OPTIONS)
    assert result.exit_code == 0, result.output
    return path


def test_a_model_learns_and_predicts_through_views_and_stages(model, photos):
    held = vs.load(model, device="cpu")
    assert held.backbone_.feature_dim == 240
    result = run("predict", model, photos, "--json")
    assert result.exit_code == 0
    paths = [json.loads(line)["file"] for line in result.stdout.splitlines()]
    labels = [json.loads(line)["label"] for line in result.stdout.splitlines()]
    assert held.predict(paths).tolist() == labels


def test_inspect_tells_views_and_stages(model):
    line = next(line for line in run("inspect", model).stdout.splitlines() if line.startswith("Backbone"))
    assert line.startswith("Backbone: reduced_resnet18, views 32,32m, stages 3:centre,4, digest ")
    about = json.loads(run("inspect", model, "--json").stdout)["backbone"]
    assert (about["views"], about["stages"]) == (["32", "32m"], ["3:centre", "4"])


@pytest.mark.parametrize(
    ("options", "text"),
    [(("--views", "32"), "made with the views 32,32m"), (("--stages", "4"), "made with the stages 3:centre,4")],
)
def test_other_views_and_stages_for_an_old_model_are_refused(model, photos, options, text):
    result = run("learn", photos, "--model", model, "--yes", *options)
    assert result.exit_code == 2
    assert f"{text}: leave {options[0]} out" in " ".join(result.stderr.split())


def test_the_same_views_and_stages_continue(model, photos):
    result = run("learn", photos, "--model", model, "--yes", "--views", "32,32m", "--stages", "quick")
    assert "There was nothing new to learn." in result.stdout


def test_a_preset_sets_views_and_stages_and_another_one_is_refused(photos, tmp_path):
    learn = "learn", photos, "--model", tmp_path / "m", "--yes", "--preset"
    assert run(*learn, "careful").exit_code == 0
    backbone = vs.load(tmp_path / "m", device="cpu").backbone_
    assert ",".join(map(str, backbone.views)) == "32,32m,40,40m"
    assert backbone.stages == ("3:top", "3:bottom", "3:centre", "4")
    assert "There was nothing new to learn." in run(*learn, "careful").stdout
    result = run(*learn, "quick")
    assert result.exit_code == 2
    assert "leave --preset out" in " ".join(result.stderr.split())


def test_stages_that_are_named_replace_those_of_the_preset(photos, tmp_path):
    assert run("learn", photos, "--model", tmp_path / "m", "--preset", "careful", "--stages", "4").exit_code == 0
    backbone = vs.load(tmp_path / "m", device="cpu").backbone_
    assert (len(backbone.views), backbone.stages) == (4, ("4",))


def test_a_stage_that_does_not_exist_is_named(photos, tmp_path):
    result = run("learn", photos, "--model", tmp_path / "m", "--yes", "--backbone", "reduced_resnet18", "--stages", "9")
    assert result.exit_code == 2
    assert "There is no stage '9'" in result.stderr
