"""What cannot be a CUDA graph, on every supported host: a status by name, and the session works on.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.graph_refusal_suite PROBE

PROBE is the test build of the plug-in; graph_support.py says what the checks have in common.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.graph_support import (
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
from tests.session.stream_support import HOST, double_chain, probe, through_the_cpu
from tests.session.suite import SkippedError, error_of, run_checks, session, simulated


def check_older_hosts_refuse_the_option() -> None:
    """By name, with the version that it needs; sessions without it go on."""
    if HOST >= (1, 26):
        raise SkippedError("the host captures graphs")
    text = error_of(lambda: session(models.add_chain(1), GRAPHS))
    assert "enable_cuda_graph" in text and "1.26" in text, text
    session(models.add_chain(1), {"enable_cuda_graph": "0"})


@with_graphs
def check_too_many_graphs_are_refused() -> None:
    """The option bounds them; those that are there go on."""
    created = session(double_chain(), {**GRAPHS, "cuda_graph_max_count": "2"})
    bounds = [Bound(created, {"v0": rows(0, 4)}, graph) for graph in range(3)]
    agrees(bounds[0], "v0", 4)
    agrees(bounds[1], "v0", 4)
    text = error_of(bounds[2].run)
    assert "gpu_graph_id=2" in text and "cuda_graph_max_count" in text, text
    agrees(bounds[1], "v0", 4)


def branches(name: str) -> onnx.NodeProto:
    def branch(kind: str) -> onnx.GraphProto:
        graph_output = helper.make_tensor_value_info(f"{kind}_y", FLOATS, None)
        return helper.make_graph([helper.make_node(kind, ["x"], [f"{kind}_y"])], kind, [], [graph_output])

    return helper.make_node("If", ["go"], ["y"], name=name, then_branch=branch("Neg"), else_branch=branch("Abs"))


def refused_models() -> dict[str, tuple[bytes, str]]:
    """Models that cannot be captured as they are placed, and what the error must name."""
    vector = (FLOATS, ["n"])
    reshape = [node("Mul", ["x", "x"], "square"), node("Reshape", ["square", "shape"], "y")]
    return {
        "copy": (through_the_cpu(), "Scaler node 'on_the_cpu'"),
        "control flow": (
            models.model([branches("choose")], {"x": vector, "go": (TensorProto.BOOL, [])}, {"y": vector}),
            "If node 'choose'",
        ),
        "host input": (
            models.model(reshape, {"x": vector, "shape": (TensorProto.INT64, [2])}, {"y": (FLOATS, None)}),
            "Reshape node 'y' reads the graph's input 'shape' in host memory",
        ),
    }


@with_graphs
def check_models_that_cannot_be_captured_are_refused() -> None:
    """At session creation, naming the node; they run without the option."""
    for case, (model, named) in refused_models().items():
        text = error_of(lambda model=model: session(model, GRAPHS, cpu_allowed=True))
        assert named in text and "enable_cuda_graph" in text, f"{case}: {text}"
        session(model, cpu_allowed=True)


@with_graphs
def check_operators_that_cannot_be_captured_are_refused() -> None:
    """By the Run, naming the node; the session works without a graph, and refuses again."""
    vector = (FLOATS, [6])
    counted = [node("Relu", ["x"], "positive"), node("NonZero", ["positive"], "y")]
    drawn = [node("RandomNormalLike", ["x"], "noise", seed=1.0), node("Add", ["x", "noise"], "y")]
    for nodes, outputs, named in (
        (counted, {"y": (TensorProto.INT64, None)}, "NonZero node 'y'"),
        (drawn, {"y": vector}, "RandomNormalLike node 'noise'"),
    ):
        created = session(models.model(nodes, {"x": vector}, outputs), GRAPHS)
        bound = Bound(created, {"x": rows(0, 6)}, 3)
        for _ in range(2):
            text = error_of(bound.run)
            assert named in text and "gpu_graph_id=-1" in text, text
            assert len(bound.eager({"x": rows(1, 6)})) == 1


@with_graphs
def check_values_in_host_memory_are_refused() -> None:
    """An input that the host would copy, and an output; both name what to do."""
    created = session(double_chain(), GRAPHS)
    x = rows(0, 5)
    text = error_of(lambda: created.run(None, {"v0": x}))
    assert "input" in text and "IO binding" in text, text
    binding = created.io_binding()
    binding.bind_ortvalue_input("v0", on_device(x))
    binding.bind_output("v4")
    text = error_of(lambda: created.run_with_iobinding(binding, run_options(2)))
    assert "output" in text and "IO binding" in text, text
    np.testing.assert_array_equal(created.run(None, {"v0": x}, run_options(-1))[0], 16 * x)
    agrees(Bound(created, {"v0": x}), "v0", 5)


@with_graphs
def check_a_run_that_fails_makes_no_graph() -> None:
    """Wrong shapes under a new id are the node's error; the id may be used afterwards."""
    created = session(models.add_chain(2), GRAPHS)
    feeds = {"v0": rows(0, 3), "b": rows(1, 3)}
    bound = Bound(created, feeds, 4)
    wrong = created.io_binding()
    wrong.bind_ortvalue_input("v0", on_device(rows(0, 3)))
    wrong.bind_ortvalue_input("b", on_device(rows(0, 2)))
    wrong.bind_ortvalue_output("v2", on_device(rows(0, 3)))
    for _ in range(3):
        text = error_of(lambda: created.run_with_iobinding(wrong, run_options(4)))
        assert "Add node 'add0'" in text and "[3]" in text, text
    np.testing.assert_array_equal(bound(feeds)[0], bound.eager(feeds)[0])
    np.testing.assert_array_equal(bound(feeds)[0], bound.eager(feeds)[0])


