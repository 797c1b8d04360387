"""Small models for session tests, as serialized bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Dims]],
    outputs: dict[str, tuple[int, Dims | None]],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> bytes:
    """A model of `nodes`; inputs and outputs map names to (element type, dims)."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return bytes(proto.SerializeToString())


def add_chain(length: int) -> bytes:
    """`length` Add nodes in a row over float vectors of any length: out = x + length * b."""
    nodes = [helper.make_node("Add", [f"v{i}", "b"], [f"v{i + 1}"], name=f"add{i}") for i in range(length)]
    vector: tuple[int, Dims] = (TensorProto.FLOAT, ["n"])
    return model(nodes, {"v0": vector, "b": vector}, {f"v{length}": vector})


def add_then_string() -> bytes:
    """An Add of ours feeding an operator on strings that no GPU provider has."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"], name="ours"),
        helper.make_node("Cast", ["y"], ["text"], to=TensorProto.STRING, name="not_ours"),
    ]
    return model(nodes, {"x": (TensorProto.FLOAT, ["n"])}, {"text": (TensorProto.STRING, ["n"])})
