"""The first five minutes: the demo runs, tells what it did, and draws it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from votestream import __version__
from votestream.cli.main import app
from votestream.streams.sample import CLASSES, sample_images

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    plot = tmp_path_factory.mktemp("demo") / "demo.png"
    result = CliRunner().invoke(app, ["demo", "--out", str(plot)])
    assert result.exit_code == 0, result.output
    return result.output, plot


def test_after_each_task_it_shows_the_four_variants(shown):
    output, _ = shown
    for task in range(1, 6):
        assert f"After task {task} of 5" in output
    for variant in ("Baseline", "Nearest exemplar", "CandidatesVoting", "GaussianVoting"):
        assert len(re.findall(rf"{variant} +│ +\d+\.\d%", output)) == 5


def test_the_votes_end_above_the_baseline_and_far_above_chance(shown):
    output, _ = shown
    last = dict(re.findall(r"(\w+) +│ +(\d+\.\d)%", output[output.index("After task 5") :]))
    assert float(last["CandidatesVoting"]) > max(55, float(last["Baseline"]))
    assert float(last["GaussianVoting"]) > float(last["CandidatesVoting"])


def test_it_says_what_it_keeps_and_draws_the_outcome(shown):
    output, plot = shown
    assert "200 exemplar features (no image)" in output
    size = {
        name: int(kilobytes)
        for name, kilobytes in re.findall(r"(CandidatesVoting|GaussianVoting):[^│]*│ +(\d+)", output)
    }
    assert size["GaussianVoting"] < size["CandidatesVoting"]
    with Image.open(plot) as image:
        assert min(image.size) > 300
        assert np.asarray(image.convert("L")).std() > 20


def test_it_looks_at_photos_through_the_photo_network(shown):
    output = shown[0]
    assert "with the backbone efficientnet_lite0" in output
    assert re.search(r"temple: temple \d+%\s+flower: flower \d+%", output)


def test_the_docs_show_what_the_demo_prints(shown):
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    printed, told = (re.findall(r"│ (.*?) +│ +([\d.,]+)", text) for text in (shown[0], page))
    named = dict(printed)  # the last table of accuracies
    assert len(told) == 8
    for what, number in told[:4]:
        assert float(named[what]) == pytest.approx(float(number), abs=1)  # another processor may round otherwise
    assert told[4:] == printed[-4:]


def test_without_matplotlib_it_says_how_to_get_the_plot(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    assert "pip install 'votestream[plots]'" in result.output


def test_the_sample_is_balanced_and_small():
    for part, per_class in (("train", 100), ("test", 50)):
        images, labels = sample_images(part)
        assert images.shape == (10 * per_class, 32, 32, 3)
        assert all((labels == name).sum() == per_class for name in CLASSES)
    assert not set(map(bytes, sample_images("train")[0])) & set(map(bytes, sample_images("test")[0]))


def test_the_version_is_told():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"votestream {__version__}"
