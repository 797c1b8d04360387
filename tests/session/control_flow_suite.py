"""If, Loop and Scan on every supported host: run as a child process, one JSON line a check.

    python -m tests.session.control_flow_suite LIBRARY

Each case of control_flow_cases.py is a check of its own, as is each of ONNX's node tests; what they cost in
synchronisations and memory is in control_flow_cost_suite.py.
"""

from __future__ import annotations

import gc
import importlib
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx.backend.test.case import node as onnx_node_tests
from onnx.backend.test.case.test_case import TestCase

from tests.session.control_flow_cases import CASES, Case, Feeds, floats, named, scalar
from tests.session.suite import error_of, run_checks, session, session_options

CONTROL_FLOW = ("If", "Loop", "Scan")
# ONNX's own node tests. What has sequences or optional values is not on the provider, and neither is Scan 8.
NODE_TESTS_ELSEWHERE = ("test_if_opt", "test_if_seq", "test_loop13_seq", "test_loop16_seq_none", "test_scan_sum")


def placed(model: bytes, options: dict[str, str] | None = None) -> tuple[ort.InferenceSession, list[dict[str, str]]]:
    """A session, and the nodes of its placement report, each with the label of the node around it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        created = session(model, {**(options or {}), "placement_report": str(path)}, cpu_allowed=True)
        graphs = json.loads(path.read_text())["graphs"]
    return created, [{**node, "inside": graph["parent"]} for graph in graphs for node in graph["nodes"]]


def on_the_cpu(model: bytes) -> ort.InferenceSession:
    options = session_options()
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def compare(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (ours.shape, theirs.shape)
        if theirs.dtype == object:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def _check_of(case: Case) -> Callable[[], None]:
    def check() -> None:
        model = case.model()
        ours, nodes = placed(model)
        for node in (node for node in nodes if node["op_type"] in CONTROL_FLOW):
            reason = case.elsewhere.get(node["op_type"])
            assert (node["placement"] == "provider") == (reason is None), node
            assert reason is None or reason in node["reason"], node
        assert any(node["op_type"] in CONTROL_FLOW for node in nodes), nodes
        for _ in range(2):  # a second Run with plans and memory of the first
            for feeds in case.runs:
                compare(ours.run(None, feeds), case.expected or on_the_cpu(model).run(None, feeds))

    return check


globals().update(named("check_case_", _check_of))


def _node_test(test: TestCase) -> Callable[[], None]:
    def check() -> None:
        assert test.model is not None and test.data_sets is not None
        model = onnx.ModelProto.FromString(test.model.SerializeToString())
        model.opset_import[0].version = min(model.opset_import[0].version, 21)  # the generator's may be ahead of a host
        model.ir_version = min(model.ir_version, 10)
        created, nodes = placed(model.SerializeToString())
        for inputs, outputs in test.data_sets:
            feeds = {info.name: _value(value) for info, value in zip(created.get_inputs(), inputs, strict=True)}
            for found, expected in zip(created.run(None, feeds), outputs, strict=True):
                lists = isinstance(expected, list)
                compare(found if lists else [found], expected if lists else [np.asarray(expected)])
        for node in nodes:
            if node["op_type"] in CONTROL_FLOW:
                assert (node["placement"] == "provider") == (test.name not in NODE_TESTS_ELSEWHERE), node

    return check


def _value(value: object) -> object:
    return value if value is None or isinstance(value, list) else np.asarray(value)


def _node_tests() -> dict[str, Callable[[], None]]:
    """Those that ONNX's test generators make of the modules that have control flow, by the name of the check."""
    for module in ("if_", "loop", "rangeop", "scan"):
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    tests = (
        test
        for test in onnx_node_tests._NodeTestCases
        if test.model and _has_control_flow(test.model) and "bfloat16" not in test.name  # which numpy cannot feed
    )
    return {f"check_onnx_{test.name.removeprefix('test_')}": _node_test(test) for test in tests}


def _has_control_flow(model: onnx.ModelProto) -> bool:
    return any(node.op_type in CONTROL_FLOW for node in model.graph.node)


globals().update(_node_tests())


def check_nodes_inside_are_reported() -> None:
    """Each with the node around it; what computes a Loop's condition and iteration stays where the host has them."""
    _, nodes = placed(CASES["loop_around_if_on_its_iteration"].model())
    found = {(node["op_type"], node["inside"][:4], node["placement"]) for node in nodes}
    assert {
        ("Loop", "", "provider"),
        ("Identity", "Loop", "shape"),
        ("Mod", "Loop", "shape"),
        ("Cast", "Loop", "shape"),
        ("If", "Loop", "provider"),
        ("Add", "If n", "provider"),
        ("Mul", "If n", "provider"),
    } <= found, found


