"""The conformance run itself: what it counts and how it compares."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.session import host

from . import __main__ as conformance
from . import values
from .node_cases import NodeCase

OURS, CPU = host.EP_NAME, "CPUExecutionProvider"


def _case(name: str) -> NodeCase:
    return NodeCase(name, b"", [], 0, 0)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ({"outcome": "right", "providers": {OURS: 2}}, "right on the plug-in"),
        ({"outcome": "right", "providers": {OURS: 2, CPU: 1}}, "right with nodes elsewhere"),
        ({"outcome": "right", "providers": {}}, "right with nodes elsewhere"),
        ({"outcome": "wrong", "providers": {OURS: 1}}, "wrong on the plug-in"),
        ({"outcome": "crash"}, "crash"),
    ],
)
def test_a_case_counts_by_where_its_nodes_ran(outcome: dict[str, Any], kind: str) -> None:
    assert conformance.kind_of(outcome) == kind


def test_the_summary_counts_each_missing_operator_once_a_case() -> None:
    outcomes = {
        0: {"outcome": "right", "providers": {OURS: 1}, "elsewhere": {}},
        1: {"outcome": "right", "providers": {CPU: 3}, "elsewhere": {"DFT": 3}},
        2: {"outcome": "unloadable", "detail": "no"},
    }
    found = conformance.summary([_case("a"), _case("b"), _case("c")], outcomes)
    assert (found["total"], found["loadable"], found["missing"]) == (3, 2, {"DFT": 1})
    assert found["counts"]["right on the plug-in"] == 1


@pytest.mark.parametrize("kind", ["UINT4", "INT4", "UINT2", "INT2", "FLOAT8E4M3FN", "BFLOAT16", "FLOAT"])
def test_values_come_back_as_they_went(kind: str) -> None:
    code = onnx.TensorProto.DataType.Value(kind)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    array = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).astype(np.float32).astype(dtype)
    proto = onnx.numpy_helper.from_array(array)
    back = values.from_host(values.to_host(proto, plain=False))
    assert back.dtype == dtype and back.astype(np.float32).tolist() == array.astype(np.float32).tolist()


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.float32([1, 2]), np.float32([1, 2.1])),
        (np.float32([1]), np.float64([1])),
        (np.float32([[1]]), np.float32([1])),
        (np.int64([1]), np.int64([2])),
        (np.float32([np.nan]), np.float32([0])),
        (None, np.float32([0])),
        ([np.int64([1])], [np.int64([1]), np.int64([1])]),
        (np.array(["a"]), np.array(["b"])),
    ],
)
def test_differences_are_told(actual: Any, expected: Any) -> None:
    assert values.difference(actual, expected, 1e-3, 1e-7)
    assert not values.difference(expected, expected, 1e-3, 1e-7)
