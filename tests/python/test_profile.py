"""`ort-cuda-ep profile`: what it makes of a profile, its page, and the command on the library under test."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import command
import hosts
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from ort_cuda_ep import _provider
from ort_cuda_ep.cli.profile import _peaks_text
from ort_cuda_ep.host_profile import ProfileError
from ort_cuda_ep.peaks import measure_peaks
from ort_cuda_ep.profile import require_runs
from ort_cuda_ep.profile_page import Subject, page_data, render
from ort_cuda_ep.profile_times import Peaks, analyse, read_activities, short_name

from tests.session import models

Event = dict[str, Any]
SUBJECT = Subject("m.onnx", "a GPU", "1.31.1", {"use_tf32": "0"}, {"x": (2, 3)})


def kernel(name: str, begin_ns: int, ns: int, node: str = "", call: str = "1", **more: str) -> Event:
    arguments = {"activity": "kernel", "begin_ns": str(begin_ns), "duration_ns": str(ns), "device": "0", "stream": "7"}
    whose = {"node_name": node, "op_name": "Op"} if node else {"event_name": "model_run"}
    return {"cat": "Kernel", "pid": -1, "tid": 7, "ts": begin_ns // 1000, "dur": ns // 1000, "ph": "X", "name": name,
            "args": {**arguments, **whose, "call": call, **more}}  # fmt: skip


def run(begin: int, us: int) -> Event:
    return {"cat": "Session", "pid": 9, "tid": 9, "ts": begin, "dur": us, "ph": "X", "name": "model_run", "args": {}}


def node(name: str, begin: int, kind: str = "float") -> Event:
    arguments = {"op_name": "Op", "node_index": "0", "output_type_shape": [{kind: [4]}], "provider": "p"}
    return {
        "cat": "Node",
        "pid": 9,
        "tid": 9,
        "ts": begin,
        "dur": 5,
        "ph": "X",
        "name": f"{name}_kernel_time",
        "args": arguments,
    }


def two_runs() -> list[Event]:
    """A Run to warm up, which counts nothing, and two measured ones."""
    events: list[Event] = [run(0, 90), kernel("cold", 10_000, 50_000, "a")]
    for number, begin in enumerate((100, 200)):
        at = begin * 1000
        events += [
            run(begin, 80),
            node("a", begin + 1),
            node("b", begin + 8, "float16"),
            kernel("first", at + 10_000, 10_000, "a", f"{number}a", cost_bytes="1000"),
            kernel("second", at + 20_000, 5_000, "a", f"{number}a", cost_bytes="1000"),
            # Launched ahead: it waits for 3 us until its predecessor is done.
            kernel("third", at + 22_000, 23_000, "b", f"{number}b", cost_bytes="10", cost_flops="4000"),
            kernel("copy", at + 50_000, 2_000, activity="copy", bytes="64"),
        ]
    return events


def test_a_profile_without_all_runs_is_none() -> None:
    require_runs(two_runs(), 3)
    with pytest.raises(ProfileError, match=r"3 of 4 Runs: .* smaller --repeat"):
        require_runs(two_runs(), 4)


def test_nodes_have_their_work_of_the_measured_runs() -> None:
    found = analyse(two_runs(), 2, Peaks(100e6, {"float16": 400e6}))
    assert [(n.name, n.calls, n.us) for n in found.nodes] == [("b", 1, 20), ("a", 1, 15)]
    assert [k.name for k in found.nodes[1].kernels] == ["first", "second"]
    assert found.nodes[0].share == pytest.approx(20 / 35)
    assert found.node_us == 35 and found.copy_us == 2 and found.span_us == 37 and found.host_us == 80
    assert not found.simulated
    # 4000 operations in 20 us are 200 M/s; 10 bytes are less of their peak. The cost of a call counts once.
    assert (found.nodes[0].percent, found.nodes[0].limit) == (pytest.approx(50), "float16 FLOPs")
    assert (found.nodes[1].percent, found.nodes[1].limit) == (pytest.approx(100 * 1000 / 15e-6 / 100e6), "bytes")


def test_without_peaks_there_are_no_percents() -> None:
    assert all(n.percent is None for n in analyse(two_runs(), 2).nodes)


def test_time_that_a_kernel_waits_for_its_stream_is_not_its_own() -> None:
    work = {a.kernel: a for a in read_activities(two_runs()[2:9])}
    assert (work["third"].duration_ns, work["third"].busy_ns) == (23_000, 20_000)
    assert work["second"].busy_ns == 5_000


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void cudaep::kernels::CopyKernel<int, 4>(int const*, int*)", "CopyKernel<int, 4>"),
        (
            "void cudaep::kernels::K<cudaep::kernels::(anonymous namespace)::Add, float (*)(int)>(A)",
            "K<Add, float (*)(int)>",
        ),
        ("sm90_xmma_gemm_f16f16", "sm90_xmma_gemm_f16f16"),
        ("(odd)", "(odd)"),
    ],
)
def test_names_are_shortened(name: str, short: str) -> None:
    assert short_name(name) == short


class Scripts(HTMLParser):
    """The scripts of a page, and whatever else it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.loads: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        self.loads += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


