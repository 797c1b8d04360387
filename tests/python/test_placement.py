"""Shape nodes, and placement read from a real profile of the CPU provider."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from models import save_reshape_model
from onnx import TensorProto, helper
from ort_cuda_ep.placement import parse_profile, run_profiled
from ort_cuda_ep.shape_nodes import find_shape_nodes


def test_shape_nodes_grow_from_shape(tmp_path: Path) -> None:
    names, unnamed = find_shape_nodes(onnx.load(save_reshape_model(tmp_path / "m.onnx")))
    assert names == {"shape", "gather", "concat"}
    assert unnamed == set()


def test_a_model_of_shape_nodes_alone_has_none() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [1])
    model = helper.make_model(helper.make_graph([helper.make_node("Shape", ["x"], ["y"], "s")], "g", [value], [out]))
    assert find_shape_nodes(model) == (frozenset(), frozenset())


def test_a_large_constant_starts_nothing() -> None:
    big = helper.make_tensor("big", TensorProto.FLOAT, [2000], np.zeros(2000, np.float32))
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2000])
    graph = helper.make_graph([helper.make_node("Exp", ["big"], ["y"], "exp")], "g", [], [value], [big])
    assert "exp" not in find_shape_nodes(helper.make_model(graph))[0]


def test_placement_of_a_real_session(tmp_path: Path) -> None:
    path = save_reshape_model(tmp_path / "m.onnx")
    feed = {"x": np.ones((4, 2, 3), np.float32)}

    def make_session(options: ort.SessionOptions) -> ort.InferenceSession:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    placement, outputs = run_profiled(make_session, path, [feed, feed])
    np.testing.assert_array_equal(outputs[1][0], np.full((4, 6), 2, np.float32))
    compute = placement.compute_on("CPUExecutionProvider")
    assert {node.op_type for node in compute} == {"Mul", "Reshape"}
    assert all(node.calls == 2 for node in compute)
    assert placement.compute_elsewhere("CUDAExecutionProvider") == compute
    assert placement.count("shape") > 0


def test_copies_are_told_apart(tmp_path: Path) -> None:
    model = onnx.load(save_reshape_model(tmp_path / "m.onnx"))
    arguments = {"op_name": "MemcpyToHost", "provider": "CUDAExecutionProvider", "node_index": "9"}
    event = {"cat": "Node", "name": "Memcpy_kernel_time", "dur": 5, "args": arguments}
    before = {"cat": "Node", "name": "Memcpy_fence_before", "dur": 5, "args": arguments}
    placement = parse_profile([event, before, {"cat": "Session", "name": "model_run", "dur": 1, "args": {}}], model)
    assert [(node.kind, node.duration_us) for node in placement.nodes] == [("copy", 5)]
