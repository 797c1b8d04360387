"""Streams as a C++ application has them, several over one session; on the oldest and the newest supported host.

Python cannot give a Run a stream; `stream_host` (tests/session/stream_host) can. Each of its checks is one test here.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import matrix
import pytest

from tests.session import models, session_probe
from tests.session.programs import VERSIONS, require_host, require_program, settle

SOURCE = Path(__file__).parent / "stream_host" / "stream_host.cc"
CHECKS = [line.split('"')[1] for line in SOURCE.read_text().splitlines() if line.startswith("  Report(")]


@functools.cache
def results(version: str, library: str) -> list[matrix.Result]:
    """What each check of the program ended with."""
    host, program = require_host(version), require_program("stream_host", library)
    probe = session_probe.path_beside(library)
    if not probe.exists():
        pytest.fail(f"{probe} is not built")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(models.product_chain(3, 64))
        command = [str(word) for word in (program, host, probe, model)]
        return matrix.run_child("stream_host", command, dict(os.environ), 300).results


@pytest.mark.parametrize("check", [*CHECKS, matrix.EXIT])
@pytest.mark.parametrize("version", VERSIONS)
def test_stream_host(version: str, check: str, test_library: str) -> None:
    if Path(test_library).name == "libort_cuda_ep.so":
        pytest.skip("the probe is a build of the simulated device")
    settle(results(version, test_library), check)
