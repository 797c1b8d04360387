"""The model of these examples: rows of 64 floats to rows of 16, relu(x @ W + B)."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

INPUTS, OUTPUTS = 64, 16
W = np.random.default_rng(0).standard_normal((INPUTS, OUTPUTS), np.float32)
B = np.linspace(-1, 1, OUTPUTS, dtype=np.float32)


def model() -> bytes:
    """The model as ONNX Runtime takes it."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", OUTPUTS])],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")],
    )
    opset = helper.make_opsetid("", 17)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())


def rows(count: int, seed: int = 0) -> np.ndarray:
    """An input."""
    return np.random.default_rng(seed).standard_normal((count, INPUTS), np.float32)


def check(y: np.ndarray, x: np.ndarray) -> None:
    """Whether `y` is what the model makes of `x`; ValueError if it is not."""
    wanted = np.maximum(x @ W + B, 0)
    if y.shape != wanted.shape or np.abs(y - wanted).max() > 1e-3:
        raise ValueError("the result is wrong")