@with_graphs
def check_a_failing_node_on_the_cpu_makes_no_graph() -> None:
    """Nothing of ours failed, and yet the Run did: its id has no graph, and every Run says so."""
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Mul", ["x", "x"], "square"),
        node("Gather", ["shape", "where"], "length"),  # of a dimension that a vector does not have
        node("Unsqueeze", ["length", "axis"], "dims"),
        node("Reshape", ["square", "dims"], "y"),
    ]
    constants = {"where": np.array(1, np.int64), "axis": np.array([0], np.int64)}
    rank_unknown = models.model(nodes, {"x": (FLOATS, None)}, {"y": (FLOATS, None)}, constants)
    created = session(rank_unknown, GRAPHS, cpu_allowed=True)
    x, y = on_device(rows(0, 6)), on_device(rows(0, 6))
    for _ in range(4):
        binding = created.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        assert "Gather" in error_of(lambda binding=binding: created.run_with_iobinding(binding, run_options(0)))


@with_graphs
def check_parallel_execution_is_refused() -> None:
    """Nodes on threads of the host's are no part of a capture; ordinary Runs go on."""
    created = session(double_chain(), GRAPHS, parallel=True)
    x = rows(0, 4)
    bound = Bound(created, {"v0": x})
    try:
        found = bound({"v0": x})
    except Exception as error:
        assert "parallel execution" in str(error), error
    else:
        np.testing.assert_array_equal(found[0], 16 * x)
    np.testing.assert_array_equal(bound.eager({"v0": x})[0], 16 * x)


@with_graphs
def check_a_callers_capture_and_the_hosts_exclude_each_other() -> None:
    """Both at once are refused, before and after the provider's; the caller's own goes on, with ordinary Runs in it."""
    lane = OnStream()
    lane.produce(0)
    lane.run(-1)  # plans and memory
    for captured in (False, True):
        probe().begin_capture(lane.stream)
        text = error_of(lambda: lane.run(5))
        assert "captured by the application" in text and "gpu_graph_id=-1" in text, text
        lane.run(-1)
        graph = probe().end_capture(lane.stream)
        lane.produce(3)
        probe().launch(graph, lane.stream)
        lane.has(48)
        probe().destroy_graph(graph)
        if not captured:
            lane.produce(2)
            lane.run(5)
            lane.has(32)
    lane.produce(1)
    lane.run(5)
    lane.has(16)
    lane.close()


@with_graphs
def check_streams_and_memory_that_cannot_be_captured_are_refused() -> None:
    """By name, at session creation."""
    for options, named in (
        ({"user_compute_stream": "0", "has_user_compute_stream": "1"}, "legacy default stream"),
        ({"user_compute_stream": "1"}, "legacy default stream"),
        ({"arena.use_cuda_mempool": "1"}, "arena"),
        ({"arena.enable": "0"}, "arena"),
    ):
        text = error_of(lambda options=options: session(double_chain(), {**GRAPHS, **options}))
        assert "enable_cuda_graph" in text and named in text, text


@with_graphs
def check_bad_ids_are_refused() -> None:
    """By the Run; any integer is an id."""
    created = session(double_chain(), GRAPHS)
    agrees(Bound(created, {"v0": rows(0, 5)}, -7), "v0", 5)
    agrees(Bound(created, {"v0": rows(0, 5)}, 2**31 - 1), "v0", 5)
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "first")
    assert "first" in error_of(lambda: created.run(None, {"v0": rows(0, 5)}, options))


@with_graphs
def check_a_memory_limit_holds() -> None:
    """Graphs are charged: one that does not fit is an error of its Run, and the session goes on."""
    libraries = 0 if simulated() else 64  # MiB, that NVIDIA's may take
    created = session(models.product_chain(2), {**GRAPHS, "gpu_mem_limit": str(24 + libraries << 20)})
    x = rows(0, 2000, 256)
    expected = session(models.product_chain(2)).run(None, {"v0": x})
    bounds: list[Bound] = []
    text = ""
    while not text and len(bounds) < 20 + libraries:
        bounds.append(Bound(created, {"v0": x}, len(bounds), outputs=expected))
        try:
            np.testing.assert_array_equal(bounds[-1]({"v0": x})[0], expected[0])
        except Exception as error:
            text = str(error)
    assert len(bounds) > 2 and "OUT_OF_MEMORY" in text and "graphs" in text, text
    np.testing.assert_array_equal(bounds[0]({"v0": x})[0], expected[0])
    if simulated():  # elsewhere libraries may have left no room for another Run's tensors
        created.run(None, {"v0": rows(0, 4, 256)}, run_options(-1))


if __name__ == "__main__":
    run_checks(globals())
