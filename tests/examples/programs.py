"""The programs of examples/cpp: how they are run, and what they must say."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Program -> a word of its last line; the numbers it compares itself.
PROGRAMS = {
    "load": "6144 inputs, 20 outputs",
    "device_memory": "20 outputs as from host memory",
    "streams": "4 streams, results as one by one",
    "cuda_graph": "1 capture, 3 replays, results as without a graph",
}


def model(folder: Path) -> Path:
    """A small network on images whose dimensions are all known, in `folder`."""
    import onnx

    from tests.wheel import smoke

    made = onnx.load_from_string(smoke.image_model(batch=2))
    made.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 10]))
    path = folder / "image.onnx"
    onnx.save(made, path)
    return path


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs it with the host that lies beside it."""
    settings = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), **environment}
    return subprocess.run([program, *arguments], env=settings, capture_output=True, text=True, timeout=120, check=False)
