"""Packs what a GPU machine without network needs into build/gpu-bundle: `bundle_gpu.py [FOLDER]`.

In it: the libraries, C++ tests and benches of build/cuda, the Python package, the tests, and wheels for CPython
3.12 of what such a machine may lack, with the oldest supported host. The archive is split into parts that fit a narrow
door; gpu_check.sh beside them joins the parts and runs everything with one command.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import hosts
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
PART_BYTES = 46 * 2**20
OLDEST_HOST = "oldest_host"
TREES = ("python", "tests", "bench", "tools", "docs", "examples")
FILES = ("pyproject.toml", "requirements.txt", "CMakeLists.txt", "Makefile", "CMakePresets.json")
LIBRARIES = tuple(
    f"build/cuda/lib/lib{name}.so"
    for name in ("ort_cuda_ep", "cudaep_op_driver", "counting_proxy", "device_watch", "launch_loop")
)
# Applications that tests start; whatever else lies beside them is bundled too.
PROGRAMS = tuple(f"build/cuda/bin/{name}" for name in ("memory_host", "run_rate", "stream_host", "teardown"))
EXAMPLES = tuple(f"build/cuda/examples/{name}" for name in ("load", "device_memory", "streams", "cuda_graph"))
# Present on the GPU machine, or of use only where code is written.
NOT_BUNDLED = {
    *("numpy", "onnx", "protobuf", "opencv-python-headless", "pillow", "ml-dtypes"),
    *(
        "clang-tidy",
        "ruff",
        "mypy",
        "ast-serialize",
        "librt",
        "mypy-extensions",
        "pathspec",
        "codespell",
        "types-pyyaml",
        "setuptools",
    ),
}


def wheel_requirements(text: str) -> list[str]:
    """The pinned requirements to bundle, from the text of requirements.txt."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [line for line in lines if line.split("==")[0].lower().replace("_", "-") not in NOT_BUNDLED]


def download_wheels(folder: Path, cache: Path) -> None:
    """Fills `folder` with the wheels, from `cache` (refreshed when the requirements change).

    The oldest supported host is in a folder of its own below, because it is no requirement.
    """
    requirements = wheel_requirements((ROOT / "requirements.txt").read_text())
    wanted = {cache: requirements, cache / OLDEST_HOST: [f"onnxruntime=={hosts.OLDEST}"]}
    stamp = cache / ".requirements"
    if not stamp.is_file() or stamp.read_text() != str(list(wanted.values())):
        shutil.rmtree(cache, ignore_errors=True)
        platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(17, 29)] + ["manylinux2014_x86_64"]
        target = ["--only-binary=:all:", "--implementation=cp", "--python-version=3.12"]
        target += [f"--abi={abi}" for abi in ("cp312", "abi3", "none")] + [f"--platform={p}" for p in platforms]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        for place, names in wanted.items():
            subprocess.run([*command, *target, "--dest", str(place), *names], check=True)
        stamp.write_text(str(list(wanted.values())))
    for wheel in sorted(cache.rglob("*.whl")):
        _link(wheel, folder / wheel.relative_to(cache))


def stage(folder: Path) -> None:
    """Lays out the contents as the source tree has them, so that everything finds everything."""
    for name in (*LIBRARIES, *PROGRAMS):
        if not (ROOT / name).is_file():
            sys.exit(f"bundle_gpu: {name} is not built; run make cuda")
    for name in EXAMPLES:
        if not (ROOT / name).is_file():
            sys.exit(f"bundle_gpu: {name} is not built; run tools/build_examples.sh cuda")
    for name in (*LIBRARIES, *EXAMPLES):
        _link(ROOT / name, folder / name)
    programs = [path for path in (ROOT / "build/cuda/bin").glob("*") if path.is_file() and os.access(path, os.X_OK)]
    for path in programs:
        _link(path, folder / path.relative_to(ROOT))
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *TREES, *FILES]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            _link(ROOT / name, folder / name)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def split(archive: Path, part_bytes: int) -> list[Path]:
    """Cuts `archive` into ARCHIVE.00, ARCHIVE.01, ... of at most `part_bytes` and removes it."""
    parts: list[Path] = []
    with archive.open("rb") as source:
        while piece := source.read(part_bytes):
            part = archive.with_name(f"{archive.name}.{len(parts):02}")
            part.write_bytes(piece)
            parts.append(part)
    archive.unlink()
    return parts


def main() -> None:
    """Makes the bundle."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "gpu-bundle"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder, Console().status("downloading wheels") as status:
        staging = Path(folder)
        download_wheels(staging / "wheels", ROOT / "build" / "gpu-wheels")
        status.update("collecting files")
        stage(staging)
        status.update("packing")
        archive = out / "bundle.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
            tar.add(staging, arcname=".")
        parts = split(archive, PART_BYTES)
    shutil.copy2(ROOT / "tools" / "gpu_check.sh", out)
    for part in parts:
        print(f"{part} {part.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
