"""Runs a second of 1, 2, 4, 8 and 16 threads over one session, from C++: small models, with bare launches beside them.

    python bench/throughput.py --provider plugin LIBRARY | --provider builtin [--program PATH] [--json FILE] ...

Arguments that are not named here go to the program (bench/run_rate/run_rate.cc says which it takes): --seconds 5,
--threads 1,16, --profile. `builtin` uses the CUDAExecutionProvider of the installed onnxruntime-gpu package. Run both
on one machine, one after the other. One model of your own: call the program itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.session import models

ROOT = Path(__file__).resolve().parent.parent
# Name, model, and what one Run of it launches: additions or what is as small, and products.
MODELS = (
    ("8 products with bias and Relu, 8x64", models.dense_chain(8), "8,8"),
    ("8 products with bias and Relu, 8x1024", models.dense_chain(8, 1024), "8,8"),
    ("100 Adds of 8 floats", models.add_chain(100), "100,0"),
)
# A GPU or driver counts as saturated from this share of what bare launches reach with as many threads.
SATURATED = 0.75


def host_library() -> Path:
    """libonnxruntime.so of the installed package."""
    return Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime.so.{onnxruntime.__version__}"


def program_beside(library: str | Path) -> Path:
    """Where the build of a plug-in library puts the program."""
    return Path(library).resolve().parent.parent / "bin" / "run_rate"


def environment() -> dict[str, str]:
    """With the libraries that the host's own CUDA provider needs, from the nvidia packages, on the library path."""
    site = Path(onnxruntime.__file__).parent.parent
    folders = [*site.glob("nvidia/*/lib"), site / "torch" / "lib"]
    paths = [str(folder) for folder in folders if folder.is_dir()] + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths))}


def measure(
    program: Path, library: str | None, model: bytes, arguments: Sequence[str] = (), host: Path | None = None
) -> dict[str, Any]:
    """The program's report on one model; `library` is None for the host's own provider. Its table goes to stdout.

    Raises subprocess.CalledProcessError when a Run failed or gave a wrong result.
    """
    provider = ["--provider", "cuda"] if library is None else ["--plugin", library]
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder) / "model.onnx", Path(folder) / "report.json"
        file.write_bytes(model)
        command = [str(program), str(host or host_library()), str(file), *provider, "--json", str(report), *arguments]
        subprocess.run(command, env=environment() if library is None else None, check=True)
        found: dict[str, Any] = json.loads(report.read_text())
    return found


def rates(report: dict[str, Any], kind: str) -> dict[int, float]:
    """Runs a second by number of threads; `kind` is hosts, callers or bare."""
    return {entry["threads"]: entry["runs_per_second"] for entry in report[kind]}


def shortfall(report: dict[str, Any], kind: str, threads: int = 16, target: float = 4.0) -> str:
    """Why Runs do not scale as they should; empty if they do.

    They should grow `target`-fold over one thread's until GPU and driver are saturated. That is what they are when
    bare launches in the same process, as many and alike for each Run and with the same wait, do little better: then no
    lock of the host's or the provider's is what holds the Runs up.
    """
    runs, bare = rates(report, kind), rates(report, "bare")
    speed_up, share = runs[threads] / runs[1], runs[threads] / bare[threads]
    if speed_up >= target or share >= SATURATED:
        return ""
    return (
        f"{threads} threads give {speed_up:.2f} times the Runs of one, {target:.0f} are wanted, "
        f"and only {share:.0%} of what bare launches reach ({runs[threads]:.0f} of {bare[threads]:.0f} a second)"
    )


def main() -> None:
    """Measures and prints one provider."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=["plugin", "builtin"], required=True)
    parser.add_argument("library", nargs="?")
    parser.add_argument("--program", type=Path, help="by default beside the library, else of build/cuda")
    parser.add_argument("--json", type=Path)
    parsed, rest = parser.parse_known_args()
    library = parsed.library if parsed.provider == "plugin" else None
    program = parsed.program or program_beside(library or ROOT / "build" / "cuda" / "lib" / "libort_cuda_ep.so")
    reports = {}
    for name, model, bare in MODELS:
        print(f"{name}:", flush=True)
        reports[name] = measure(program, library, model, ["--bare", bare, *rest])
    if parsed.json:
        parsed.json.write_text(json.dumps(reports) + "\n")


if __name__ == "__main__":
    main()
