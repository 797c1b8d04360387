"""The end of everything, in every order: no crash, no hang, exit code 0; and a lost device, which must not change that.

`teardown` (tests/session/teardown) is the application; orders are strings of its letters. What must precede what by
the host's contracts: a value the allocator it was made with (W before A, H before the registration L and the
environment E). Releasing the environment before anything else is beyond those contracts and works all the same: the
library stays loaded then.

CUDAEP_TEARDOWN_STRIDE=N tries every Nth order only: under a sanitizer each of them takes long.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hosts
import pytest
from onnx import TensorProto, helper

from tests.session import models
from tests.session.programs import VERSIONS, Program, require_host

STRIDE = int(os.environ.get("CUDAEP_TEARDOWN_STRIDE", "1"))
UNLOADS_FROM = (1, 27)  # older hosts keep a reference of the loader's for ever
EARLY_ENDS = ["HESBVWAT", "BVWAHTES", "SVWAHTEB", "SBWAHTEV", "SBVHTEWA", "SBVWAHET", "HLESBVWAT", "HLSBVWATE"]
LEFT_ALIVE = ["-", "E", "SE", "S", "B", "T", "SB", "VWAH", "SBVWAHT", "SBVWAHTL", "BSTVWAHLE", "HLE"]


def write_model(folder: Path) -> Path:
    """A vector added to itself."""
    path = folder / "model.onnx"
    add = helper.make_node("Add", ["x", "x"], ["y"], name="sum")
    path.write_bytes(models.model([add], {"x": (TensorProto.FLOAT, ["n"])}, {"y": (TensorProto.FLOAT, ["n"])}))
    return path


class Teardown(Program):
    """Calling it does the orders and returns what it printed of each."""

    def __init__(self, version: str, library: str, folder: Path) -> None:
        super().__init__("teardown", version, library)
        self._model = write_model(folder)

    def __call__(self, *words: str, **environment: str) -> list[dict[str, Any]]:
        child = self.run(self.library, self._model, *words, TEARDOWN_HOST=self.host, **environment)
        return [json.loads(line) for line in child.stdout.splitlines()]


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> Teardown:
    return Teardown(request.param, test_library, tmp_path)


def orders(units: Sequence[str], end: str) -> list[str]:
    """Every order of the units, and `end` behind each."""
    return ["".join(order) + end for order in itertools.permutations(units)]


@pytest.mark.parametrize("end", ["LE", "E"])
def test_every_order(program: Teardown, end: str) -> None:
    """In one process: the library is registered anew, and on newer hosts loaded anew, for each order.

    The newest host does them all where the library ends before the environment. Elsewhere it is a third, which has each
    pair of units in both orders, also next to each other.
    """
    stride = STRIDE * (1 if end == "LE" and program.version >= UNLOADS_FROM else 3)
    every = orders(["S", "B", "V", "WA", "H", "T"], end)[::stride]
    results = program(*every)
    assert [result["order"] for result in results] == every
    if program.version >= UNLOADS_FROM:
        assert not any(result["mapped"] for result in results), "the library was not unloaded"
        # A library that kept its simulated devices' addresses would take more than 16 GiB with each order.
        assert results[-1]["virtual_pages"] - results[1]["virtual_pages"] < (64 << 30) / 4096


@pytest.mark.parametrize("order", EARLY_ENDS)
def test_an_environment_that_ends_early(program: Teardown, order: str) -> None:
    """Twice, for the second time beside what the first has left behind."""
    assert len(program(order, order)) == 2


@pytest.mark.parametrize("when", ["end", "atexit", "static"])
def test_objects_alive_at_exit(program: Teardown, when: str) -> None:
    """Released at the end of main, by an atexit handler or a static destructor; what has no letter lives on."""
    for order in LEFT_ALIVE:
        assert len(program("--when", when, order)) == 1, order


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_lost_device(program: Teardown, nth: int, test_library: str) -> None:
    """Every call behind the loss reports the first cause, with a new session too, and everything can be destroyed."""
    if not test_library.endswith("_sim.so"):
        pytest.skip("only a simulated device can be lost on purpose")
    results = program("--lost", "SBVWAHTL", "TVWAHBSLE", CUDAEP_SIM_LOSE_DEVICE_AT=str(nth))
    assert len(results) == 2
    first = results[0]["errors"]
    assert {error.split(":")[0] for error in first} >= {"stream", "copy"}, first
    for error in first:
        assert "DEVICE_LOST" in error, error
        assert f"is number {nth}: CUDAEP_SIM_LOSE_DEVICE_AT" in error, error


PROLOGUE = """
import atexit, sys
import numpy as np
import onnxruntime as ort
library, model = sys.argv[1:]
ort.register_execution_provider_library("CUDAExecutionProvider", library)
device = [d for d in ort.get_ep_devices() if d.ep_name == "CUDAExecutionProvider"][0]
options = ort.SessionOptions()
options.add_provider_for_devices([device], {})
session = ort.InferenceSession(model, options)
x = np.ones(8, np.float32)
binding = session.io_binding()
binding.bind_cpu_input("x", x)
value = ort.OrtValue.ortvalue_from_shape_and_type([8], np.float32, "gpu", 0, 0x10DE)
binding.bind_ortvalue_output("y", value)
session.run_with_iobinding(binding)
assert value.numpy()[3] == 2
"""
ENDS = {
    "everything is alive": "",
    "a value outlives its session": "del binding, session",
    "a session outlives its binding": "del binding, value",
    "a binding alone": "del session, value",
    "in a cycle": "class Holder: pass\nholder = Holder()\nholder.me = holder\nholder.all = (session, binding, value)",
    "in a module": "ort.kept = (session, binding, value)\ndel session, binding, value",
    "used at exit": "atexit.register(lambda: session.run(None, {'x': x}))",
    "released at exit": "held = [value, binding, session]\ndel value, binding, session\natexit.register(held.clear)",
    "a thread runs": "import threading\nthreading.Thread(target=session.run, args=(None, {'x': x})).start()",
}


def run_python(text: str, version: str, library: str, model: Path) -> subprocess.CompletedProcess[str]:
    environment = {**(os.environ if hosts.is_own(version) else hosts.environment(version)), **hosts.STRICT_MALLOC}
    command = [sys.executable, "-c", textwrap.dedent(text), library, str(model)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends(name: str, version: str, test_library: str, model: Path) -> None:
    require_host(version)  # installed, or a skip
    child = run_python(PROLOGUE + ENDS[name], version, test_library, model)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_interpreter_ends_by_an_exception(version: str, test_library: str, model: Path) -> None:
    require_host(version)
    child = run_python(PROLOGUE + "raise RuntimeError('meant')", version, test_library, model)
    assert child.returncode == 1
    assert child.stderr.rstrip().endswith("RuntimeError: meant"), child.stderr
