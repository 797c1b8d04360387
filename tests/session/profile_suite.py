"""GPU time in the host's profile, on every supported host: run as a child process, one JSON line a check.

    python -m tests.session.profile_suite PROBE

PROBE is the test build of the plug-in, whose device tells its times. Hosts before 1.25 have no profiler for providers.
Runs that are profiled by themselves are in test_profile_host.py: Python cannot ask for them.
"""

from __future__ import annotations

import functools
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.graph_support import GRAPHS, Bound, rows, run_options, with_graphs
from tests.session.stream_support import HOST, in_threads
from tests.session.suite import EP, SkippedError, add_provider, logged, run_checks, session_options, simulated

Event = dict[str, Any]
Check = TypeVar("Check", bound=Callable[[], None])
SUFFIX = "_kernel_time"
MIXED = (2, 8, 32)  # an input of the mixer


def with_profiler(check: Check) -> Check:
    """Skips a check on hosts without the hook."""

    @functools.wraps(check)
    def guarded() -> None:
        if HOST < (1, 25):
            raise SkippedError("the host has no profiler for providers")
        check()

    return guarded  # type: ignore[return-value]


@contextmanager
def profiled(
    model: bytes, options: dict[str, str] | None = None, cpu_allowed: bool = False, parallel: bool = False
) -> Iterator[ort.InferenceSession]:
    """A session, without regions unless it is told, that profiles into a folder that goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = session_options()
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(folder) / "profile")
        if parallel:
            settings.execution_mode = ort.ExecutionMode.ORT_PARALLEL
            settings.inter_op_num_threads = 3
        if not cpu_allowed:
            settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        add_provider(settings, {"compiled_regions": "0", **(options or {})})
        yield ort.InferenceSession(model, settings, enable_fallback=0)


def end(session: ort.InferenceSession) -> list[Event]:
    found: list[Event] = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return found


def device_events(events: list[Event]) -> list[Event]:
    return [event for event in events if event.get("cat") == "Kernel"]


def nodes_of(events: list[Event]) -> Counter[str]:
    """Calls of each node that did something on the device."""
    calls = {(event["args"].get("node_name"), event["args"]["call"]) for event in device_events(events)}
    return Counter(str(name) for name, _ in calls if name)


def host_nodes(events: list[Event]) -> Counter[str]:
    """Runs of each of the provider's nodes, as the host saw them."""
    return Counter(
        event["name"].removesuffix(SUFFIX)
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(SUFFIX) and event["args"].get("provider") == EP
    )


def ends(event: Event) -> int:
    return int(event["ts"]) + int(event["dur"])


def feed(session: ort.InferenceSession, *shape: int) -> dict[str, np.ndarray]:
    return {session.get_inputs()[0].name: rows(0, *shape)}


@with_profiler
def check_every_node_has_its_times() -> None:
    """On the host's clock, with operator, index and cost; all work belongs to a node, a Run or the initialization."""
    with profiled(models.mixer()) as session:
        for _ in range(3):
            session.run(None, feed(session, 2, 8, 32))
        events = end(session)
    by_name = {event["name"].removesuffix(SUFFIX): event for event in events if event.get("cat") == "Node"}
    ours = host_nodes(events)
    assert ours and nodes_of(events) == ours, (ours, nodes_of(events))
    whole = [event for event in events if event["name"] in ("model_run", "session_initialization")]
    for event in device_events(events):
        arguments = event["args"]
        assert (arguments.get("simulated") == "1") == simulated() and int(arguments["device"]) == 0, event
        assert int(arguments["begin_ns"]) // 1000 == event["ts"], event
        assert abs(int(arguments["duration_ns"]) / 1000 - event["dur"]) <= 1, event
        around = [part for part in whole if part["ts"] <= event["ts"] and ends(event) <= ends(part)]
        assert len(around) == 1, (event, whole)
        if "node_name" not in arguments:
            assert arguments["event_name"] == around[0]["name"] and arguments["activity"] == "copy", event
            continue
        host_event = by_name[arguments["node_name"]]
        assert arguments["op_name"] == host_event["args"]["op_name"], event
        assert arguments["node_index"] == host_event["args"]["node_index"], event
        assert int(arguments["cost_bytes"]) > 0, event
    copies = [event for event in device_events(events) if event["args"].get("event_name") == "model_run"]
    assert len(copies) == 6, copies  # of the input and the output of each Run


@with_profiler
def check_threads_over_one_session() -> None:
    """Each Run's nodes once, whatever runs beside it."""
    with profiled(models.add_chain(20, constant=True)) as session:
        in_threads(8, lambda thread: [session.run(None, feed(session, 4)) for _ in range(10)])
        events = end(session)
    assert nodes_of(events) == Counter({f"add{i}": 80 for i in range(20)}), nodes_of(events)


@with_profiler
def check_nodes_on_threads_of_the_hosts() -> None:
    """Parallel execution."""
    with profiled(models.mixer(), parallel=True) as session:
        for _ in range(5):
            session.run(None, feed(session, 2, 8, 32))
        events = end(session)
    assert nodes_of(events) == host_nodes(events)


