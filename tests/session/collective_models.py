"""Models with collective operators, and the options of the ranks that run them."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper

DOMAIN = "ort_cuda_ep"
FLOAT = TensorProto.FLOAT
TIMEOUT_S = 60


def group(rank: int, size: int, file: str, timeout_s: int = TIMEOUT_S) -> dict[str, str]:
    """The provider options of a rank."""
    return {
        "collective_rank": str(rank),
        "collective_size": str(size),
        "collective_file": file,
        "collective_timeout_s": str(timeout_s),
    }


def one_node(op: str, dims: list[int | str], kind: int = FLOAT, opset: int = 17, **attributes: Any) -> bytes:
    """A model of one collective node: x -> y, whose shape the host infers."""
    node = helper.make_node(op, ["x"], ["y"], name="node", domain=DOMAIN, **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", kind, dims)],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    return serialized(graph, opset)


def serialized(graph: Any, opset: int = 17) -> bytes:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())
