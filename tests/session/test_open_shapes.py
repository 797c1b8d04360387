"""Nodes whose inputs the model gives no shape, not even a rank, are placed like any others."""

import numpy as np
import onnx
import pytest
from onnx import helper

from . import host

_X = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
_GRID = np.zeros((1, 1, 1, 2), np.float32)
_WEIGHT = np.ones((1, 2, 1, 1), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("GridSample", [_X, _GRID], [[[[4.0]], [[13.0]]]]),
        ("DeformConv", [_X, _WEIGHT, np.zeros((1, 2, 3, 3), np.float32)], _X.sum(axis=1, keepdims=True).tolist()),
    ],
)
def test_without_a_rank(op: str, inputs: list[np.ndarray], expected: list, test_library: str) -> None:
    assert test_library
    names = [f"x{index}" for index in range(len(inputs))]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"])], "open", infos, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = host.open_session(model.SerializeToString())  # fails where a node is elsewhere
    (result,) = host.run(session, dict(zip(names, inputs, strict=True)))
    assert result.tolist() == expected
