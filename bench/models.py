"""Whole models, one Run with bound inputs and outputs: median and spread of one provider.

    python bench/models.py --provider plugin --library LIBRARY | --provider builtin  [--json FILE] MODEL:INPUT=DIMS ...

`MODEL:x=1x3x48x320` names an ONNX file and the shape of its (float) input. Run both providers on one machine, one after
the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

EP = "CUDAExecutionProvider"


def session(model: str, library: str | None) -> ort.InferenceSession:
    """A session on the provider under test, with its default options."""
    if library is None:
        ort.preload_dlls()
        return ort.InferenceSession(model, providers=[EP])
    options = ort.SessionOptions()
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == EP][:1], {})
    return ort.InferenceSession(model, options, enable_fallback=0)


def run_ms(model: str, name: str, dims: list[int], library: str | None, repeats: int) -> list[float]:
    """Milliseconds of each Run after warm-up: input copied in, output copied out."""
    subject = session(model, library)
    binding = subject.io_binding()
    binding.bind_cpu_input(name, np.random.default_rng(0).random(dims, np.float32))
    for output in subject.get_outputs():
        binding.bind_output(output.name, "cpu")
    samples = []
    for i in range(repeats + 10):
        begin = time.perf_counter()
        subject.run_with_iobinding(binding)
        if i >= 10:
            samples.append((time.perf_counter() - begin) * 1e3)
    return samples


def main() -> None:
    """Measures and prints one provider."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=["plugin", "builtin"], required=True)
    parser.add_argument("--library")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--json")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    if arguments.provider == "plugin":
        ort.register_execution_provider_library(EP, str(Path(arguments.library).resolve()))
    report = {}
    for description in arguments.models:
        model, _, rest = description.rpartition(":")
        name, _, dims = rest.partition("=")
        if not model or not dims:
            sys.exit(f"not MODEL:INPUT=DIMS: {description}")
        shape = [int(dim) for dim in dims.split("x")]
        library = arguments.library if arguments.provider == "plugin" else None
        samples = run_ms(model, name, shape, library, arguments.repeats)
        report[f"{Path(model).stem} {dims}"] = {
            "median_ms": statistics.median(samples),
            "range_ms": [min(samples), max(samples)],
        }
    text = json.dumps({"provider": arguments.provider, "host": ort.__version__, "models": report})
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
