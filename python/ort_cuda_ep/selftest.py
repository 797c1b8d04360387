"""A model of two nodes, run on one device: shows that kernels and NVIDIA's libraries work, and which were loaded."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from . import _provider
from .explain import REPORT_OPTION


@dataclass(frozen=True)
class Outcome:
    """What came of it. `error` is empty when the device computes right; `libraries` are the plug-in's own entries."""

    simulated: bool
    error: str = ""
    milliseconds: float = 0.0
    libraries: tuple[dict[str, Any], ...] = ()


def model() -> bytes:
    """A convolution of an image, then a product of its rows with a matrix."""
    rng = np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "m": (8, 8)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("MatMul", ["h", "m"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "selftest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(rng.standard_normal(shape, np.float32), name) for name, shape in weights.items()],
    )
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(proto.SerializeToString())


def run(device_id: int) -> Outcome:
    """Runs the model on a device of the registered library and compares with the CPU provider. Never raises."""
    simulated = _provider.is_simulated(_provider.devices()[device_id])
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4  # errors come as exceptions
    feed = {"x": np.random.default_rng(1).standard_normal((1, 3, 8, 8), np.float32)}
    libraries: tuple[dict[str, Any], ...] = ()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = {REPORT_OPTION: report, "require_all_compute_nodes": True, "use_tf32": False}
        try:
            expected = ort.InferenceSession(model(), quiet, providers=["CPUExecutionProvider"]).run(None, feed)[0]
            settings = ort.SessionOptions()
            settings.log_severity_level = 4
            session = _provider.session(model(), settings, options, device_id)
            libraries = tuple(json.loads(report.read_text())["libraries"])
            session.run(None, feed)
            start = time.perf_counter()
            actual = session.run(None, feed)[0]
            milliseconds = (time.perf_counter() - start) * 1e3
        except Exception as error:
            return Outcome(simulated, str(error), libraries=libraries)
    difference = float(np.abs(actual - expected).max())
    wrong = "" if difference < 1e-4 else f"the result differs from the CPU provider's by {difference:.3g}"
    return Outcome(simulated, wrong, milliseconds, libraries)
