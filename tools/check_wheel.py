"""Installs a wheel where nothing else is and uses it: `check_wheel.py WHEEL [ONNXRUNTIME_VERSION...]`.

For each version of the host (the oldest and the newest without one named) it makes an environment of its own below
build/wheel, with that host, the wheel and what pip adds, and outside the source tree runs tests/wheel/smoke.py,
`doctor` and the OCR demo. Prints a line a step; the exit code is 1 where one fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import hosts

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ROOT / "tests" / "wheel" / "smoke.py"
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ORT_", "VIRTUAL_ENV"))
}


def pins(text: str) -> dict[str, str]:
    """Lower-case names of the requirements in `text`, with their lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {re.split("[=<>]", line)[0].lower(): line for line in lines}


def constraints(folder: Path) -> Path:
    """A file that holds everything but the host to the versions of requirements.txt."""
    pinned = pins((ROOT / "requirements.txt").read_text())
    path = folder / "constraints.txt"
    path.write_text("\n".join(line for name, line in pinned.items() if name != "onnxruntime"))
    return path


def ocr_packages() -> list[str]:
    """What the demo needs beside the wheel's own dependencies, with the OpenCV that needs no window system."""
    wanted = (
        "rapidocr-onnxruntime",
        "opencv-python-headless",
        "pillow",
        "pyclipper",
        "pyyaml",
        "shapely",
        "six",
        "tqdm",
    )
    pinned = pins((ROOT / "requirements.txt").read_text())
    return [pinned[name] for name in wanted]


class Environment:
    """A virtual environment with one host and the wheel."""

    def __init__(self, folder: Path, version: str, wheel: Path) -> None:
        """Makes it anew in `folder`. SystemExit where pip fails."""
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        self._bin = folder / "bin"
        self._outside = tempfile.mkdtemp()
        self.run(f"ONNX Runtime {version} and the wheel", *self._pip(), "--constraint", str(constraints(folder)),
                 f"onnxruntime=={version}", str(wheel))  # fmt: skip

    def _pip(self) -> list[str]:
        return ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefer-binary"]

    def run(self, what: str, program: str, *arguments: str) -> None:
        """Runs a program of it far from the source tree. SystemExit with its output where it fails."""
        done = subprocess.run(
            [self._bin / program, *arguments], cwd=self._outside, env=_ENVIRONMENT, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"check_wheel: {what} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        print(f"  {what}: ok", flush=True)

    def check(self) -> None:
        """Everything a user does first."""
        smoke = shutil.copy2(SMOKE, self._outside)
        self.run("smoke", "python", str(smoke))
        self.run("doctor", "ort-cuda-ep", "doctor", "--json")
        examples = Path(shutil.copytree(ROOT / "examples" / "python", Path(self._outside) / "examples"))
        for name in ("user_stream", "external_allocator"):  # the others need more than the oldest host
            self.run(f"example {name}", "python", str(examples / f"{name}.py"))
        self.run("packages of the demo", *self._pip(), "--no-deps", *ocr_packages())
        self.run("OCR demo", "python", "-m", "ort_cuda_ep.demo.ocr", "--json")
        shutil.rmtree(self._outside)


def main() -> None:
    """Checks the wheel of the command line."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    wheel = Path(sys.argv[1]).resolve()
    for version in sys.argv[2:] or (hosts.OLDEST, hosts.NEWEST):
        print(f"{wheel.name} with ONNX Runtime {version}", flush=True)
        Environment(ROOT / "build" / "wheel" / version, version, wheel).check()


if __name__ == "__main__":
    main()
