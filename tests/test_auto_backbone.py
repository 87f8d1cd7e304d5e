"""Which network looks at images nobody named one for: by their size, said, and kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import votestream as vs
from votestream.backbones.default_backbone import choose_backbone
from votestream.cli.main import app
from votestream.images.measure import usual_side
from votestream.model_store import model_file
from votestream.pipeline import image_classifier


@pytest.fixture(autouse=True)
def tiny_networks(monkeypatch):
    """In the place of the two networks: looking at photos takes long, and which of them looks is all that is asked."""

    asked = []

    def made(name, device="auto", **options):
        torch.manual_seed(0)
        size = {"reduced_resnet18": 4, "efficientnet_lite0": 6}[name]
        network = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten())
        asked.append((name, options.get("stages")))
        return vs.from_module(network, input_size=size, name=name, device="cpu")

    for place in (image_classifier, model_file):
        monkeypatch.setattr(place, "create_backbone", made)
    monkeypatch.setattr("votestream.backbones.reference.create_backbone", made)
    return asked


def images(n, side, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side + 10, 3)).astype(np.uint8)


def write(folder, label, side, n=4):
    for i, pixels in enumerate(images(n, side, seed=len(label) + side)):
        path = Path(folder, label, f"{side}-{i}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def learn(*arguments):
    return CliRunner().invoke(app, ["learn", *map(str, arguments)])


def backbone_of(model):
    return vs.load(model, device="cpu").backbone_.name


@pytest.mark.parametrize(
    ("side", "name"), [(32, "reduced_resnet18"), (64, "reduced_resnet18"), (65, "efficientnet_lite0")]
)
def test_up_to_64_pixels_on_the_shorter_side_the_small_network_looks(side, name):
    model = vs.ImageClassifier("auto").partial_fit(images(6, side), [0, 1] * 3)
    assert model.backbone_.name == name
    assert model.chosen_.name == name
    assert f"{side} pixels" in model.chosen_.reason


def test_photos_are_seen_by_the_quick_stages_where_class_gaussians_learn_them(tiny_networks, tmp_path):
    vs.ImageClassifier().partial_fit(images(6, 90), [0, 1] * 3)
    vs.ImageClassifier("auto", vs.create("slda")).partial_fit(images(6, 90), [0, 1] * 3)
    assert tiny_networks == [("efficientnet_lite0", "quick"), ("efficientnet_lite0", None)]
    tiny_networks.clear()
    write(tmp_path / "photos", "cat", 90)
    learn(tmp_path / "photos", "--model", tmp_path / "ours", "--yes")
    learn(tmp_path / "photos", "--model", tmp_path / "theirs", "--yes", "--learner", "slda")
    learn(tmp_path / "photos", "--model", tmp_path / "named", "--yes", "--stages", "head")
    assert [stages for _, stages in tiny_networks] == ["quick", None, "head"]


def test_auto_is_the_default():
    assert vs.ImageClassifier().backbone == "auto"


def test_a_model_stays_with_what_it_began_with(tmp_path):
    model = vs.ImageClassifier().partial_fit(images(6, 40), [0, 1] * 3)
    model.partial_fit(images(6, 90, seed=1), [2, 3] * 3)
    assert model.backbone_.name == "reduced_resnet18"
    model.save(tmp_path / "m")
    again = vs.load(tmp_path / "m", device="cpu").partial_fit(images(6, 90, seed=2), [4, 5] * 3)
    assert again.backbone_.name == "reduced_resnet18"


def test_fitted_anew_it_chooses_anew():
    model = vs.ImageClassifier().fit(images(6, 40), [0, 1] * 3)
    assert model.fit(images(6, 90), [0, 1] * 3).backbone_.name == "efficientnet_lite0"


def test_a_call_that_fails_decides_nothing(tmp_path):
    write(tmp_path, "cat", 90, n=1)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    model = vs.ImageClassifier()
    with pytest.raises(vs.ImageError):
        model.partial_fit([tmp_path / "cat" / "90-0.png", broken], ["cat", "cat"])
    assert model.partial_fit(images(6, 40), [0, 1] * 3).backbone_.name == "reduced_resnet18"


def test_before_anything_is_learned_there_is_no_backbone_to_ask_for():
    with pytest.raises(ValueError, match="chosen by the first images"):
        vs.ImageClassifier().backbone_  # noqa: B018


def test_the_usual_side_is_the_middle_one_and_broken_files_are_passed_over(tmp_path):
    paths = [tmp_path / "broken.png", tmp_path / "missing.png"]
    paths[0].write_bytes(b"no image")
    assert usual_side(paths) is None
    for side in (30, 90, 500):
        write(tmp_path, "cat", side, n=1)
        paths.append(tmp_path / "cat" / f"{side}-0.png")
    assert usual_side(paths) == 90
    assert usual_side([Image.new("RGB", (side, 600)) for side in (30, 90, 500)]) == 90
    assert usual_side(list(images(2, 50))) == 50
    assert choose_backbone([]).name == "efficientnet_lite0"


def test_learn_chooses_by_the_photos_and_says_which_and_why(tmp_path):
    write(tmp_path / "photos", "cat", 90)
    result = learn(tmp_path / "photos", "--model", tmp_path / "m", "--yes")
    assert result.exit_code == 0, result.output
    assert (
        "The backbone is efficientnet_lite0, because the images have 90 pixels on their shorter side" in result.stderr
    )
    assert backbone_of(tmp_path / "m") == "efficientnet_lite0"


def test_a_backbone_that_is_named_is_taken_without_a_word(tmp_path):
    write(tmp_path / "photos", "cat", 90)
    result = learn(tmp_path / "photos", "--model", tmp_path / "m", "--yes", "--backbone", "reduced_resnet18")
    assert backbone_of(tmp_path / "m") == "reduced_resnet18"
    assert "backbone" not in result.stderr


def test_an_old_model_that_meets_large_photos_names_the_better_choice(tmp_path):
    write(tmp_path / "photos", "cat", 40)
    learn(tmp_path / "photos", "--model", tmp_path / "m", "--yes")
    write(tmp_path / "large", "dog", 90)
    result = learn(tmp_path / "large", "--model", tmp_path / "m", "--yes")
    assert result.exit_code == 0, result.output
    assert "--backbone efficientnet_lite0, would use more of them (see docs/photos.md" in " ".join(
        result.stderr.split()
    )
    assert backbone_of(tmp_path / "m") == "reduced_resnet18"
    again = learn(tmp_path / "photos", "--model", tmp_path / "m", "--yes")
    assert "see more" not in again.stderr
