"""CUDA graphs through the host, on every supported host: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.graph_suite PROBE

PROBE is the test build of the plug-in; graph_support.py says what the checks have in common.
"""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnxruntime as ort

from tests.session import models
from tests.session.graph_support import (
    DEVICE,
    FLOATS,
    GRAPHS,
    Bound,
    OnStream,
    agrees,
    node,
    on_device,
    rows,
    run_options,
    with_graphs,
)
from tests.session.stream_support import HOST, double_chain, in_threads, probe
from tests.session.suite import SkippedError, error_of, run_checks, session


@with_graphs
def check_a_replay_is_one_launch_and_one_wait() -> None:
    """No launch of a kernel, no allocation and no other wait; bit-equal to ordinary Runs."""
    bound = Bound(session(models.mixer(), GRAPHS), {"x": rows(0, 2, 8, 32)})
    agrees(bound, "x", 2, 8, 32)
    before = probe().counters()
    for _ in range(10):
        bound.run()
    spent = probe().counters() - before
    assert not spent.driver_calls(), spent.values
    waits = spent.waits()
    assert waits.pop("device_syncs", 0) <= 10, waits  # the binding's, on some hosts
    assert waits == {"stream_syncs": 10}, waits
    assert spent["event_records"] == spent["event_waits"] == 0, spent.values


@with_graphs
def check_any_number_of_warm_up_runs() -> None:
    """One to seven, all within one call of the application's; other numbers are refused."""
    for number in (1, 2, 7):
        created = session(double_chain(), {**GRAPHS, "min_num_runs_before_cuda_graph_capture": str(number)})
        agrees(Bound(created, {"v0": rows(0, 9)}), "v0", 9)
    for number in (0, 8):
        options = {**GRAPHS, "min_num_runs_before_cuda_graph_capture": str(number)}
        text = error_of(lambda options=options: session(double_chain(), options))
        assert f"min_num_runs_before_cuda_graph_capture='{number}'" in text, text


@with_graphs
def check_convolutions_are_captured() -> None:
    """A residual network."""
    bound = Bound(session(models.residual_network(), GRAPHS), {"x": rows(0, 2, 3, 16, 16)})
    agrees(bound, "x", 2, 3, 16, 16)


@with_graphs
def check_nodes_on_the_cpu_may_compute_shapes() -> None:
    """From what a Shape of ours says, for a Reshape of ours; each id has its own."""
    nodes = [
        node("Relu", ["x"], "positive"),
        node("Shape", ["positive"], "shape"),
        node("Gather", ["shape", "first"], "rows"),
        node("Concat", ["rows", "rest"], "flat", axis=0),
        node("Reshape", ["positive", "flat"], "matrix"),
        node("Softmax", ["matrix"], "y", axis=-1),
    ]
    constants = {"first": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    model = models.model(nodes, {"x": (FLOATS, ["n", "h", 4])}, {"y": (FLOATS, ["n", "m"])}, constants)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "placement.json"
        options = {**GRAPHS, "placement_report": str(path), "compiled_regions": "0"}  # which would evaluate them
        created = session(model, options, cpu_allowed=True)
        (graph_report,) = json.loads(path.read_text())["graphs"]
    assert [n["op_type"] for n in graph_report["nodes"] if n["placement"] == "shape"] == ["Gather", "Concat"]
    for graph, shape in enumerate(((2, 3, 4), (5, 1, 4))):
        agrees(Bound(created, {"x": rows(0, *shape)}, graph), "x", *shape)


@with_graphs
def check_compiled_regions_are_captured() -> None:
    """A network that is one region, and one that is a region beside single nodes."""
    options = {**GRAPHS, "compiled_regions": "1"}
    agrees(Bound(session(models.mixer(), options), {"x": rows(0, 2, 8, 32)}), "x", 2, 8, 32)
    image = {"x": rows(0, 2, 3, 16, 16)}
    agrees(Bound(session(models.residual_network(), options), image), "x", 2, 3, 16, 16)


@with_graphs
def check_each_id_has_its_shapes() -> None:
    """Several graphs of one session, captured and replayed in any order; -1 takes any shape at any time."""
    created = session(models.mixer(), GRAPHS)
    bounds = {graph: Bound(created, {"x": rows(0, graph + 1, 8, 32)}, graph) for graph in range(5)}
    for graph in (3, 0, 4, 1, 2, 0, 3, 4):
        agrees(bounds[graph], "x", graph + 1, 8, 32, runs=2)
        created.run(None, {"x": rows(7, 11, 8, 32)}, run_options(-1))


@with_graphs
def check_memory_of_a_graph_is_nobody_elses() -> None:
    """What a graph computes with is handed to no other Run, whatever they ask for, and survives a shrink."""
    created = session(models.mixer(3), GRAPHS)
    bound = Bound(created, {"x": rows(0, 3, 8, 32)}, 1)
    agrees(bound, "x", 3, 8, 32)
    for shape in ((1, 8, 32), (40, 8, 32), (3, 8, 32), (300, 8, 32)):
        other = session(models.mixer(3))
        shrinking = ort.RunOptions()
        shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "gpu:0")
        other.run(None, {"x": rows(1, *shape)})
        created.run(None, {"x": rows(2, *shape)}, run_options(-1))
        agrees(bound, "x", 3, 8, 32, runs=2)
        del other
        session(models.product_chain(2)).run(None, {"v0": rows(3, 70, 256)}, shrinking)
        agrees(bound, "x", 3, 8, 32, runs=2)


