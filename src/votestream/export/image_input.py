"""Images of any size as the input of a graph: resized and cropped inside it as `Preprocessing.fit` does."""

from __future__ import annotations

from typing import Any

import numpy as np

from votestream.backbones.preprocessing import Preprocessing
from votestream.export.tracing import OPSET

# Pillow's filters that Resize has; with `exclude_outside` weights are shared out at the border as Pillow shares them.
MODES: dict[str, dict[str, Any]] = {
    "bicubic": {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    "bilinear": {"mode": "linear", "exclude_outside": 1},
}
INPUT = "images"


def can_resize(how: Preprocessing) -> bool:
    return how.interpolation in MODES


def with_any_size(model: Any, ways: dict[str, Preprocessing]) -> Any:
    """The model with one input, uint8 (n, height, width, 3), in place of inputs of these names, prepared so."""
    import onnx
    from onnx import TensorProto, helper

    nodes = _Nodes()
    for name, how in ways.items():
        nodes.prepare(name, how)
    image = helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["n", "height", "width", 3])
    outputs = [
        helper.make_tensor_value_info(f"{name}_prepared", TensorProto.UINT8, ["n", how.input_size, how.input_size, 3])
        for name, how in ways.items()
    ]
    graph = helper.make_graph(nodes.nodes, "prepare", [image], outputs, nodes.constants)
    opset = [helper.make_opsetid("", OPSET)]
    prepare = helper.make_model(graph, opset_imports=opset, ir_version=model.ir_version)
    return onnx.compose.merge_models(prepare, model, io_map=[(f"{name}_prepared", name) for name in ways])


class _Nodes:
    """A list of nodes that grows; methods add some, and name what comes out."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = out or f"prepare_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any, dtype: type[Any] = np.int64) -> str:
        from onnx import numpy_helper

        name = f"prepare_constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def prepare(self, name: str, how: Preprocessing) -> None:
        """`images` to `NAME_prepared`: scaled to what `how` says, the middle cut out."""
        size = self.constant([how.input_size, how.input_size])
        shape = self.add("Shape", INPUT)
        sides = self.add("Slice", shape, self.constant([1]), self.constant([3]))  # height, width
        scaled = self._scaled(sides, how)
        batch = self.add("Slice", shape, self.constant([0]), self.constant([1]))
        whole = self.add("Concat", batch, self.constant([3]), scaled, axis=0)
        planes = self.add("Transpose", INPUT, perm=[0, 3, 1, 2])
        attributes = {"antialias": 1, "coordinate_transformation_mode": "half_pixel", **MODES[how.interpolation]}
        resized = self.add("Resize", planes, "", "", whole, **attributes)
        start = self._half(self.add("Sub", scaled, size))
        cut = self.add("Slice", resized, start, self.add("Add", start, size), self.constant([2, 3]))
        self.add("Transpose", cut, perm=[0, 2, 3, 1], out=f"{name}_prepared")

    def _scaled(self, sides: str, how: Preprocessing) -> str:
        """Height and width before the crop; a longer side is rounded down."""
        short = self.constant([how.shorter_side or how.input_size])
        if how.resize == "squash":
            return self.add("Concat", short, short, axis=0)
        shortest = self.add("ReduceMin", sides, keepdims=1)
        return self.add("Div", self.add("Mul", sides, short), shortest)

    def _half(self, lengths: str) -> str:
        """Rounded to even, as Python's round does."""
        from onnx import TensorProto

        exact = self.add("Mul", self.add("Cast", lengths, to=TensorProto.FLOAT), self.constant(0.5, np.float32))
        return self.add("Cast", self.add("Round", exact), to=TensorProto.INT64)