def check_the_strict_option_takes_control_flow() -> None:
    """require_all_compute_nodes: a Loop of ours passes with shape nodes inside, and a text inside it fails."""
    strict = {"require_all_compute_nodes": "1"}
    assert placed(CASES["loop_13"].model(), strict)
    text = error_of(lambda: placed(CASES["loop_with_a_node_on_the_cpu"].model(), strict))
    assert "2 of 4 compute nodes inside Loop node" in text and "Cast node" in text, text


def check_a_scan_output_whose_shape_changes_is_refused() -> None:
    """A clean status that names node and shapes; the session goes on."""
    case = Case(
        """(int64 m, float[n] x) => (float[p] y, float[k, q] s) {
          y, s = Loop (m, , x) <body = l (int64 i, bool c_in, float[q] v) => (bool c, float[r] w, float[r] o) {
            c = Identity(c_in)  w = Concat <axis = 0> (v, x)  o = Neg(w)
          }>
        }""",
        [],
    )
    growing = session(case.model(), cpu_allowed=True)
    text = error_of(lambda: growing.run(None, {"m": scalar(3), "x": floats(2)}))
    assert "Loop node" in text and "[6] in iteration 1 and [4] in the first" in text, text
    compare(growing.run(None, {"m": scalar(1), "x": floats(2)})[1:], [-np.tile(floats(2), 2)[None]])


def check_an_error_inside_leaves_the_session_usable() -> None:
    """A body that asks for too much memory, or whose shapes do not fit."""
    case = Case(
        """(int64 m, float[n] x, float[k] z) => (float[p] y) {
          y = Loop (m, , x) <body = l (int64 i, bool c_in, float[q] v) => (bool c, float[r] w) {
            c = Identity(c_in)  u = Add(v, z)  w = Concat <axis = 0> (u, u)
          }>
        }""",
        [],
    )
    limited = session(case.model(), {"gpu_mem_limit": str(8 << 20)}, cpu_allowed=True)
    one = np.zeros(1, np.float32)
    for _ in range(3):
        text = error_of(lambda: limited.run(None, {"m": scalar(40), "x": floats(1000), "z": one}))
        assert "CUDAEP_OUT_OF_MEMORY" in text or "Allocation failed" in text, text
        text = error_of(lambda: limited.run(None, {"m": scalar(3), "x": floats(3), "z": floats(2)}))
        assert "Add" in text and "[3]" in text and "[2]" in text, text
        (grown,) = limited.run(None, {"m": scalar(3), "x": floats(3), "z": one})
        np.testing.assert_array_equal(grown, np.tile(floats(3), 8))


def check_concurrent_loops_agree_with_serial_ones() -> None:
    """Eight threads over one session, each with lengths and counts of its own, many joins and one Scan."""
    model = CASES["loop_13"].model()
    scan = CASES["scan_along_the_middle_axis_backwards"]
    ours, cpu, scanning = session(model, cpu_allowed=True), on_the_cpu(model), session(scan.model(), cpu_allowed=True)
    sums = on_the_cpu(scan.model()).run(None, scan.runs[0])
    wrong: list[str] = []

    def work(seed: int) -> None:
        try:
            generator = np.random.default_rng(seed)
            for _ in range(5):
                n, m = int(generator.integers(0, 50)), int(generator.integers(0, 90))
                feeds: Feeds = {"m": scalar(m), "c": scalar(True, np.bool_), "x": floats(n), "b": floats(n, seed=seed)}
                compare(ours.run(None, feeds), cpu.run(None, feeds))
                compare(scanning.run(None, scan.runs[0]), sums)
        except Exception as error:
            wrong.append(f"seed {seed}: {error}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_sessions_with_control_flow_come_and_go() -> None:
    """Created, run and dropped in turn, also without having run."""
    for name in ("loop_13", "scan_along_the_last_axis", "if_within_if_reads_two_scopes"):
        for run in (True, False, True):
            created = session(CASES[name].model(), cpu_allowed=True)
            assert not run or created.run(None, CASES[name].runs[0])
            del created
            gc.collect()


if __name__ == "__main__":
    run_checks(globals())
