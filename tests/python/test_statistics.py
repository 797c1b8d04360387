"""The provider's statistics in Python, and as metrics for Prometheus."""

import json
import re
from pathlib import Path
from typing import Any

import ort_cuda_ep
import pytest
from child import result
from command import ROOT, VERSIONS, child_environment
from ort_cuda_ep._prometheus import METRICS

BEGIN = """
import json, threading
import numpy as np
import onnxruntime as ort
import ort_cuda_ep
from ort_cuda_ep import selftest

X = {"x": np.ones((1, 3, 8, 8), np.float32)}
seen = {}
def note(name):
    seen[name] = ort_cuda_ep.statistics()
"""

ONE_SESSION = (
    BEGIN
    + """
try:
    ort_cuda_ep.statistics()
except RuntimeError as error:
    seen["unregistered"] = str(error)
ort_cuda_ep.register()
note("registered")
limit = {"gpu_mem_limit": 64 << 20}
session = ort_cuda_ep.session(selftest.model(), provider_options=limit)
note("created")
session.run(None, X)
note("run")
for _ in range(20):
    session.run(None, X)
note("steady")
value = ort.OrtValue.ortvalue_from_shape_and_type([1 << 18], np.float32, "gpu", 0, 0x10DE)
note("allocated")
del value, session
note("ended")
print(json.dumps(seen))
"""
)

GRAPHS = (
    BEGIN
    + """
options = {"enable_cuda_graph": 1}
session = ort_cuda_ep.session(selftest.model(), provider_options=options)
shape = [1, 3, 8, 8], [1, 4, 8, 8]
x, y = (ort.OrtValue.ortvalue_from_shape_and_type(s, np.float32, "gpu", 0, 0x10DE) for s in shape)
binding = session.io_binding()
binding.bind_ortvalue_input("x", x)
binding.bind_ortvalue_output("y", y)
for _ in range(2):
    session.run_with_iobinding(binding)
note("captured")
for _ in range(5):
    session.run_with_iobinding(binding)
note("replayed")
del session, binding
note("ended")
print(json.dumps(seen))
"""
)

CONCURRENT = (
    BEGIN
    + """
session = ort_cuda_ep.session(selftest.model())
expected = session.run(None, X)[0]
stop, wrong, counts = threading.Event(), [], []
def run():
    while not stop.is_set():
        if not np.array_equal(session.run(None, X)[0], expected):
            wrong.append("a Run")
def come_and_go():
    while not stop.is_set():
        ort_cuda_ep.session(selftest.model()).run(None, X)
def watch():
    last = 0
    for _ in range(300):
        memory = ort_cuda_ep.statistics()["devices"][0]["memory"]["arena"]
        if memory["allocations"] < last or memory["in_use_bytes"] > memory["reserved_bytes"]:
            wrong.append(memory)
        last = memory["allocations"]
    counts.append(last)
runners = [threading.Thread(target=target) for target in (run, run, come_and_go)]
watchers = [threading.Thread(target=watch) for _ in range(2)]
for thread in runners + watchers: thread.start()
for thread in watchers: thread.join()
stop.set()
for thread in runners: thread.join()
print(json.dumps({"wrong": wrong, "counts": counts}))
"""
)


