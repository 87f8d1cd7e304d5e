"""The graph's resizing is Pillow's, but for a rounding here and there."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from votestream.backbones.preprocessing import Preprocessing
from votestream.export.image_input import with_any_size


def prepared(how, images):
    """What comes out of the graph that stands before the network."""
    shape = ["n", how.input_size, how.input_size, 3]
    ends = [helper.make_tensor_value_info(name, TensorProto.UINT8, shape) for name in ("images", "out")]
    graph = helper.make_graph([helper.make_node("Identity", ["images"], ["out"])], "network", ends[:1], ends[1:])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    whole = with_any_size(network, {"images": how})
    return onnxruntime.InferenceSession(whole.SerializeToString()).run(None, {"images": images})[0]


HOWS = {
    "crop": Preprocessing(32),
    "a margin cut away": Preprocessing(32, shorter_side=37),
    "squash": Preprocessing(32, resize="squash"),
    "bilinear": Preprocessing(32, interpolation="bilinear"),
}


@pytest.mark.parametrize("shape", [(96, 64), (64, 96), (61, 120), (20, 17), (32, 32), (33, 32), (200, 201)])
@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
def test_a_photo_is_resized_as_pillow_does(how, shape):
    images = np.random.default_rng(0).integers(0, 256, (2, *shape, 3), np.uint8)
    ours = np.stack([how.fit(image) for image in images]).astype(int)
    apart = np.abs(prepared(how, images) - ours)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01


def test_images_that_need_no_resizing_are_not_touched():
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    assert np.array_equal(prepared(Preprocessing(32), images), images)
