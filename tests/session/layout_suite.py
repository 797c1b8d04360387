"""What `prefer_nhwc=1` makes of models, on every supported host: the host rewrites nodes to channels-last ones.

    python -m tests.session.layout_suite LIBRARY

One check for each operator and schema version with such a form: the node runs in it, nothing is on the CPU, and the
results are those of the CPU provider.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.suite import run_checks, session, session_options

NHWC = "com.ms.internal.nhwc"
IMAGE = (2, 8, 10, 12)
_RNG = np.random.default_rng(5)


def _values(*shape: int) -> np.ndarray:
    return _RNG.uniform(0.5, 2, shape).astype(np.float32)


_SQUARE: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2]}
_STATISTICS = {name: _values(8) for name in ("scale", "bias", "mean", "variance")}
# Operator, its opsets that the host's layout transformer takes, attributes, constants, the shape of X.
OPERATORS: list[tuple[str, tuple[int, ...], dict[str, Any], dict[str, np.ndarray], tuple[int, ...]]] = [
    ("Conv", (7, 11, 22), {"pads": [1, 1, 1, 1]}, {"w": _values(16, 8, 3, 3), "b": _values(16)}, IMAGE),
    ("Conv", (11,), {"group": 8, "pads": [1, 1, 1, 1]}, {"w": _values(8, 1, 3, 3)}, IMAGE),
    ("Conv", (11,), {"group": 2}, {"w": _values(6, 4, 3, 3)}, IMAGE),
    ("Conv", (11,), {}, {"w": _values(6, 8, 3)}, (2, 8, 11)),
    ("Conv", (11,), {}, {"w": _values(6, 8, 2, 2, 2)}, (2, 8, 4, 5, 3)),
    ("ConvTranspose", (7, 11, 22), {"strides": [2, 2]}, {"w": _values(8, 5, 3, 3)}, IMAGE),
    ("MaxPool", (7, 8, 10, 11, 12, 22), _SQUARE, {}, IMAGE),
    ("AveragePool", (7, 10, 11, 19, 22), _SQUARE, {}, IMAGE),
    ("GlobalMaxPool", (7, 22), {}, {}, IMAGE),
    ("GlobalAveragePool", (7, 22), {}, {}, IMAGE),
    ("LRN", (7, 13), {"size": 5, "alpha": 0.5}, {}, IMAGE),
    ("BatchNormalization", (7, 9, 14, 15), {}, _STATISTICS, IMAGE),
    ("DepthToSpace", (7, 11, 13), {"blocksize": 2}, {}, IMAGE),
    ("SpaceToDepth", (7, 13), {"blocksize": 2}, {}, IMAGE),
    ("GridSample", (16, 20, 22), {}, {"grid": _values(2, 5, 6, 2) - 1}, IMAGE),
]


def _image(shape: tuple[int, ...], code: int = TensorProto.FLOAT) -> tuple[int, list[str | int]]:
    return (code, list(shape))


def _one_node(op: str, opset: int, attributes: dict[str, Any], constants: dict[str, np.ndarray],
              shape: tuple[int, ...], outputs: tuple[str, ...] = ("y",)) -> bytes:  # fmt: skip
    node = helper.make_node(op, ["x", *constants], list(outputs), name="node", **attributes)
    codes = {"y": TensorProto.FLOAT, "indices": TensorProto.INT64}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, codes[name], None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def _cpu(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = session_options()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds))


def _run(model: bytes, feeds: dict[str, np.ndarray], **options: str) -> tuple[list[np.ndarray], list[tuple[str, str]]]:
    """Results, and domain and operator of every node after the host has laid them out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        made = session(model, {"prefer_nhwc": "1", "placement_report": str(report), **options})
        nodes = json.loads(report.read_text())["graphs"][0]["nodes"]
        return list(made.run(None, feeds)), [(node["domain"], node["op_type"]) for node in nodes]


def _check(op: str, opset: int, attributes: dict[str, Any], constants: dict[str, np.ndarray],
           shape: tuple[int, ...]) -> None:  # fmt: skip
    model, feeds = _one_node(op, opset, attributes, constants, shape), {"x": _values(*shape)}
    (actual,), nodes = _run(model, feeds)
    assert (NHWC, op) in nodes, nodes
    np.testing.assert_allclose(actual, _cpu(model, feeds)[0], rtol=1e-5, atol=1e-5)


def _named(*arguments: Any) -> Callable[[], None]:
    return lambda: _check(*arguments)