@with_profiler
def check_sessions_beside_each_other() -> None:
    """Each profile has its own session's nodes alone."""

    def work(thread: int) -> None:
        names = [f"of{thread}_{i}" for i in range(thread + 1)]
        chain = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=name) for i, name in enumerate(names)]
        vector: tuple[int, list[int | str]] = (TensorProto.FLOAT, ["n"])
        with profiled(models.model(chain, {"v0": vector}, {f"v{len(names)}": vector})) as session:
            for _ in range(10):
                session.run(None, feed(session, 7))
            events = end(session)
        assert nodes_of(events) == Counter(dict.fromkeys(names, 10)), nodes_of(events)

    in_threads(6, work)


@with_profiler
def check_nodes_inside_control_flow() -> None:
    """They have names of their own; the node around them has what it does itself."""
    relu = helper.make_node("Relu", ["x"], ["a"], name="inner")
    out = helper.make_tensor_value_info("a", TensorProto.FLOAT, None)
    add = helper.make_node("Add", ["x", "x"], ["a"], name="other")
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], name="most", keepdims=0),
        helper.make_node("Cast", ["most"], ["go"], name="go", to=TensorProto.BOOL),
        helper.make_node(
            "If",
            ["go"],
            ["y"],
            name="branch",
            then_branch=helper.make_graph([relu], "then", [], [out]),
            else_branch=helper.make_graph([add], "else", [], [out]),
        ),
    ]
    model = models.model(nodes, {"x": (TensorProto.FLOAT, ["n"])}, {"y": (TensorProto.FLOAT, None)})
    with profiled(model, cpu_allowed=True) as session:
        session.run(None, {"x": np.ones(5, np.float32)})
        found = nodes_of(end(session))
    assert found["inner"] == 1 and found["most"] == 1 and "other" not in found, found


