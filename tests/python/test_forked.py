"""A process that forks: before the registration all is well, after it the child is told what to do instead."""

from pathlib import Path

import pytest
from child import result
from command import VERSIONS, child_environment

BEGIN = """
import json, os
import numpy as np
import onnxruntime as ort
import ort_cuda_ep
from ort_cuda_ep import selftest

X = {"x": np.ones((1, 3, 8, 8), np.float32)}

def attempt(action):
    try:
        return {"value": float(action().sum())}
    except Exception as error:
        return {"error": str(error)}

def in_child(actions):
    # The outcome of each, and the child's exit code once it has dropped our objects. It ends as multiprocessing's
    # children do: in an ordinary exit of a forked child the newest host waits for threads that did not come along.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        outcomes = {name: attempt(action) for name, action in actions.items()}
        os.write(writer, json.dumps(outcomes).encode())
        for name in ("session", "value"):
            globals().pop(name, None)
        os._exit(0)
    code = os.waitpid(child, 0)[1]
    return {**json.loads(os.read(reader, 1 << 16)), "code": code}

def run_new():
    return ort_cuda_ep.session(selftest.model()).run(None, X)[0]
"""

AFTER = (
    BEGIN
    + """
session = ort_cuda_ep.session(selftest.model())
value = ort.OrtValue.ortvalue_from_shape_and_type([8], np.float32, "gpu", 0, 0x10DE)
expected = attempt(lambda: session.run(None, X)[0])
found = in_child({
    "an old session": lambda: session.run(None, X)[0],
    "a new session": run_new,
    "a copy": lambda: value.numpy(),
    "statistics": ort_cuda_ep.statistics,
})
print(json.dumps({"child": found, "before": expected, "after": attempt(lambda: session.run(None, X)[0])}))
"""
)

REGISTERED_ONLY = (
    BEGIN
    + """
ort_cuda_ep.register()
print(json.dumps(in_child({"a new session": run_new})))
"""
)

BEFORE = (
    BEGIN
    + """
found = in_child({"a new session": run_new})
print(json.dumps({"child": found, "parent": attempt(run_new)}))
"""
)

SPAWNED = """
import json, multiprocessing, sys
import ort_cuda_ep
from ort_cuda_ep import selftest

def work(ordinal):
    return selftest.run(ordinal).error if ort_cuda_ep.register() and ort_cuda_ep.devices() else "no device"

if __name__ == "__main__":
    ort_cuda_ep.session(selftest.model())
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(json.dumps(pool.map(work, [0, 0])))
"""


@pytest.fixture(params=VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> dict[str, str]:
    return child_environment(test_library, request.param, ORT_CUDA_EP_CACHE=str(tmp_path))


def test_a_fork_after_the_registration_is_told_of(environment: dict[str, str]) -> None:
    found = result(environment, AFTER)
    assert found["child"].pop("code") == 0
    assert "forked after the registration" in found["child"].pop("statistics")["error"]
    assert set(found["child"]) == {"an old session", "a new session", "a copy"}
    for name, outcome in found["child"].items():
        assert "[CUDAEP_FORKED] this process was forked after the library was registered" in outcome["error"], name
        assert 'multiprocessing.get_context("spawn")' in outcome["error"], name
    assert found["after"] == found["before"]
    assert "value" in found["before"]


def test_registered_alone_is_enough(environment: dict[str, str]) -> None:
    found = result(environment, REGISTERED_ONLY)
    assert "[CUDAEP_FORKED]" in found["a new session"]["error"]
    assert found["code"] == 0


def test_a_fork_before_the_registration_is_none_of_our_business(environment: dict[str, str]) -> None:
    found = result(environment, BEFORE)
    assert found["child"] == {"a new session": found["parent"], "code": 0}
    assert "value" in found["parent"]


def test_spawned_children_work(environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "spawned.py"
    program.write_text(SPAWNED)
    assert result(environment, f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')") == ["", ""]