def test_the_page_has_the_profile_and_loads_nothing() -> None:
    hostile = "</script><script>alert('x')</script><!--"
    events = two_runs()
    for event in events:
        if event["args"].get("node_name") == "b":
            event["args"]["node_name"] = hostile
    page = render(analyse(events, 2), SUBJECT)
    found = Scripts(page)
    assert len(found.scripts) == 2 and not found.loads
    assert not re.search(r"https?:|@import|url\(|fetch\(|import\(", page)
    data = json.loads(found.scripts[0])
    assert [n["name"] for n in data["nodes"]] == [hostile, "a"]
    assert data["options"] == {"use_tf32": "0"} and data["shapes"] == {"x": [2, 3]}
    assert len(data["work"]) == 8 and len(data["calls"]) == 6
    assert data["lanes"][data["work"][0][0]] == "device 0, stream 7"
    assert data["work"][0][1] == 10 and data["work"][0][2] == 10  # us from the first measured Run on
    assert {row[4] for row in data["work"]} == {0, 1, -1}
    assert data["skipped"] == 0


def test_a_long_profile_is_shown_from_its_last_runs() -> None:
    data = page_data(analyse(two_runs(), 2), SUBJECT, most=5)
    assert data["skipped"] == 1 and len(data["work"]) == 4
    assert data["work"][0][1] == 10 and data["cut"] == 0


def test_a_run_that_is_too_long_is_cut_and_says_so() -> None:
    data = page_data(analyse(two_runs(), 2), SUBJECT, most=3)
    assert (data["skipped"], data["cut"], len(data["work"])) == (1, 1, 3)


@pytest.fixture(params=["1.27.0", command.VERSIONS[-1]])
def environment(request: pytest.FixtureRequest, test_library: str) -> dict[str, str]:
    return command.child_environment(test_library, request.param)


def save_model(path: Path) -> Path:
    image: tuple[int, list[int | str]] = (TensorProto.FLOAT, ["batch", 3, 6, 6])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["b"], "pool"),
        helper.make_node("Flatten", ["b"], ["c"], "flat"),
        helper.make_node("MatMul", ["c", "m"], ["y"], "head"),
    ]
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "m": np.ones((4, 5), np.float32)}
    path.write_bytes(models.model(nodes, {"x": image}, {"y": (TensorProto.FLOAT, ["batch", 5])}, weights))
    return path


