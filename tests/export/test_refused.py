"""What cannot be exported is refused with a sentence, and nothing is written."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import votestream as vs
from votestream.backbones.preprocessing import Preprocessing
from votestream.export import export_page, tracing


def refused(model, error, match, **how):
    Path("m.onnx").write_text("what was there before")
    with pytest.raises(error, match=match):
        vs.export_onnx(model, "m.onnx", **how)
    assert Path("m.onnx").read_text() == "what was there before"


def on_images(backbone):
    images = np.random.default_rng(0).integers(0, 256, (4, 2, 2, 3), np.uint8)
    return vs.ImageClassifier(backbone, vs.NearestClassMean(device="cpu")).partial_fit(images, ["a", "b"] * 2)


def test_what_is_no_learner():
    refused(torch.nn.Linear(2, 2), TypeError, "model must be a learner or an ImageClassifier, got Linear")


def test_what_has_learned_nothing():
    refused(vs.NearestClassMean(), NotFittedError, "has learned nothing yet")


def test_a_backbone_that_is_no_torch_module():
    backbone = vs.Backbone("plain", lambda x: x.flatten(1), Preprocessing(2), weights_digest="0", device="cpu")
    refused(on_images(backbone), ValueError, "backbone 'plain' .* no torch module: export model.learner_")


class Deciding(torch.nn.Module):
    """Does one thing with some images and another with others."""

    def forward(self, x):
        return x.flatten(1) if x.sum() > 0 else -x.flatten(1)


def test_a_network_that_cannot_be_traced():
    backbone = vs.from_module(Deciding(), input_size=2, device="cpu")
    refused(on_images(backbone), ValueError, "torch's ONNX exporter cannot trace this model's network")


def test_a_filter_that_onnx_does_not_have():
    backbone = vs.from_module(torch.nn.Flatten(), input_size=2, interpolation="lanczos", device="cpu")
    refused(on_images(backbone), ValueError, "lanczos filter, .* resize=False")


def test_a_predictor_without_a_module():
    class Answers:
        def decide(self, X):
            return np.zeros(len(X), np.int64)

    class Own(vs.NearestClassMean):
        def new_predictor(self):
            return Answers()

    refused(Own().partial_fit([[0.0]], ["a"]), ValueError, r"Answers, has no as_module\(\)")


def test_rows_that_a_learner_changes_first():
    class Own(vs.NearestClassMean):
        def rows_of(self, X, width):
            return super().rows_of(X, width) ** 2

    refused(Own().partial_fit([[0.0]], ["a"]), ValueError, "something of its own to rows")


def test_a_learner_that_answers_from_what_it_learns_with():
    class Own(vs.NearestClassMean):
        def new_predictor(self):
            return Live()

    class Live:
        live = True

        def decide(self, X):
            return np.zeros(len(X), np.int64)

    refused(Own().partial_fit([[0.0]], ["a"]), ValueError, r"Live, has no as_module\(\)")


def test_a_model_that_no_onnx_file_can_hold(monkeypatch):
    monkeypatch.setattr(tracing, "MOST", 40)
    refused(vs.NearestClassMean().partial_fit(np.eye(5), list("abcde")), ValueError, "an ONNX file has room for 2")


def test_without_the_exporters_packages_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    model = vs.NearestClassMean().partial_fit([[0.0]], ["a"])
    refused(model, ImportError, r"needs the packages onnx and onnxscript: `pip install 'votestream\[export\]'`")


def test_a_page_of_a_model_on_features():
    with pytest.raises(ValueError, match="this model takes features: export an ImageClassifier"):
        export_page(vs.NearestClassMean().partial_fit([[0.0]], ["a"]), "page.html")
