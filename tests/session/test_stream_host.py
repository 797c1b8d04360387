"""Streams as a C++ application has them, several over one session; on the oldest and the newest supported host.

Python cannot give a Run a stream; `stream_host` (tests/session/stream_host) can. Each of its checks is one test here.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import matrix
import pytest

from tests.session import models, session_probe
from tests.session.control_flow_cases import Case
from tests.session.programs import VERSIONS, require_host, require_program, settle
from tests.session.stream_support import double_chain, through_the_cpu

SOURCE = Path(__file__).parent / "stream_host" / "stream_host.cc"
CHECKS = [line.split('"')[1] for line in SOURCE.read_text().splitlines() if line.startswith("  Report(")]

_LOOP = """(float[n,64] x) => (float[n,64] y) {{
  two = Constant <value_int = 2> ()
  {start}
  y = Loop (two, go, x) <body = l (int64 i, bool before, float[n,64] v) => (bool after, float[n,64] w) {{
    {step}  w = Add(v, v)
  }}>
}}"""
_FOREVER = {"start": "b = Constant <value_int = 1> ()  go = Cast <to = 9> (b)", "step": "after = Identity(before)"}
_ON_VALUES = {
    "start": "low = Constant <value_float = -1.0> ()  most = ReduceMax <keepdims = 0> (x)  go = Greater(most, low)",
    "step": "small = Constant <value_float = -1.0> ()  all = ReduceMax <keepdims = 0> (v)  after = Greater(all, small)",
}
MODELS: dict[str, Callable[[], bytes]] = {
    "products": lambda: models.product_chain(3, 64),
    "sums": lambda: double_chain(3, 64),
    "sorts": lambda: models.scratch_users(64),
    "through_the_cpu": through_the_cpu,
    "loop": lambda: Case(_LOOP.format(**_FOREVER), []).model(),
    "loop_on_values": lambda: Case(_LOOP.format(**_ON_VALUES), []).model(),
}


@functools.cache
def results(version: str, library: str) -> list[matrix.Result]:
    """What each check of the program ended with."""
    host, program = require_host(version), require_program("stream_host", library)
    probe = session_probe.path_beside(library)
    if not probe.exists():
        pytest.fail(f"{probe} is not built")
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            (Path(folder) / f"{name}.onnx").write_bytes(model())
        command = [str(word) for word in (program, host, probe, folder)]
        return matrix.run_child("stream_host", command, dict(os.environ), 300).results


@pytest.mark.parametrize("check", [*CHECKS, matrix.EXIT])
@pytest.mark.parametrize("version", VERSIONS)
def test_stream_host(version: str, check: str, test_library: str) -> None:
    if Path(test_library).name == "libort_cuda_ep.so":
        pytest.skip("the probe is a build of the simulated device")
    settle(results(version, test_library), check)
