"""Small models for tests of the Python package."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_reshape_model(path: Path) -> Path:
    """y = reshape(2 * x, [dim0(x), -1]), with the new shape computed by Shape, Gather and Concat."""
    constants = {
        "two": np.float32(2),
        "zero": np.array([0], np.int64),
        "minus_one": np.array([-1], np.int64),
    }
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], "double"),
        helper.make_node("Shape", ["x"], ["dims"], "shape"),
        helper.make_node("Gather", ["dims", "zero"], ["batch"], "gather"),
        helper.make_node("Concat", ["batch", "minus_one"], ["new_dims"], "concat", axis=0),
        helper.make_node("Reshape", ["doubled", "new_dims"], ["y"], "reshape"),
    ]
    graph = helper.make_graph(
        nodes,
        "reshape",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path
