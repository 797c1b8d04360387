"""The programs of examples/python on the oldest and the newest host, from another folder."""

import os
import subprocess
import sys
from pathlib import Path

import hosts
import pytest

from .programs import ROOT

# Program -> what it prints on the simulated device; the numbers it compares itself.
PROGRAMS = {
    "dlpack": "tensors in cpu memory, in and out without copies",
    "user_stream": "50 frames on one stream of ONNX Runtime's",
    "external_allocator": "bytes of weights",
}


def run(name: str, library: str, folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Runs it in `folder` with a host."""
    environment = dict(os.environ) if hosts.is_own(version) else hosts.environment(version)
    path = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(ROOT / "python")]))
    environment |= {"PYTHONPATH": path, "ORT_CUDA_EP_LIBRARY": library}
    command = [sys.executable, str(ROOT / "examples" / "python" / f"{name}.py")]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("version", [hosts.OLDEST, hosts.NEWEST])
@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name: str, version: str, test_library: str, tmp_path: Path) -> None:
    if not hosts.is_own(version) and not hosts.is_installed(version):
        pytest.skip(f"onnxruntime {version} is not here")
    done = run(name, test_library, tmp_path, version)
    if name == "dlpack" and version == hosts.OLDEST:
        assert done.returncode == 1
        assert "ONNX Runtime 1.24.4 has no DLPack; 1.26 has" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[name] in done.stdout


def test_there_is_a_row_and_a_test_for_each() -> None:
    programs = {path.stem for path in (ROOT / "examples" / "python").glob("*.py")} - {"small_model"}
    assert programs == set(PROGRAMS)
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"(python/{name}.py)" in listed for name in PROGRAMS)