@pytest.fixture(params=VERSIONS)
def environment(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> dict[str, str]:
    return child_environment(test_library, request.param, ORT_CUDA_EP_CACHE=str(tmp_path))


def first(found: dict[str, Any]) -> dict[str, Any]:
    device = found["devices"][0]
    assert isinstance(device, dict)
    return device


def test_a_session_shows_in_every_figure(environment: dict[str, str]) -> None:
    seen = result(environment, ONE_SESSION)
    assert "call register() first" in seen["unregistered"]
    assert seen["registered"]["version"] == ort_cuda_ep.__version__
    assert all(device["sessions"] == 0 for device in seen["registered"]["devices"])
    assert (first(seen["created"])["sessions"], first(seen["created"])["compiled_regions"]) == (1, 1)
    run, steady = first(seen["run"]), first(seen["steady"])
    assert run["streams"] == 1
    assert run["memory"]["weights"]["in_use_bytes"] >= 4 * (4 * 3 * 3 * 3 + 8 * 8)
    assert run["memory"]["arena"]["peak_in_use_bytes"] >= 4 * (3 * 8 * 8 + 4 * 8 * 8)
    assert run["account"]["weights_bytes"] == run["memory"]["weights"]["reserved_bytes"]
    assert run["account"]["limit_bytes"] == 64 << 20
    # The environment's configuration, which lives beside it, has no limit.
    assert first(seen["allocated"])["account"]["limit_bytes"] == 0
    assert steady["memory"]["arena"]["allocations"] >= run["memory"]["arena"]["allocations"] + 20
    for kind, memory in steady["memory"].items():  # a steady Run asks the driver for nothing
        assert memory["extensions"] == run["memory"][kind]["extensions"], kind
    more = first(seen["allocated"])["memory"]["arena"]["in_use_bytes"] - steady["memory"]["arena"]["in_use_bytes"]
    assert more == 1 << 20
    assert seen["run"]["plans"]["built"] >= 1
    assert seen["steady"]["plans"] == seen["run"]["plans"]
    ended = first(seen["ended"])
    assert (ended["sessions"], ended["compiled_regions"], ended["streams"]) == (0, 0, 0)
    assert ended["memory"]["weights"]["in_use_bytes"] == 0


def test_graphs_of_runs_are_counted(test_library: str, tmp_path: Path) -> None:
    seen = result(child_environment(test_library, ORT_CUDA_EP_CACHE=str(tmp_path)), GRAPHS)
    captured, replayed, ended = (first(seen[name])["graphs"]["runs"] for name in ("captured", "replayed", "ended"))
    assert (captured["graphs"], captured["captured"]) == (1, 1)
    assert captured["memory_bytes"] > 0
    assert replayed["launches"] == captured["launches"] + 5
    assert ended == {**replayed, "graphs": 0, "memory_bytes": 0}
    assert first(seen["captured"])["account"]["graphs_bytes"] > captured["memory_bytes"]  # its tensors too


def test_any_thread_may_ask_while_sessions_run(environment: dict[str, str]) -> None:
    found = result(environment, CONCURRENT)
    assert found["wrong"] == []
    assert min(found["counts"]) > 0


FIGURES = {
    "version": "1.2.3",
    "backend": "cuda",
    "devices": [
        {
            "ordinal": 3,
            "sessions": 2,
            "streams": 4,
            "compiled_regions": 5,
            "memory": {
                "arena": {key: number for number, key in enumerate(
                    ("in_use_bytes", "peak_in_use_bytes", "reserved_bytes", "peak_reserved_bytes", "allocations",
                     "extensions", "returns", "shrinks", "stream_waits", "failures"), 10)},
            },
            "account": {"limit_bytes": 77, "arena_bytes": 30, "graphs_bytes": 31},
            "graphs": {"runs": {"graphs": 40, "memory_bytes": 41, "captured": 42, "launches": 43}},
        }
    ],
    "plans": {"kept": 50, "built": 51, "loaded": 52, "found": 53, "dropped": 54, "build_us": 2500000, "load_us": 1,
              "in_background": 57, "replacements": 58},
}  # fmt: skip


def test_the_text_has_every_figure_once() -> None:
    text = ort_cuda_ep.prometheus_text(FIGURES, {"replica": 'a"b\\\n'})
    label = 'replica="a\\"b\\\\\\n"'
    lines = text.splitlines()
    assert text.endswith("\n")
    assert f'ort_cuda_ep_info{{{label},version="1.2.3",backend="cuda"}} 1' in lines
    assert f'ort_cuda_ep_memory_in_use_bytes{{{label},device="3",kind="arena"}} 10' in lines
    assert f'ort_cuda_ep_memory_charged_bytes{{{label},device="3",kind="graphs"}} 31' in lines
    assert f'ort_cuda_ep_memory_limit_bytes{{{label},device="3"}} 77' in lines
    assert f'ort_cuda_ep_graph_launches_total{{{label},device="3",kind="runs"}} 43' in lines
    assert f"ort_cuda_ep_plan_build_seconds_total{{{label}}} 2.500000" in lines
    assert f"ort_cuda_ep_plan_load_seconds_total{{{label}}} 0.000001" in lines
    values = [float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")]
    numbers = [int(number) for number in re.findall(r": (\d+)", json.dumps(FIGURES))]
    expected = [*numbers, 1, 2.5, 1e-6]
    for left_out in (3, 2500000, 1):  # the ordinal is a label, microseconds are seconds
        expected.remove(left_out)
    assert sorted(values) == sorted(expected)
    for name in METRICS:
        assert sum(line.startswith((f"# HELP {name} ", f"# TYPE {name} ")) for line in lines) == 2


def test_counters_and_only_they_end_in_total() -> None:
    for line in ort_cuda_ep.prometheus_text(FIGURES).splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name.endswith("_total") == (kind == "counter"), line


def test_the_guide_has_every_metric() -> None:
    guide = (ROOT / "docs" / "guides" / "serving.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in guide] == []
