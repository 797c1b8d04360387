"""What a device can do at most, measured through the provider itself."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from . import _provider, host_profile
from .profile_times import Peaks, read_activities

# Options that change what is measured, or say how much memory the model's session has.
_LEFT_OUT = ("enable_cuda_graph", "compiled_regions", "gpu_mem_limit", "arena", "gpu_external_", "budget_", "debug.")
_PRODUCT_TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
Progress = Callable[[str], None]


def measure_peaks(device_id: int, options: Mapping[str, str], types: Iterable[str], progress: Progress) -> Peaks:
    """The rates of a large copy and of a large product of each of `types`, through the provider itself.

    What cannot be measured, for want of memory for one, is missing and says why. On the simulated device small ones do:
    its times say nothing about a GPU.
    """
    simulated = _provider.is_simulated(_provider.devices()[device_id])
    plain = {key: value for key, value in options.items() if not key.startswith(_LEFT_OUT)}
    failed: dict[str, str] = {}

    def best(what: str, model: bytes, feeds: dict[str, np.ndarray], name: str) -> float:
        progress(f"measuring {what}")

        def run(session: ort.InferenceSession) -> None:
            for _ in range(4):
                session.run(None, feeds)

        try:
            found = host_profile.record(
                lambda settings: _provider.session(model, settings, plain, device_id), run, log_severity=3
            )
        except Exception as error:  # of the host, which has classes of its own
            failed[what] = str(error)
            return 0.0
        calls: dict[str, int] = {}
        for activity in read_activities(found):
            if activity.node == name:
                calls[activity.call] = calls.get(activity.call, 0) + activity.busy_ns
        if not calls:
            failed[what] = "its profile has no GPU times"
        return min(calls.values(), default=0) / 1e9

    elems = 1 << (18 if simulated else 26)
    seconds = best("a copy", _copy_model(elems), {"x": np.zeros(elems, np.float32)}, "copy")
    bytes_per_s = 8 * elems / seconds if seconds else 0.0
    products = {}
    column = np.random.default_rng(0).standard_normal((128 if simulated else 8192, 1), dtype=np.float32)
    for kind in sorted(set(types) & set(_PRODUCT_TYPES)):
        size = len(column)
        seconds = best(f"a product of {kind}", _product_model(size, _PRODUCT_TYPES[kind]), {"x": column}, "product")
        if seconds:
            products[kind] = 2.0 * size**3 / seconds
    return Peaks(bytes_per_s, products, failed)


def _copy_model(elems: int) -> bytes:
    """x is read and written once by the node "copy"; only its maximum comes back."""
    nodes = [
        helper.make_node("Neg", ["x"], ["y"], "copy"),
        helper.make_node("ReduceMax", ["y"], ["most"], "most", keepdims=0),
    ]
    return _model(nodes, {"x": [elems]}, "most")


def _product_model(size: int, kind: int) -> bytes:
    """The node "product" multiplies two square matrices that are spread from a column; only a maximum comes back."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"], "wide"),
        helper.make_node("Cast", ["wide"], ["a"], "cast", to=kind),
        helper.make_node("MatMul", ["a", "a"], ["c"], "product"),
        helper.make_node("ReduceMax", ["c"], ["most"], "most", keepdims=0),
        helper.make_node("Cast", ["most"], ["y"], "result", to=TensorProto.FLOAT),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [size, size])
    return _model(nodes, {"x": [size, 1]}, "y", [shape])


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int]],
    output: str,
    constants: list[onnx.TensorProto] | None = None,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "peak",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [])],
        constants or [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
