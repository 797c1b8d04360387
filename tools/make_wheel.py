"""Makes the wheel: `make_wheel.py [--cuda PRESET] [--out FOLDER]` packs the built libraries with the Python package.

The library for the simulated device is always in it, the one for GPUs where a PRESET (`cuda`, `cuda-release`) is named;
both without debug information. A library or a wheel that breaks the rules of tools/checks/symbols.py or a limit of size
is an error. Prints the wheel's path, with sizes on stderr.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "checks"))

import symbols  # noqa: E402

PACKAGE = Path("python") / "ort_cuda_ep"
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "THIRD_PARTY_NOTICES.md")
# Of a library as it is in the wheel (71 with every architecture), and what a package index takes by default.
MAX_LIBRARY_MIB, MAX_WHEEL_MIB = 80.0, 100.0


def libraries(cuda: str) -> list[Path]:
    """What goes into the wheel; `cuda` names a preset, or is empty for none. SystemExit where one is not built."""
    found = [ROOT / "build" / "sim" / "lib" / "libort_cuda_ep_sim.so"]
    if cuda:
        found.append(ROOT / "build" / cuda / "lib" / "libort_cuda_ep.so")
    for library in found:
        if not library.is_file():
            raise SystemExit(f"wheel: {library.relative_to(ROOT)} is not built; run tools/build.sh "
                             f"{library.parts[-3]} lib/{library.name}")  # fmt: skip
        if problems := symbols.check(library, float("inf")):
            raise SystemExit("wheel: " + "; ".join(problems))
    return found


def stage(folder: Path, built: list[Path]) -> None:
    """Lays out the project with its libraries as setuptools wants it; only what git knows or would add."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", str(PACKAGE), *FILES]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for library in built:
        target = folder / PACKAGE / library.name
        subprocess.run(["strip", "--strip-unneeded", "-o", target, library], check=True)
        if size(target) > MAX_LIBRARY_MIB:
            raise SystemExit(f"wheel: {target.name} is larger than {MAX_LIBRARY_MIB:g} MiB")


def size(path: Path) -> float:
    """MiB of a file, told on stderr."""
    mib = path.stat().st_size / 2**20
    print(f"{path.name}: {mib:.1f} MiB", file=sys.stderr)
    return mib


def make(folder: Path, out: Path) -> Path:
    """The wheel of the project in `folder`, in `out`. Raises subprocess.CalledProcessError where setuptools fails."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.iterdir())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": _committed()})
    made = [path for path in out.iterdir() if path not in before] or sorted(out.glob("*.whl"))
    return max(made, key=lambda path: path.stat().st_mtime)


def _committed() -> str:
    """Seconds of the last commit: the same sources give the same wheel."""
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Makes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuda", default="", metavar="PRESET", help="build preset of the library for GPUs (none)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheel (dist)")
    arguments = parser.parse_args()
    folder = ROOT / "build" / "wheel" / "project"
    stage(folder, libraries(arguments.cuda))
    wheel = make(folder, arguments.out)
    if size(wheel) > MAX_WHEEL_MIB:
        raise SystemExit(f"wheel: {wheel.name} is larger than {MAX_WHEEL_MIB:g} MiB")
    print(wheel)


if __name__ == "__main__":
    main()