@pytest.mark.parametrize("options", [(), ("--option", "enable_cuda_graph=1")])
def test_the_command_writes_table_trace_and_page(
    environment: dict[str, str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    model, out = save_model(tmp_path / "m.onnx"), tmp_path / "new" / "out"
    found = command.invoke(
        environment, "profile", model, "--dim", "batch=2", "--repeat", 4, "--out", out, "--json", *options
    )
    assert found.code == 0, found
    report = found.json
    assert report["ok"] and report["simulated"] and report["runs"] == 4
    nodes = {row["name"]: row for row in report["nodes"]}
    assert set(nodes) == {"conv", "pool", "head"}, nodes  # Flatten does nothing on the device
    assert nodes["conv"]["op_type"] == "Conv" and nodes["conv"]["calls"] == 1 and nodes["conv"]["us"] > 0
    assert all(row["percent"] > 0 for row in nodes.values()), nodes
    assert sum(row["share"] for row in nodes.values()) == pytest.approx(1)
    assert report["peaks"]["bytes_per_s"] > 0 and report["peaks"]["flops_per_s"]["float"] > 0
    times = report["time_us"]
    assert times["nodes"] == pytest.approx(sum(row["us"] for row in nodes.values()))
    assert times["nodes"] <= times["device_busy"] * 1.001
    trace = json.loads((out / "trace.json").read_text())
    assert any(event["ph"] == "M" and event["args"]["name"] == "simulated GPU 0" for event in trace)
    replayed = {event["args"].get("replayed") for event in trace if event.get("cat") == "Kernel"}
    assert ("1" in replayed) == bool(options)
    data = json.loads(Scripts((out / "profile.html").read_text()).scripts[0])
    assert {row["name"] for row in data["nodes"]} == set(nodes) and data["sim"]


def test_the_table_for_people(environment: dict[str, str], tmp_path: Path) -> None:
    model = save_model(tmp_path / "m.onnx")
    found = command.invoke(environment, "profile", model, "--repeat", 2, "--out", tmp_path / "out", "--no-peaks")
    assert found.code == 0 and "not measured" in found.out, found
    assert re.search(r"head +MatMul +\S.* +1 +\d+\.\d +\d+\.\d%", found.out), found.out
    assert "trace.json" in found.out and "profile.html" in found.out


def test_names_and_memory_limits_of_any_kind(environment: dict[str, str], tmp_path: Path) -> None:
    """A name that is no ASCII in a process whose locale is; a limit that no measurement of peaks fits into."""
    model = onnx.load(save_model(tmp_path / "m.onnx"))
    model.graph.node[3].name = "größe"
    onnx.save(model, tmp_path / "m.onnx")
    plain = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = command.invoke(
        plain, "profile", tmp_path / "m.onnx", "--repeat", 2, "--out", tmp_path / "out", "--json", "--option",
        "gpu_mem_limit=1200000",
    )  # fmt: skip
    assert found.code == 0, found
    assert "größe" in {row["name"] for row in found.json["nodes"]}
    peaks = found.json["peaks"]
    assert peaks["bytes_per_s"] > 0 and peaks["flops_per_s"]["float"] > 0 and not peaks["not_measured"], peaks


def test_a_peak_that_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(_provider, "devices", lambda: [None])
    monkeypatch.setattr(_provider, "is_simulated", lambda _: True)
    monkeypatch.setattr(_provider, "session", refuse)
    peaks = measure_peaks(0, {}, ["float"], lambda _: None)
    assert peaks == Peaks(0, {}, {"a copy": "no room", "a product of float": "no room"})
    assert "not measured: a copy: no room" in _peaks_text(peaks)


def test_what_is_wrong_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    assert command.invoke(environment, "profile", tmp_path / "none.onnx").code == 2
    model = save_model(tmp_path / "m.onnx")
    (tmp_path / "file").write_text("")
    found = command.invoke(environment, "profile", model, "--no-peaks", "--out", tmp_path / "file")
    assert found.code == 2 and "file" in found.err, found
    found = command.invoke(environment, "profile", model, "--out", tmp_path / "o", "--option", "no_such_option=1")
    assert found.code == 2 and "no_such_option" in found.err, found


def test_an_old_host_is_refused_by_name(test_library: str, tmp_path: Path) -> None:
    environment = command.child_environment(test_library, hosts.OLDEST)
    found = command.invoke(environment, "profile", save_model(tmp_path / "m.onnx"), "--out", tmp_path / "out")
    assert found.code == 3 and "1.25" in found.err, found