@with_graphs
def check_replays_have_the_names_of_nodes() -> None:
    """Of a graph that was captured while profiling, and by which node each kernel was captured."""
    with profiled(models.mixer(), GRAPHS) as session:
        bound = Bound(session, {"x": rows(0, 2, 8, 32)}, 3)
        for _ in range(4):
            bound.run()
        bound.wait()
        session.run(None, feed(session, 2, 8, 32), run_options(-1))
        events = end(session)
    replayed = [event for event in device_events(events) if "replayed" in event["args"]]
    runs = [event for event in events if event["name"] == "model_run"]
    for event in replayed:  # the host's clock and ours are read one after the other
        assert any(run["ts"] <= event["ts"] + 2 and ends(event) <= ends(run) + 2 for run in runs), (event, runs)
    names: list[set[tuple[str, str, str]]] = [set(), set()]
    for event in device_events(events):
        if "node_name" in event["args"]:
            key = (event["args"]["node_name"], event["args"]["op_name"], event["name"])
            names["replayed" in event["args"]].add(key)
    assert names[0] and names[0] == names[1], names
    launches = Counter(event["args"]["node_name"] for event in replayed)
    once = Counter(event["args"]["node_name"] for event in replayed[: len(replayed) // 4])
    assert launches == Counter({name: 4 * count for name, count in once.items()}), launches


def _work(options: dict[str, str], model: bytes, shape: tuple[int, ...], replays: bool = False) -> list[Event]:
    """The device's work of three Runs' nodes, the first of them alone or also replayed."""
    with profiled(model, options) as session:
        if replays:
            bound = Bound(session, {"x": rows(0, *shape)}, 3)
            for _ in range(3):
                bound.run()
            bound.wait()
        else:
            for _ in range(3):
                session.run(None, feed(session, *shape))
        return [event for event in device_events(end(session)) if "node_name" in event["args"]]


def _named(work: list[Event]) -> Counter[tuple[str, str, str]]:
    return Counter((event["args"]["node_name"], event["args"]["op_name"], event["name"]) for event in work)


@with_profiler
def check_regions_show_their_steps() -> None:
    """A step is a node with the model's name, or with those of all nodes that it does; its costs are its own."""
    model = models.mixer()
    ours = {(node.name, node.op_type) for node in onnx.load_from_string(model).graph.node}
    joined = _work({"compiled_regions": "1", "fusion": "0"}, model, MIXED)
    shown = {(name, op) for name, op, _ in _named(joined)}
    assert shown <= ours and len(shown) > len(ours) / 2, (shown, ours)
    assert nodes_of(joined) == Counter({name: 3 for name, _ in shown})
    assert all(int(event["args"]["cost_bytes"]) > 0 for event in joined), joined
    assert {event["args"]["type"] for event in joined} == {"float"}
    assert any("cost_flops" in event["args"] for event in joined)
    fused = _work({"compiled_regions": "1"}, models.residual_network(), (2, 3, 16, 16))
    names = {event["args"]["node_name"] for event in fused}
    assert any(" of " in name and name.count(" node ") > 1 for name in names), names


@with_profiler
def check_products_of_few_rows_have_a_kernel_of_their_own() -> None:
    """Node by node too: where nobody else reads the weights, or these need not be packed."""
    size = 64
    weights = {
        name: (np.random.default_rng(i).standard_normal((size, size)) / 8).astype(np.float16)
        for i, name in enumerate(("own", "turned", "shared"))
    }
    half = [
        helper.make_node("MatMul", ["h0", "own"], ["h1"], name="own"),
        helper.make_node("Gemm", ["h1", "turned"], ["h2"], name="turned", transB=1),
        helper.make_node("Gemm", ["h2", "turned"], ["h3"], name="again", transB=1),
        helper.make_node("MatMul", ["h3", "shared"], ["h4"], name="one"),
        helper.make_node("Gemm", ["h4", "shared"], ["h5"], name="other"),
    ]
    ends = [
        helper.make_node("Cast", ["x"], ["h0"], name="in", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h5"], ["y"], name="out", to=TensorProto.FLOAT),
    ]
    shape: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", size])
    model = models.model([ends[0], *half, ends[1]], {"x": shape}, {"y": shape}, weights)
    named = _named(_work({"compiled_regions": "0"}, model, (3, size)))
    assert {node for node, _, kernel in named if "FewRows" in kernel} == {"own", "turned", "again"}, named


@with_graphs
def check_replays_have_the_names_of_steps() -> None:
    """Of regions that the host's graph has captured: every step as in Runs before."""
    work = _work({**GRAPHS, "compiled_regions": "1", "region_graphs": "0"}, models.mixer(), MIXED, replays=True)
    replayed = _named([event for event in work if "replayed" in event["args"]])
    before = _named([event for event in work if "replayed" not in event["args"]])
    assert len(replayed) > 3 and set(replayed) == set(before), (replayed, before)


@with_graphs
def check_replays_of_library_calls_are_named() -> None:
    """Convolutions and products, and nodes of several kernels."""
    with profiled(models.residual_network(), GRAPHS) as session:
        bound = Bound(session, {"x": rows(0, 2, 3, 16, 16)}, 1)
        bound.run()
        bound.run()
        bound.wait()
        events = end(session)
    replayed = [event for event in device_events(events) if "replayed" in event["args"]]
    ordinary = [event for event in device_events(events) if event not in replayed and "node_name" in event["args"]]
    kernels: list[set[tuple[str, str]]] = []
    for some in (replayed, ordinary):
        kernels.append({(event["args"].get("node_name", ""), event["name"]) for event in some})
    assert kernels[0] and kernels[0] <= kernels[1], kernels
    assert {name for name, _ in kernels[0]} == {name for name, _ in kernels[1]}, kernels


@with_profiler
def check_profiling_may_end_while_runs_go_on() -> None:
    """Nothing happens to them, and the next session's profile is its own."""
    for _ in range(5):
        with profiled(models.add_chain(30, constant=True)) as session:
            stop = threading.Event()
            wrong: list[np.ndarray] = []

            def work(session: ort.InferenceSession, stop: threading.Event, wrong: list[np.ndarray]) -> None:
                x = rows(1, 4)
                while not stop.is_set():
                    (y,) = session.run(None, {"v0": x})
                    if not np.allclose(y, x + 30, atol=1e-4):
                        wrong.append(y)

            threads = [threading.Thread(target=work, args=(session, stop, wrong)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(3):
                session.run(None, feed(session, 4))
            events = end(session)
            for _ in range(20):
                session.run(None, feed(session, 4))
            stop.set()
            for thread in threads:
                thread.join()
            assert not wrong
            of_device = device_events(events)
            assert of_device and all({"node_name", "event_name"} & set(event["args"]) for event in of_device)
        with profiled(models.add_chain(3, constant=True)) as session:
            session.run(None, feed(session, 4))
            assert nodes_of(end(session)) == Counter({f"add{i}": 1 for i in range(3)})


@with_profiler
def check_a_failed_run_leaves_the_rest() -> None:
    """Events that a failed Run did not end do not take the next one's work."""
    with profiled(models.add_chain(2)) as session:
        session.disable_fallback()
        good = {"v0": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
        for _ in range(3):
            session.run(None, good)
            try:
                session.run(None, {**good, "b": np.ones(2, np.float32)})
            except Exception as error:
                assert "[2]" in str(error)
            else:
                raise AssertionError("shapes that do not fit were taken")
        events = end(session)
    assert nodes_of(events) == Counter({"add0": 3, "add1": 3}), nodes_of(events)


def check_an_older_hosts_profile_is_as_it_was() -> None:
    """Without the hook there are no device events, and nothing is said of it but once at registration."""
    if HOST >= (1, 25):
        raise SkippedError("the host has the hook")
    with logged("GPU times") as lines, profiled(models.add_chain(2, constant=True)) as session:
        session.run(None, feed(session, 4))
        events = end(session)
    assert host_nodes(events) == Counter({"add0": 1, "add1": 1}) and not device_events(events), events
    assert not lines, lines


if __name__ == "__main__":
    run_checks(globals())
