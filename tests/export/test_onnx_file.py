"""What onnxruntime makes of an exported file: the model's own predictions, and what the file says of itself."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import votestream as vs
from conftest import maker, one_thread
from votestream.export.float16 import halve_weights
from votestream.export.onnx_file import onnx_bytes
from votestream.testing.samples import ImageSamples

NAMES = np.array(["f", "b", "d", "a", "c", "e"])


def taught(model, stream):
    for task, (X, y) in enumerate(stream.tasks):
        model.partial_fit(X, NAMES[y], task=f"week {task}")
    return model


def opened(model, **how):
    """A session on the file, in which there must be no float64: many runtimes have none, or take it for float32."""
    vs.export_onnx(model, "m.onnx", **how)
    graph = onnx.shape_inference.infer_shapes(onnx.load("m.onnx")).graph
    kinds = {value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    assert TensorProto.DOUBLE not in kinds | {tensor.data_type for tensor in graph.initializer}
    onnx.checker.check_model("m.onnx", full_check=True)
    return onnxruntime.InferenceSession("m.onnx")


def differs(session, model, X):
    """How far probabilities are apart at most, for 1, 3 and 64 rows; decisions must be the same."""
    worst = 0.0
    for n in (1, 3, 64):
        rows = X[:n]
        chosen, shares, *unknown = session.run(None, {session.get_inputs()[0].name: rows})
        assert chosen.dtype == np.int64
        assert shares.dtype == np.float32
        assert model.classes_[chosen].tolist() == model.predict(rows).tolist()
        if unknown:
            np.testing.assert_allclose(unknown[0], model.unknown_score(rows), atol=1e-3)
            np.testing.assert_allclose(unknown[1], model.confidence(rows), atol=1e-3)
        worst = max(worst, np.abs(shares - model.predict_proba(rows)).max())
    return worst


def said(session):
    return session.get_modelmeta().custom_metadata_map


# Those with the most to translate, as each takes a second; test_modules.py has them all.
@pytest.mark.parametrize("name", ["candidates_voting", "gaussian_voting", "knn", "rls"])
def test_a_learner_on_features_predicts_the_same_in_onnxruntime(name, stream):
    model = taught(maker(name)(track=True), stream)
    session = opened(model)
    assert [each.name for each in session.get_outputs()] == ["class", "probabilities", "unknown_score", "confidence"]
    assert differs(session, model, stream.X[::2]) < 1e-5  # exemplars among the rows


def test_a_trained_network_predicts_the_same_in_onnxruntime():
    stream = ImageSamples()
    with one_thread():
        model = taught(maker("er")(), stream)
        assert differs(opened(model), model, stream.X[::2]) < 1e-5


@pytest.fixture(scope="module")
def looking():
    """A model that looks at images in two sizes, and mirrored."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 12, 3), torch.nn.BatchNorm2d(12), torch.nn.ReLU())
    backbone = vs.from_module(network, input_size=8, name="little", device="cpu").with_views("8,8m,12")
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), np.uint8)
    images[::2, :4] //= 2
    learner = vs.GaussianVoting(track=True, device="cpu")
    return vs.ImageClassifier(backbone, learner).partial_fit(images, ["day", "night"] * 30, task="first")


@pytest.fixture(scope="module")
def any_size(looking):
    return onnxruntime.InferenceSession(onnx_bytes(looking))


def test_images_of_any_size_go_through_views_and_network(looking, any_size):
    rng = np.random.default_rng(1)
    for shape in ((8, 8), (16, 24), (32, 16), (24, 24)):
        images = rng.integers(0, 256, (64, *shape, 3), np.uint8)
        assert differs(any_size, looking, images) < 1e-4


def test_a_file_says_what_it_knows_and_how_images_are_prepared(looking, any_size):
    about = said(any_size)
    assert json.loads(about["labels"]) == ["day", "night"]
    assert (json.loads(about["tasks"]), json.loads(about["task_of_class"])) == (["first"], [0, 0])
    assert (about["votestream"], about["learner"]) == (vs.__version__, "gaussian_voting")
    assert (about["samples_learned"], about["unknown_above"]) == ("60", "0.95")
    backbone = json.loads(about["backbone"])
    assert (backbone["name"], backbone["digest"]) == ("little", looking.backbone_.digest)
    how = json.loads(about["preprocessing"])
    assert (how["sizes"], how["in_graph"], how["interpolation"]) == ([8, 12], True, "bicubic")
    assert "8 x 8 and 12 x 12 pixels" in about["preprocessing_in_words"]


def test_without_resizing_there_is_an_input_for_each_size(looking):
    session = opened(looking, resize=False)
    assert {each.name: each.shape[1:] for each in session.get_inputs()} == {
        "images_8": [8, 8, 3],
        "images_12": [12, 12, 3],
    }
    image = np.random.default_rng(1).integers(0, 256, (30, 20, 3), np.uint8)
    how = looking.backbone_.preprocessing
    prepared = {f"images_{size}": how.of_size(size).fit(image)[None] for size in (8, 12)}
    _, shares, *_ = session.run(None, prepared)
    np.testing.assert_allclose(shares, looking.predict_proba([image]), atol=1e-5)
    assert "scale the shorter side to the size by a bicubic filter" in said(session)["preprocessing_in_words"]


def product(table):
    """A graph that multiplies its rows by a table and adds a vector of thousands."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", None]) for name in ("x", "y")]
    arrays = {"table": table, "bias": np.full(table.shape[1], 4321.1, np.float32)}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    nodes = [helper.make_node("MatMul", ["x", "table"], ["z"]), helper.make_node("Add", ["z", "bias"], ["y"])]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_float16_weights_take_half_the_bytes_and_vectors_stay():
    table = np.random.default_rng(0).normal(size=(200, 100)).astype(np.float32)
    model = product(table)
    size = model.ByteSize()
    halve_weights(model)
    assert model.ByteSize() < 0.52 * size
    x = np.random.default_rng(1).normal(size=(3, 200)).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found, x @ table.astype(np.float16).astype(np.float32) + np.float32(4321.1), rtol=1e-6)


def test_a_table_with_numbers_that_float16_does_not_have_stays_float32():
    model = product(np.full((200, 100), 1e5, np.float32))
    before = model.SerializeToString()
    halve_weights(model)
    assert model.SerializeToString() == before
