"""Streams as a C++ application has them, several over one session; on the oldest and the newest supported host.

Python cannot give a Run a stream; `stream_host` (tests/session/stream_host) can. Each of its checks is one test here.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from pathlib import Path

import hosts
import onnxruntime
import pytest

from tests.session import models, session_probe
from tests.session.test_memory_host import shared_library

SOURCE = Path(__file__).parent / "stream_host" / "stream_host.cc"
CHECKS = [line.split('"')[1] for line in SOURCE.read_text().splitlines() if line.startswith("  Report(")]


@functools.cache
def failures(version: str, library: str) -> dict[str, str]:
    """What each check of the program failed with; empty where it passed."""
    program = Path(library).parent.parent / "bin" / "stream_host"
    probe = session_probe.path_beside(library)
    for path in (program, probe):
        if not path.exists():
            pytest.fail(f"{path} is not built")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(models.product_chain(3, 64))
        command = [str(program), str(shared_library(version)), str(probe), str(model)]
        child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    result = {line["check"]: line["failure"] for line in lines}
    result["exit"] = "" if child.returncode == 0 else f"exit code {child.returncode}\n{child.stderr[-2000:]}"
    return result


@pytest.mark.parametrize("check", [*CHECKS, "exit"])
@pytest.mark.parametrize("version", [hosts.OLDEST, onnxruntime.__version__])
def test_stream_host(version: str, check: str, test_library: str) -> None:
    if Path(test_library).name == "libort_cuda_ep.so":
        pytest.skip("the probe is a build of the simulated device")
    result = failures(version, test_library)
    assert check in result, f"the check did not run; {result['exit']}"
    assert not result[check], result[check]
