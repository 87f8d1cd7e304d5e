"""Backbones from ONNX files, run by onnxruntime."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from votestream.backbones.backbone import Backbone
from votestream.backbones.optional import BackboneUnavailable
from votestream.backbones.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from votestream.backbones.registry import register_backbone
from votestream.common.extras import import_package, install_extra
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean
from votestream.common.validation import as_device


@register_backbone("onnx:FILE")
def onnx_backbone(
    file: str,
    *,
    output: str | None = None,
    input_size: int | None = None,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    resize: str = "crop",
    shorter_side: int | None = None,
    interpolation: str = "bicubic",
    feature_scale: float = 1.0,
    device: str = "auto",
    batch_size: int | None = None,
) -> Backbone:
    """Make a backbone of an ONNX file that reads float images, channels first or last.

    Args:
        output: The tensor to take as features; the file's first output unless given. A tensor inside the
            network, such as what a classifier's last layer reads, needs the package onnx.
        input_size: Needed only where the file leaves it open.
        feature_scale: 1 leaves features as they come; see `Backbone.calibrate`.
    """
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    runtime = import_package("onnxruntime", f"the backbone 'onnx:{file}'", install_extra("onnx"), BackboneUnavailable)
    where = as_device(device)
    if where.type == "cuda" and "CUDAExecutionProvider" not in runtime.get_available_providers():
        if device != "auto":
            raise ValueError("onnxruntime finds no GPU: install onnxruntime-gpu, or use device='cpu'.")
        where = torch.device("cpu")
    network = OnnxNetwork(runtime, path, output, where)
    size = input_size or network.input_size
    if size is None:
        raise ValueError(f"{path} does not fix the size of its images: give input_size, such as 224.")
    preprocessing = Preprocessing(size, tuple(mean), tuple(std), resize, shorter_side, interpolation)
    return Backbone(
        f"onnx:{file}",
        network,
        preprocessing,
        weights_digest=network.digest,
        feature_scale=feature_scale,
        device=str(where),
        batch_size=network.fixed_batch or batch_size,
    )


class OnnxNetwork:
    """An onnxruntime session with the interface of a torch network: (n, 3, h, w) in, its output out."""

    def __init__(self, runtime: Any, path: Path, output: str | None, device: torch.device) -> None:
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.use_deterministic_compute = True
        providers = ["CUDAExecutionProvider"] if device.type == "cuda" else ["CPUExecutionProvider"]
        try:
            self._session = runtime.InferenceSession(str(path), options, providers)
            outputs = [each.name for each in self._session.get_outputs()]
            if output is not None and output not in outputs:
                self._session = runtime.InferenceSession(_with_output(path, output), options, providers)
        except ValueError:
            raise
        except Exception as error:  # onnxruntime's errors share no class of their own
            raise ValueError(f"{path} is damaged or no ONNX file: {error}") from error
        self._output = output or outputs[0]
        source = self._session.get_inputs()[0]
        self._input, shape = source.name, source.shape
        self._channels_last = len(shape) == 4 and shape[3] == 3 and shape[1] != 3
        sides = shape[1:3] if self._channels_last else shape[2:]
        fits = len(shape) == 4 and (self._channels_last or shape[1] == 3 or not isinstance(shape[1], int))
        if not fits or source.type != "tensor(float)" or (sides[0] != sides[1] and isinstance(sides[0], int)):
            raise ValueError(f"{path} reads {source.type} {shape}, not square float RGB images (n, 3, size, size).")
        self.input_size = sides[0] if isinstance(sides[0], int) else None
        self.fixed_batch = shape[0] if isinstance(shape[0], int) else None
        content = hashlib.sha256(f"onnx {self._output}\n".encode())
        for part in (path, path.with_name(path.name + ".data"), path.with_name(path.name + "_data")):
            if part.is_file():  # large weights stand in a second file
                content.update(part.read_bytes())
        self.digest = content.hexdigest()

    def __call__(self, x: Tensor) -> Tensor:
        pixels = x.cpu().numpy()
        if self._channels_last:
            pixels = pixels.transpose(0, 2, 3, 1)
        if self.fixed_batch and len(pixels) < self.fixed_batch:
            pixels = np.concatenate([pixels, np.zeros((self.fixed_batch - len(x), *pixels.shape[1:]), np.float32)])
        result = self._session.run([self._output], {self._input: np.ascontiguousarray(pixels)})[0]
        return torch.from_numpy(np.array(result[: len(x)]))


def _with_output(path: Path, name: str) -> bytes:
    """The model with one more output: a tensor from inside it."""
    onnx = import_package("onnx", f"taking the features from {name!r} inside {path}", error=BackboneUnavailable)
    model = onnx.load(str(path))
    inside = [each for node in model.graph.node for each in node.output]
    if name not in inside:
        raise ValueError(f"{path} has no tensor {shown(name)}. {did_you_mean(name, inside[::-1])}")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return model.SerializeToString()
