"""A model as one ONNX file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from votestream.backbones import Backbone
from votestream.core import Learner
from votestream.export.float16 import halve_weights
from votestream.export.image_input import INPUT, can_resize, with_any_size
from votestream.export.metadata import about, about_images
from votestream.export.tracing import BackboneModule, WholeModule, traced
from votestream.io.partial_files import write_whole
from votestream.learners import NetworkLearner
from votestream.pipeline import ImageClassifier


def export_onnx(model: Learner, path: str | os.PathLike[str], *, float16: bool = False, resize: bool = True) -> None:
    """Write a model as one ONNX file, which predicts as the model does now; docs/export.md tells how to use it.

    Input: `features`, float32 (n, D), or for models on images `images`, uint8 RGB (n, height, width, 3), of any size.
    Outputs: `class`, int64 (n,), a place in the labels; `probabilities`, float32 (n, C), calibrated, in the labels'
    order; of models with `track=True` also `unknown_score` and `confidence`, float32 (n,). Labels, tasks and
    preprocessing stand in the file's metadata.

    Parameters
    ----------
    model : an ImageClassifier, or any learner whose predictor has `as_module`, as all of ours do.
    path : the file to write. It is written whole or not at all.
    float16 : store weights in half the bytes; they are cast to float32 where they are used.
    resize : False takes images of the very size that the network reads, for places whose ONNX runtime cannot resize
        as Pillow does; `images_32` and `images_40` where it looks at several sizes.

    >>> import numpy as np, onnxruntime, votestream as vs
    >>> model = vs.NearestClassMean().partial_fit([[0.0], [9.0]], ["low", "high"])
    >>> vs.export_onnx(model, "m.onnx")
    >>> session = onnxruntime.InferenceSession("m.onnx")
    >>> number, shares = session.run(None, {"features": np.array([[8.0]], np.float32)})
    >>> session.get_modelmeta().custom_metadata_map["labels"], number.tolist()
    ('["high", "low"]', [0])
    """
    write_whole(Path(path), onnx_bytes(model, float16=float16, resize=resize))


def onnx_bytes(model: Learner, *, float16: bool = False, resize: bool = True) -> bytes:
    """The same as bytes."""
    learner, backbone = _parts(model)
    snapshot = learner.snapshot()
    said = about(learner, snapshot)
    if backbone is None:
        width = learner.n_features_in_
        graph = traced(WholeModule(snapshot.as_module(), None), {"features": (width,)}, torch.float32)
    else:
        graph, more = _on_images(snapshot.as_module(), learner, backbone, resize)
        said |= more
    if float16:
        halve_weights(graph)
    for key, value in said.items():
        graph.metadata_props.add(key=key, value=value)
    content: bytes = graph.SerializeToString()
    return content


def is_on_images(model: Learner) -> bool:
    return model.input == "images"


def _parts(model: Learner) -> tuple[Learner, Backbone | None]:
    """What learned, and what prepares images for it."""
    if isinstance(model, ImageClassifier):
        return model.learner_, model.backbone_
    if isinstance(model, NetworkLearner):
        return model, model.backbone_
    if isinstance(model, Learner):
        return model, None
    raise TypeError(f"model must be a learner or an ImageClassifier, got {type(model).__name__}")


def _on_images(
    decides: torch.nn.Module, learner: Learner, backbone: Backbone, resize: bool
) -> tuple[Any, dict[str, str]]:
    how, trains = backbone.preprocessing, isinstance(learner, NetworkLearner)
    sizes = [backbone.input_size] if trains else list(dict.fromkeys(view.size for view in backbone.views))
    names = {INPUT if len(sizes) == 1 else f"{INPUT}_{size}": size for size in sizes}
    if resize and not can_resize(how):
        raise ValueError(
            f"the backbone {backbone.name!r} scales images by a {how.interpolation} filter, which ONNX does not have: "
            "export with resize=False, and scale images before"
        )
    whole = WholeModule(decides, None if trains else BackboneModule(backbone))
    graph = traced(whole, {name: (size, size, 3) for name, size in names.items()}, torch.uint8)
    if resize:
        graph = with_any_size(graph, {name: how.of_size(size) for name, size in names.items()})
    return graph, about_images(backbone, sizes, resize)
