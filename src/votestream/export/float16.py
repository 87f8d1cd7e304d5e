"""Weights as float16: a file of half the size that computes in float32 all the same."""

from __future__ import annotations

from typing import Any

import numpy as np


def halve_weights(model: Any) -> None:
    """Store matrices and kernels as float16 and cast them to float32 where they are used.

    Vectors stay as they are: they are small, and biases of hundreds would lose what probabilities depend on. So do
    tables with numbers that float16 does not have.
    """
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2:
            continue
        half = numpy_helper.to_array(tensor)
        if np.abs(half).max(initial=0) > np.finfo(np.float16).max:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