@with_graphs
def check_a_released_graph_gives_its_memory_back() -> None:
    """Its id may be captured anew, also with other shapes; the others stay."""
    limit = str(24 << 20)
    created = session(models.product_chain(2), {**GRAPHS, "gpu_mem_limit": limit, "cuda_graph_max_count": "2"})
    if not hasattr(created, "release_captured_graph"):
        raise SkippedError("this host's Python cannot release graphs")
    kept = Bound(created, {"v0": rows(0, 3, 256)}, 7)
    agrees(kept, "v0", 3, 256)
    for i in range(16):  # each takes some 2 MiB
        bound = Bound(created, {"v0": rows(0, 2000 - i, 256)}, 8)
        agrees(bound, "v0", 2000 - i, 256, runs=2)
        created.release_captured_graph(8)
        created.release_captured_graph(8)  # nothing is there
        agrees(kept, "v0", 3, 256, runs=1)


@with_graphs
def check_threads_with_an_id_each() -> None:
    """Eight threads capture and replay beside each other."""
    created = session(models.mixer(), GRAPHS)

    def work(graph: int) -> None:
        agrees(Bound(created, {"x": rows(0, graph + 1, 8, 32)}, graph), "x", graph + 1, 8, 32, runs=6)

    in_threads(8, work)


@with_graphs
def check_threads_with_one_id() -> None:
    """They take turns: one captures, and all replay what it has bound."""
    created = session(models.mixer(), GRAPHS)
    bound = Bound(created, {"x": rows(0, 2, 8, 32)}, 5)
    x = rows(1, 2, 8, 32)
    start = threading.Barrier(8)
    bound._inputs["x"].update_inplace(x)

    def work(_: int) -> None:
        start.wait()
        for _ in range(5):
            bound.run()

    in_threads(8, work)
    np.testing.assert_array_equal(bound._outputs[0].numpy(), bound.eager({"x": x})[0])
    agrees(bound, "x", 2, 8, 32)


@with_graphs
def check_sessions_beside_each_other() -> None:
    """Two sessions and four threads: captures, replays and ordinary Runs at once."""
    created = [session(models.mixer(), GRAPHS), session(models.mixer(), GRAPHS)]

    def work(thread: int) -> None:
        bound = Bound(created[thread % 2], {"x": rows(0, thread + 1, 8, 32)}, thread)
        for _ in range(3):
            agrees(bound, "x", thread + 1, 8, 32, runs=2)
            session(models.mixer(1)).run(None, {"x": rows(thread, 5, 8, 32)})

    in_threads(4, work)


@with_graphs
def check_outputs_that_the_host_allocates_are_captured() -> None:
    """Memory of an output that nobody bound belongs to the graph, and to the value as long as it lives."""
    created = session(double_chain(), GRAPHS)
    x = on_device(rows(0, 7))
    binding = created.io_binding()
    binding.bind_ortvalue_input("v0", x)
    binding.bind_output("v4", "gpu", 0) if HOST < (1, 27) else binding._iobinding.bind_output("v4", DEVICE)
    for seed in range(4):
        x.update_inplace(rows(seed, 7))
        created.run_with_iobinding(binding, run_options(1))
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), 16 * rows(seed, 7))


@with_graphs
def check_a_callers_stream_orders_replays() -> None:
    """Warm-up, capture and replays run after what the stream has, without anybody waiting."""
    lane = OnStream()
    for value in range(5):
        lane.produce(value)
        before = probe().counters()
        lane.run(0)
        spent = probe().counters() - before
        assert value == 0 or not spent.waits(), spent.waits()
        lane.has(16 * value)
    lane.close()


@with_graphs
def check_other_orders_of_streams() -> None:
    """The unified stream, and order with the legacy default stream."""
    for options in ({"use_ep_level_unified_stream": "1"}, {"order_with_legacy_stream": "1"}):
        created = session(models.mixer(), {**GRAPHS, **options})
        agrees(Bound(created, {"x": rows(0, 2, 8, 32)}), "x", 2, 8, 32)
        agrees(Bound(created, {"x": rows(0, 3, 8, 32)}, 1, wait=False), "x", 3, 8, 32)


@with_graphs
def check_replays_need_not_be_waited_for() -> None:
    """A graph replays as the Run did that was captured; the binding waits for its outputs."""
    bound = Bound(session(double_chain(), GRAPHS), {"v0": rows(0, 5)}, 1, wait=False)
    agrees(bound, "v0", 5)
    before = probe().counters()
    for _ in range(5):
        bound.run()
    assert not (probe().counters() - before).waits()
    bound.wait()


if __name__ == "__main__":
    run_checks(globals())
