"""`smoke.py`: whether an installed wheel works; needs nothing but that wheel and what it depends on.

Run by tools/check_wheel.py with the Python of a bare environment, outside the source tree. Prints a JSON object with an
entry for each check, true or what is wrong; exit code 1 where one is not true.
"""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import ort_cuda_ep
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import _pybind_state as C  # noqa: N812

PACKAGE = Path(ort_cuda_ep.__file__).parent
RNG = np.random.default_rng(0)


def model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], opset: int = 20, **inputs: list) -> bytes:
    """The nodes as a model that ends in `y`; inputs are floats of the given dimensions."""
    graph = helper.make_graph(
        nodes,
        "smoke",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return bytes(made.SerializeToString())


def weight(*dims: int) -> np.ndarray:
    return (RNG.standard_normal(dims) / np.sqrt(np.prod(dims[1:]))).astype(np.float32)


def image_model(batch: int | str = "N") -> bytes:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "w2"], ["y"]),
    ]
    return model(nodes, {"w1": weight(8, 3, 3, 3), "w2": weight(8, 10)}, x=[batch, 3, 32, 32])


def text_model() -> bytes:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "wq"], ["q"]),
        helper.make_node("MatMul", ["n", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "n"], ["o"]),
        helper.make_node("Add", ["o", "x"], ["r"]),
        helper.make_node("Gelu", ["r"], ["y"]),
    ]
    return model(nodes, {"scale": weight(32), "wq": weight(32, 32), "wk": weight(32, 32)}, x=["N", "T", 32])


def right(data: bytes, dims: tuple[int, ...]) -> bool | str:
    """Whether every compute node runs on the provider, for two batches, as the CPU provider computes it."""
    session = ort_cuda_ep.session(data, provider_options={"require_all_compute_nodes": True, "use_tf32": False})
    reference = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        feed = {"x": RNG.standard_normal((batch, *dims), np.float32)}
        expected, found = reference.run(None, feed)[0], session.run(None, feed)[0]
        worst = float(np.abs(expected - found).max())
        if found.shape != expected.shape or not worst < 1e-4:
            return f"batch {batch}: {found.shape} for {expected.shape}, off by {worst}"
        if not np.abs(expected).max() > 0.01:
            return "the reference is next to zero, which shows nothing"
    return True


def bound() -> bool | str:
    """Inputs and outputs that stay on the device."""
    session = ort_cuda_ep.session(image_model(), provider_options={"use_tf32": False})
    x = RNG.standard_normal((2, 3, 32, 32), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    gpu, default_memory, nvidia = 1, 0, 0x10DE
    binding._iobinding.bind_output("y", C.OrtDevice(gpu, default_memory, nvidia, 0))
    session.run_with_iobinding(binding)
    y = binding.copy_outputs_to_cpu()[0]
    return bool(np.allclose(y, session.run(None, {"x": x})[0]))


def bad_option() -> bool | str:
    """A misspelt option is an error that names it."""
    try:
        ort_cuda_ep.session(image_model(), provider_options={"use_tf23": "1"})
    except Exception as error:
        return "use_tf23" in str(error) or str(error)
    return "was taken"


def without_gpu() -> bool | str:
    """The library for GPUs registers anywhere; where there is no GPU, with no device and no error."""
    if not (PACKAGE / "libort_cuda_ep.so").is_file():
        return True
    code = 'import ort_cuda_ep as e; e.register("cuda"); print(len(e.devices()), e.gpu_driver_present())'
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    count, _, gpu = child.stdout.strip().partition(" ")
    return (child.returncode == 0 and (count == "0") == (gpu == "False")) or child.stdout + child.stderr


def contents() -> bool | str:
    """From the wheel, not from a source tree; licences and types are there."""
    files = {str(path) for path in importlib.metadata.files("ort-cuda-ep") or []}
    wanted = ("ort_cuda_ep/py.typed", "licenses/LICENSE", "licenses/THIRD_PARTY_NOTICES.md")
    missing = [name for name in wanted if not any(path.endswith(name) for path in files)]
    if missing:
        return f"missing: {missing}"
    if Path(ort_cuda_ep.get_library_path("sim")).parent != PACKAGE or "site-packages" not in PACKAGE.parts:
        return f"the library is {ort_cuda_ep.get_library_path('sim')}"
    return importlib.metadata.version("ort-cuda-ep") == ort_cuda_ep.__version__ or "two versions"


CHECKS: dict[str, Callable[[], bool | str]] = {
    "contents": contents,
    "without_gpu": without_gpu,
    "image_model": lambda: right(image_model(), (3, 32, 32)),
    "text_model": lambda: right(text_model(), (7, 32)),
    "bound": bound,
    "bad_option": bad_option,
}


def main() -> int:
    """Runs all of them."""
    outcomes: dict[str, bool | str] = {}
    for name, check in CHECKS.items():
        try:
            outcomes[name] = check()
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
    print(json.dumps({"onnxruntime": ort.__version__, **outcomes}, indent=2))
    return 0 if all(outcome is True for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
