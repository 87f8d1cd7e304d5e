"""From a model to one graph: what sees and what decides as a torch module, traced by torch's ONNX exporter."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from votestream.backbones import Backbone
from votestream.common.extras import install_extra

OPSET = 18  # the first whose Resize averages over what it shrinks, as Pillow does
MOST = 2**31 - 2**20  # bytes of weights: an ONNX file has less than 2 GB, the graph itself included
OUTPUTS = ("class", "probabilities", "unknown_score", "confidence")


class BackboneModule(nn.Module):
    """A backbone on prepared images: one uint8 tensor (n, size, size, 3) for each size it looks at, features out."""

    scale: Tensor
    shift: Tensor

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        if not isinstance(backbone.network, nn.Module):
            raise ValueError(
                f"a model through the backbone {backbone.name!r} cannot be exported whole, as that is no torch module: "
                "export model.learner_, and give it the backbone's features"
            )
        self.network = copy.deepcopy(backbone.network).cpu()  # the model goes on with its own, wherever that is
        self.views, self.feature_scale = backbone.views, backbone.feature_scale
        how = backbone.preprocessing
        self.register_buffer("scale", torch.tensor([1 / (255 * s) for s in how.std]).view(3, 1, 1))
        shift = [mean / std for mean, std in zip(how.mean, how.std, strict=True)]
        self.register_buffer("shift", torch.tensor(shift).view(3, 1, 1))

    def forward(self, *pixels: Tensor) -> Tensor:
        sizes = {batch.shape[1]: batch.permute(0, 3, 1, 2).float() * self.scale - self.shift for batch in pixels}
        looks = [sizes[view.size].flip(3) if view.mirrored else sizes[view.size] for view in self.views]
        outputs = [self.network(look) for look in looks]
        outputs = [output.mean(dim=(2, 3)) if output.ndim == 4 else output for output in outputs]
        output = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(0)
        return output.float() / self.feature_scale


class WholeModule(nn.Module):
    """What sees, if there is something to see by, and what decides."""

    def __init__(self, decides: nn.Module, sees: nn.Module | None) -> None:
        super().__init__()
        self.sees, self.decides = sees, decides

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self.decides(inputs[0] if self.sees is None else self.sees(*inputs))


def traced(module: nn.Module, inputs: dict[str, tuple[int, ...]], kind: torch.dtype) -> Any:
    """The module's graph as an ONNX model, for any number of rows; `inputs` are names and the shapes of a row."""
    try:
        import onnx  # noqa: F401
        from onnxscript import optimizer
    except ImportError as error:
        raise ImportError(f"exporting needs the packages onnx and onnxscript: {install_extra('export')}") from error
    weights = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
    if weights > MOST:
        raise ValueError(f"the model has {weights / 1e9:.1f} GB of weights, and an ONNX file has room for 2")
    first = next(module.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    module = module.to(device).eval()
    # Two rows: torch takes a dimension of 1 for one that is always 1.
    examples = tuple(torch.zeros((2, *shape), dtype=kind, device=device) for shape in inputs.values())
    n = torch.export.Dim("n")
    with _quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                module,
                examples,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=list(OUTPUTS),
                dynamic_shapes=(tuple({0: n} for _ in examples),),
                optimize=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as problem:
            cause = str(problem.__cause__ or problem).strip().partition("\n")[0]
            raise ValueError(f"torch's ONNX exporter cannot trace this model's network ({cause})") from problem
        assert program is not None
        # Constants are folded, no more: the exporter's own optimiser takes an addition of 1e-8, which keeps the vote of
        # an exemplar equal to the row finite, for one of 0 and drops it.
        optimizer.fold_constants(program.model)
        optimizer.remove_unused_nodes(program.model)
    return program.model_proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of itself: packages that it would know more with, a deprecation in torch, and that
    inputs of several sizes share their number of rows.
    """
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
            warnings.filterwarnings("ignore", "# The axis name: n will not be used", UserWarning)
            yield
    finally:
        log.setLevel(level)
