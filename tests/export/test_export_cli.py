"""`votestream export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app


@pytest.fixture
def saved():
    vs.NearestClassMean().partial_fit([[0.0], [5.0], [9.0]], ["low", 5, "high"]).save("m.safetensors")
    return "m.safetensors"


def run(*arguments):
    return CliRunner().invoke(app, ["export", *arguments])


def test_a_saved_model_becomes_an_onnx_file_with_its_labels_in_order(saved):
    done = run(saved, "m.onnx", "--float16")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("m.onnx: 3 classes, ")
    assert TensorProto.FLOAT16 in {tensor.data_type for tensor in onnx.load("m.onnx").graph.initializer}
    session = onnxruntime.InferenceSession("m.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == [5, "high", "low"]
    assert session.run(None, {"features": np.array([[8.0], [1.0]], np.float32)})[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["m.safetensors", "m.txt"], "must be a file whose name ends in .onnx"),
        (["m.safetensors", "m.onnx", "--page"], "must be a file whose name ends in .html"),
        (["m.safetensors", "nowhere/m.onnx"], "there is no folder nowhere"),
        (["m.safetensors", "m.html", "--page", "--exact-size"], "cannot be used with --page"),
        (["m.safetensors", "m.onnx", "--runtime", "."], "needs --page"),
        (["m.safetensors", "m.html", "--page"], "this model takes features"),
        (["other.safetensors", "m.onnx"], "other.safetensors"),
        (["text.safetensors", "m.onnx"], "text.safetensors"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(saved, arguments, sentence):
    Path("text.safetensors").write_text("no model")
    done = run(*arguments)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.replace("│", " ").split())
    assert not Path(arguments[1]).exists()
