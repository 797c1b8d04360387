"""Host cost of a node: a chain of tiny Adds through ONNX Runtime, above a bare launch loop in the same process.

    python bench/host_cost.py --provider plugin LIBRARY | --provider builtin  [--launch-loop LIB] [--json FILE]

`plugin` registers LIBRARY; `builtin` uses the CUDAExecutionProvider of the installed onnxruntime-gpu package. Run both
on one machine, one after the other: launch costs differ between machines.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.session import models

EP = "CUDAExecutionProvider"
CHAIN = 1000


def session(length: int, library: str | None) -> ort.InferenceSession:
    """A chain of `length` Adds with optimisations off, so that no node is folded away."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    model = models.add_chain(length)
    if library is None:
        ort.preload_dlls()
        return ort.InferenceSession(model, options, providers=[EP])
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == EP][:1], {})
    return ort.InferenceSession(model, options, enable_fallback=0)


def run_us(length: int, library: str | None, repeats: int = 30) -> list[float]:
    """Microseconds of one Run with bound inputs and outputs, after warm-up."""
    chain = session(length, library)
    binding = chain.io_binding()
    x = np.ones(16, np.float32)
    for name in ("v0", "b"):
        binding.bind_cpu_input(name, x)
    binding.bind_output(f"v{length}", "cpu")
    samples = []
    for i in range(repeats + 5):
        begin = time.perf_counter()
        chain.run_with_iobinding(binding)
        if i >= 5:
            samples.append((time.perf_counter() - begin) * 1e6)
    return samples


def main() -> None:
    """Measures and prints one provider."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", choices=["plugin", "builtin"], required=True)
    parser.add_argument("library", nargs="?")
    parser.add_argument("--launch-loop")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    library = arguments.library if arguments.provider == "plugin" else None
    if library:
        ort.register_execution_provider_library(EP, str(Path(library).resolve()))
    long, short = run_us(CHAIN, library), run_us(1, library)
    per_node = [(a - statistics.median(short)) / (CHAIN - 1) for a in long]
    report = {
        "provider": arguments.provider,
        "host": ort.__version__,
        "us_per_node": statistics.median(per_node),
        "us_per_node_range": [min(per_node), max(per_node)],
        "one_node_run_us": statistics.median(short),
    }
    if arguments.launch_loop:
        loop = ctypes.CDLL(str(Path(arguments.launch_loop).resolve()))
        loop.LaunchLoopUs.restype = ctypes.c_double
        launches = [loop.LaunchLoopUs(CHAIN) for _ in range(9)]
        report["bare_launch_us"] = statistics.median(launches)
        report["us_per_node_above_launch"] = report["us_per_node"] - report["bare_launch_us"]
    text = json.dumps(report)
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