for _i, (_op, _opsets, *_rest) in enumerate(OPERATORS):
    for _opset in _opsets:
        globals()[f"check_{_op}_{_opset}_{_i}"] = _named(_op, _opset, *_rest)


def check_indices_of_maxima() -> None:
    """They count, and lie, channels first: the host turns only the first output back."""
    model = _one_node("MaxPool", 12, _SQUARE, {}, IMAGE, ("y", "indices"))
    feeds = {"x": _values(*IMAGE)}
    found, nodes = _run(model, feeds)
    assert (NHWC, "MaxPool") in nodes, nodes
    for actual, expected in zip(found, _cpu(model, feeds), strict=True):
        np.testing.assert_array_equal(actual, expected)


def check_a_network_is_turned_once() -> None:
    """Convolutions, activations, a residual and pools in a row keep the layout: one transpose in, none or one out."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w1"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["d", "c"], ["e"]),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    weights = {"w0": _values(8, 8, 3, 3) - 1, "w1": _values(8, 8, 3, 3) - 1}
    model = models.model(nodes, {"x": _image(IMAGE)}, {"y": _image((2, 8))}, weights)
    feeds = {"x": _values(*IMAGE)}
    (actual,), placed = _run(model, feeds)
    np.testing.assert_allclose(actual, _cpu(model, feeds)[0], rtol=1e-4, atol=1e-4)
    assert [node for node in placed if node[1] == "Conv"] == [(NHWC, "Conv")] * 2
    assert sum(op == "Transpose" for _, op in placed) <= 2, placed
    (actual,), placed = _run(model, feeds, prefer_nhwc="0")
    np.testing.assert_allclose(actual, _cpu(model, feeds)[0], rtol=1e-4, atol=1e-4)
    assert all(domain != NHWC and op != "Transpose" for domain, op in placed), placed


def check_a_model_of_two_outputs_is_one_graph_of_the_report() -> None:
    """The host reorders the nodes that it turns; the report has the last answer alone."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["v"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["v", "w1"], ["y0"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["v", "w2"], ["y1"], name="right", pads=[1, 1, 1, 1]),
    ]
    weights = {f"w{i}": _values(8, 8, 3, 3) - 1 for i in range(3)}
    model = models.model(nodes, {"x": _image(IMAGE)}, {"y0": _image(IMAGE), "y1": _image(IMAGE)}, weights)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        session(model, {"prefer_nhwc": "1", "placement_report": str(report)})
        (graph,) = json.loads(report.read_text())["graphs"]
    turned = sorted(node["name"] for node in graph["nodes"] if node["domain"] == NHWC)
    assert len(turned) == 3 and all(node["placement"] == "provider" for node in graph["nodes"]), graph["nodes"]


def check_what_is_no_image_stays() -> None:
    """A batch normalisation of vectors, which the host would give a transpose of rank 0 or for nothing."""
    for shape, statistics in (((4,), 1), ((3, 8), 8)):
        constants = {name: _values(statistics) for name in _STATISTICS}
        model, feeds = _one_node("BatchNormalization", 15, {}, constants, shape), {"x": _values(*shape)}
        (actual,), placed = _run(model, feeds)
        assert placed == [("", "BatchNormalization")], placed
        np.testing.assert_allclose(actual, _cpu(model, feeds)[0], rtol=1e-5, atol=1e-5)


def check_bfloat16_stays_channels_first() -> None:
    """The host knows no channels-last convolution of it and would refuse the model."""
    weights = {"w": _values(8, 8, 3, 3).astype(ml_dtypes.bfloat16)}
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="node")
    tensor = helper.make_tensor(
        "w", TensorProto.BFLOAT16, weights["w"].shape, weights["w"].view(np.uint16).tobytes(), raw=True
    )
    graph = helper.make_graph(
        [helper.make_node("Cast", ["in"], ["x"], to=TensorProto.BFLOAT16), node,
         helper.make_node("Cast", ["y"], ["out"], to=TensorProto.FLOAT)],
        "g",
        [helper.make_tensor_value_info("in", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [tensor],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
    (actual,), placed = _run(model, {"in": np.ones(IMAGE, np.float32)})
    assert ("", "Conv") in placed, placed
    expected = weights["w"].astype(np.float64).sum((1, 2, 3))
    np.testing.assert_allclose(actual, np.broadcast_to(expected.reshape(8, 1, 1), actual.shape), rtol=1e-2)


if __name__ == "__main__":
    run_checks(globals())
