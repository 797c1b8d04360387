"""Compiled regions on every supported host: what is joined, and that results are those of the nodes one by one.

    python -m tests.session.region_suite LIBRARY

Both sessions keep to the host's basic optimizations, since only single nodes get its fusions, and regions to the
model's nodes (`fusion=0`); then every bit is the same. What is fused is held to tolerances.
"""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.graph_support import GRAPHS, Bound
from tests.session.stream_support import HOST
from tests.session.suite import EP, SkippedError, error_of, run_checks, session

DEVICE = ort.capi._pybind_state.OrtDevice(1, 0, 0x10DE, 0)
APART = {"compiled_regions": "0"}
BASIC = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
FLOATS: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", "m"])
_RNG = np.random.default_rng(11)

Feed = dict[str, np.ndarray]


def _values(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape, dtype=np.float32)


def joined(model: bytes, options: dict[str, str] | None = None, cpu_allowed: bool = False) -> ort.InferenceSession:
    options = {"compiled_regions": "1", "fusion": "0", **(options or {})}
    return session(model, options, cpu_allowed, level=BASIC)


def agrees(model: bytes, feeds: list[Feed], options: dict[str, str] | None = None, cpu_allowed: bool = False) -> None:
    """The joined session gives, feed after feed, every bit of what the nodes give one by one."""
    apart = session(model, {**APART, **(options or {})}, cpu_allowed, level=BASIC)
    together = joined(model, options, cpu_allowed)
    for feed in [*feeds, *feeds]:
        for mine, other in zip(together.run(None, feed), apart.run(None, feed), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert regions_of(model, feeds[0], cpu_allowed)[0], "nothing was joined"


def ran(model: bytes, feed: Feed, cpu_allowed: bool = False) -> dict[str, list[str]]:
    """Operator types that the host ran, by provider; a region is one node of a type that starts with the provider's."""
    settings = ort.SessionOptions()
    settings.graph_optimization_level = BASIC
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        settings.profile_file_prefix = str(Path(folder) / "profile")
        if not cpu_allowed:
            settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        ours = [device for device in ort.get_ep_devices() if device.ep_name == EP][:1]
        settings.add_provider_for_devices(ours, {"compiled_regions": "1"})
        run = ort.InferenceSession(model, settings)
        run.run(None, feed)
        events = json.loads(Path(run.end_profiling()).read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            found.setdefault(event["args"]["provider"], []).append(event["args"]["op_name"])
    return found


def regions_of(model: bytes, feed: Feed, cpu_allowed: bool = False) -> tuple[int, list[str]]:
    """How many regions ran, and which other nodes of ours."""
    ours = ran(model, feed, cpu_allowed).get(EP, [])
    return sum(op.startswith(EP) for op in ours), [op for op in ours if not op.startswith(EP)]


def reshaped() -> bytes:
    """[n, m] -> [n * m / 2, 2] -> back, by shapes computed from dimensions."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Gather", ["s", "one"], ["columns"]),
        helper.make_node("Mul", ["rows", "columns"], ["all"]),
        helper.make_node("Div", ["all", "two"], ["half"]),
        helper.make_node("Unsqueeze", ["half", "axis"], ["half1"]),
        helper.make_node("Concat", ["half1", "pair"], ["shape"], axis=0),
        helper.make_node("Reshape", ["r", "shape"], ["pairs"]),
        helper.make_node("Softmax", ["pairs"], ["soft"], axis=1),
        helper.make_node("Reshape", ["soft", "s"], ["back"]),
        helper.make_node("Add", ["back", "x"], ["y"]),
    ]
    constants = {
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "axis": np.array([0]),
        "pair": np.array([2]),
    }
    return models.model(nodes, {"x": FLOATS}, {"y": FLOATS}, constants)


def networks() -> list[tuple[bytes, list[Feed]]]:
    """Whole networks, each with feeds of changing dimensions."""
    dense = models.dense_chain(4)
    (name,) = (value.name for value in session(dense).get_inputs())
    return [
        (models.residual_network(), [{"x": _values(n, 3, size, size)} for n, size in ((1, 16), (2, 24), (1, 8))]),
        (models.mixer(), [{"x": _values(n, 8, 32)} for n in (1, 3, 2)]),
        (dense, [{name: _values(n, 64)} for n in (3, 1)]),
    ]


def check_networks() -> None:
    """Whole networks are one region, at changing dimensions, and their results are the same."""
    for model, feeds in networks():
        agrees(model, feeds)
        assert regions_of(model, feeds[0]) == (1, [])


def check_fused_networks() -> None:
    """What regions rewrite gives the same to rounding, all of it and with each rewriting left out."""
    refusal = error_of(lambda: joined(models.add_chain(3), {"fusion_skip": "?"}))
    names = refusal.split("accepted: ")[1].split()[0].split(",")
    assert "conv_epilogue" in names, refusal
    for model, feeds in networks():
        alone = session(model, APART, level=BASIC)
        for options in ({"fusion": "1"}, *({"fusion": "1", "fusion_skip": name} for name in names)):
            together = joined(model, options)
            for feed in feeds:
                for mine, other in zip(together.run(None, feed), alone.run(None, feed), strict=True):
                    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


def check_empty_tensors() -> None:
    """Dimensions of 0 come and go."""
    feeds = [{"v0": _values(length), "b": _values(length)} for length in (3, 0, 1000, 0, 3)]
    agrees(models.add_chain(5), feeds)


def check_shapes_are_computed_inside() -> None:
    """Shape arithmetic whose result only the region reads is part of it: no node is on the CPU."""
    feeds: list[Feed] = [{"x": _values(n, m)} for n, m in ((4, 6), (1, 2), (0, 4), (7, 8))]
    agrees(reshaped(), feeds, cpu_allowed=True)
    assert list(ran(reshaped(), feeds[0])) == [EP]
    assert regions_of(reshaped(), feeds[0]) == (1, [])


def check_shapes_read_as_data() -> None:
    """What shape arithmetic comes to is read in host memory and on the device, as positions and lengths are."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["rows"]),
        helper.make_node("Add", ["rows", "one"], ["end"]),
        helper.make_node("Range", ["one", "end", "one"], ["positions"]),
        helper.make_node("Sub", ["end", "positions"], ["from_end"]),
        helper.make_node("Cast", ["from_end"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["sizes"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("ReduceProd", ["whole"], ["count"], keepdims=0),
        helper.make_node("Unsqueeze", ["weights", "one_list"], ["column"]),
        helper.make_node("Mul", ["x", "column"], ["weighted"]),
        helper.make_node("Div", ["weighted", "count"], ["y"]),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "one_list": np.array([1])}
    model = models.model(nodes, {"x": FLOATS}, {"y": FLOATS}, constants, opset=18)
    feeds: list[Feed] = [{"x": _values(n, m)} for n, m in ((4, 6), (1, 2), (0, 4), (7, 8), (4, 6), (300, 3))]
    agrees(model, feeds, cpu_allowed=True)
    assert regions_of(model, feeds[0]) == (1, [])
    # Under graphs of the region's own the same values come again.
    agrees(model, [feeds[0]] * 6, cpu_allowed=True)


def check_values_that_leave() -> None:
    """An output of the graph that is read inside, one that is a view of it, and one that nobody reads."""
    nodes = [
        helper.make_node("Relu", ["x"], ["inner"]),
        helper.make_node("Flatten", ["inner"], ["flat"], axis=0),
        helper.make_node("Add", ["inner", "x"], ["sum"]),
        helper.make_node("Mul", ["sum", "inner"], ["unread"]),
        helper.make_node("Abs", ["sum"], ["y"]),
    ]
    outputs: dict[str, tuple[int, list[str | int] | None]] = {
        "inner": FLOATS,
        "flat": (TensorProto.FLOAT, None),
        "y": FLOATS,
    }
    model = models.model(nodes, {"x": FLOATS}, outputs)
    agrees(model, [{"x": _values(3, 5)}, {"x": _values(1, 1)}])


def check_views_and_overwriting() -> None:
    """Views of inputs, of constants and of values read later are not overwritten."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["view"], axis=1),
        helper.make_node("Relu", ["view"], ["a"]),
        helper.make_node("Identity", ["c"], ["constant"]),
        helper.make_node("Add", ["constant", "a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["same"], axis=1),
        helper.make_node("Neg", ["same"], ["d"]),
        helper.make_node("Mul", ["d", "b"], ["e"]),
        helper.make_node("Add", ["e", "view"], ["f"]),
        helper.make_node("Sub", ["f", "f"], ["zero"]),
        helper.make_node("Add", ["zero", "f"], ["y"]),
    ]
    model = models.model(nodes, {"x": FLOATS}, {"y": FLOATS}, {"c": _values(1, 4)})
    agrees(model, [{"x": _values(3, 4)}, {"x": _values(1, 4)}])


def check_an_output_in_the_memory_of_an_input() -> None:
    """A state that each Run renews in place: nothing is written there before all is read."""
    nodes = [
        helper.make_node("Mul", ["s", "g"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Add", ["b", "g"], ["c"]),
        helper.make_node("Mul", ["c", "s"], ["d"]),
        helper.make_node("Sub", ["s", "d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["y"]),
    ]
    row: tuple[int, list[str | int]] = (TensorProto.FLOAT, [1, 5])
    model = models.model(nodes, {"s": row, "g": row}, {"y": row})
    _renews_in_place(model)


def check_another_output_in_the_memory_of_an_input() -> None:
    """The same of a value that leaves from the middle of a chain, which reads the input after it."""
    nodes = [
        helper.make_node("Tanh", ["g"], ["y"]),
        helper.make_node("Add", ["y", "s"], ["a"]),
        helper.make_node("Mul", ["a", "g"], ["z"]),
    ]
    row: tuple[int, list[str | int]] = (TensorProto.FLOAT, [1, 5])
    _renews_in_place(models.model(nodes, {"s": row, "g": row}, {"y": row, "z": row}), {"fusion": "1"})


def _renews_in_place(model: bytes, options: dict[str, str] | None = None) -> None:
    """Outputs of inputs s and g, of which y is in the memory of s."""
    start, gain = _values(1, 5), _values(1, 5)
    plain = session(model, APART, level=BASIC)
    names = [output.name for output in plain.get_outputs()]
    expected = plain.run(names, {"s": start, "g": gain})
    together = joined(model, options)
    state = ort.OrtValue.ortvalue_from_numpy(start, "gpu", 0, 0x10DE)
    binding = together.io_binding()
    binding.bind_ortvalue_input("s", state)
    binding.bind_cpu_input("g", gain)
    for name in names:
        if name == "y":
            binding.bind_ortvalue_output(name, state)
        else:
            binding._iobinding.bind_output(name, DEVICE)
    together.run_with_iobinding(binding)
    for result, value in zip(binding.get_outputs(), expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), value)


def check_one_buffer_read_twice() -> None:
    """What is overwritten while the same node reads it by another input, and outputs of one node, have own memory."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"], axis=1),
        helper.make_node("ArgMax", ["x"], ["i"], axis=0, keepdims=1),
        helper.make_node("Expand", ["i", "two"], ["indices"]),
        helper.make_node("ScatterElements", ["r", "indices", "f"], ["s"], axis=0),
        helper.make_node("Abs", ["s"], ["t"]),
        helper.make_node("TopK", ["t", "k"], ["values", "positions"], axis=1),
        helper.make_node("Cast", ["positions"], ["p"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["values", "p"], ["sum"]),
        helper.make_node("Neg", ["sum"], ["y"]),
    ]
    constants = {"two": np.array([2, 3]), "k": np.array([2])}
    square: tuple[int, list[str | int]] = (TensorProto.FLOAT, [2, 3])
    model = models.model(nodes, {"x": square}, {"y": (TensorProto.FLOAT, [2, 2])}, constants)
    agrees(model, [{"x": _values(2, 3)} for _ in range(4)])


def check_nodes_around() -> None:
    """A node that nobody joins splits the graph, whatever it is; claims still hold together."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("NonZero", ["b"], ["positions"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Cast", ["positions"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
        helper.make_node("Add", ["c", "sum"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    model = models.model(nodes, {"x": FLOATS}, {"y": FLOATS})
    feed = {"x": _values(3, 4)}
    agrees(model, [feed], cpu_allowed=True)
    count, others = regions_of(model, feed, cpu_allowed=True)
    assert count == 2 and "NonZero" in others, (count, others)


def random_graph(random: np.random.Generator) -> bytes:
    """Nodes on [n, m] floats: element-wise, views by computed shapes, joins, and some that no region takes."""
    nodes: list[onnx.NodeProto] = []
    floats, shapes = ["x"], ["xs"]
    nodes.append(helper.make_node("Shape", ["x"], ["xs"]))

    def add(op: str, inputs: list[str], outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"v{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def some(of: list[str]) -> str:
        return of[max(random.integers(len(of)), random.integers(len(of)))]

    for _ in range(random.integers(4, 30)):
        kind = random.integers(8)
        if kind == 0:
            shapes += add("Shape", [some(floats)])
        elif kind == 1:
            (flat,) = add("Reshape", [some(floats), "all"])
            floats += add("Reshape", [flat, some(shapes)])
        elif kind == 2:
            parts = add("Split", [*add("Concat", [some(floats), some(floats)], axis=0)], 2, axis=0)
            floats.append(some(parts))
        elif kind == 3:
            (sum_of,) = add("ReduceSum", add("Cast", add("NonZero", [some(floats)]), to=TensorProto.FLOAT), keepdims=0)
            floats += add("Add", [some(floats), sum_of])
        elif kind == 4:
            floats += add("Softmax", [some(floats)], axis=1)
        elif kind == 5:
            floats += add(str(random.choice(["Relu", "Neg", "Abs"])), [some(floats)])
        else:
            floats += add(str(random.choice(["Add", "Sub", "Mul"])), [some(floats), some(floats)])
    leaving = sorted({floats[-1], *(some(floats) for _ in range(random.integers(3)))} - {"x"})
    outputs: dict[str, tuple[int, list[str | int] | None]] = {name: FLOATS for name in leaving}
    return models.model(nodes, {"x": FLOATS}, outputs, {"all": np.array([-1])}, opset=13)


def check_random_graphs() -> None:
    """What is claimed together the host takes: it would drop every claim otherwise, and all go to the CPU."""
    random = np.random.default_rng(3)
    found = 0
    for _ in range(40):
        model, feed = random_graph(random), {"x": _values(2, 3)}
        try:
            agrees(model, [feed, {"x": _values(4, 3)}], cpu_allowed=True)
            by_provider = ran(model, feed, cpu_allowed=True)
            ours = sum(op.startswith(EP) for op in by_provider[EP])
        except Exception:
            Path(tempfile.gettempdir(), "region_graph.onnx").write_bytes(model)
            raise
        assert {*by_provider.get("CPUExecutionProvider", [])} <= {"Shape"}, by_provider
        found += ours
    assert found >= 40, found


def check_control_flow_reads_regions() -> None:
    """Values that graphs inside control flow read from around them are there, and those graphs run node by node."""
    branch = [helper.make_node(op, ["b"], [f"{op}_out"]) for op in ("Neg", "Abs")]
    graphs = [
        helper.make_graph(
            [helper.make_node("Add", ["b", "b"], [f"{node.op_type}_twice"]), node],
            f"{node.op_type}_graph",
            [],
            [helper.make_tensor_value_info(f"{node.op_type}_out", TensorProto.FLOAT, None)],
        )
        for node in branch
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Sub", ["a", "x"], ["b"]),
        helper.make_node("If", ["condition"], ["chosen"], then_branch=graphs[0], else_branch=graphs[1]),
        helper.make_node("Mul", ["chosen", "a"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["y"]),
    ]
    model = models.model(nodes, {"x": FLOATS, "condition": (TensorProto.BOOL, [])}, {"y": FLOATS})
    feeds = [{"x": _values(2, 3), "condition": np.array(value)} for value in (True, False)]
    agrees(model, feeds)
    assert regions_of(model, feeds[0])[0] == 2


def check_a_bad_shape_fails_the_run_only() -> None:
    """The error names the node inside the region and the region; the next Run works."""
    chain = joined(models.add_chain(3))
    text = error_of(lambda: chain.run(None, {"v0": _values(3), "b": _values(2)}))
    assert "Add node 'add0'" in text and "region of 3 nodes" in text and "[3]" in text, text
    (result,) = chain.run(None, {"v0": np.ones(3, np.float32), "b": np.ones(3, np.float32)})
    np.testing.assert_array_equal(result, np.full(3, 4, np.float32))


def check_precompiled_models_are_refused() -> None:
    """The host would ask for nodes that hold a compiled region."""
    options = {"compiled_regions": "1"}
    text = error_of(lambda: session(models.mixer(), options, entries={"ep.context_enable": "1"}))
    assert "compiled_regions='1'" in text and "ep.context_enable" in text, text


def check_weights_that_are_packed() -> None:
    """Operators that pack their weights have them packed once, also where another node reads the same one."""
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 255, (32, 2, 16), dtype=np.uint8)
    scales = rng.uniform(0.5, 1, (32, 2)).astype(np.float32)
    product = helper.make_node(
        "MatMulNBits", ["r", "q", "s"], ["p"], domain="com.microsoft", K=64, N=32, bits=4, block_size=32
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        product,
        helper.make_node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
        helper.make_node("Add", ["p", "sum"], ["y"]),
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", 64])
    model = models.model(nodes, {"x": rows}, {"y": FLOATS}, {"q": packed, "s": scales}, opset=17)
    agrees(model, [{"x": _values(n, 64)} for n in (1, 5)])


def check_weights_of_two_regions() -> None:
    """A weight of 4 MiB that two regions read is on the device once: there is no room for it twice."""
    size = 1024
    weight = _values(size, size) / 32

    def product(x: str, y: str) -> list[onnx.NodeProto]:
        return [helper.make_node("MatMul", [x, "w"], [f"{y}_p"]), helper.make_node("Relu", [f"{y}_p"], [y])]

    nodes = [
        *product("x", "a"),
        helper.make_node("NonZero", ["a"], ["positions"]),
        helper.make_node("Cast", ["positions"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
        helper.make_node("Add", ["a", "sum"], ["b"]),
        *product("b", "y"),
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", size])
    model = models.model(nodes, {"x": rows}, {"y": rows}, {"w": weight})
    assert regions_of(model, {"x": _values(2, size)}, cpu_allowed=True)[0] == 2
    together = joined(model, {"gpu_mem_limit": str(7 << 20)}, cpu_allowed=True)
    alone = session(model, APART, cpu_allowed=True, level=BASIC)
    for rows_of_feed in (1, 2):
        feed = {"x": _values(rows_of_feed, size)}
        np.testing.assert_array_equal(together.run(None, feed)[0], alone.run(None, feed)[0])


def check_concurrent_runs() -> None:
    """Threads with dimensions of their own get what serial Runs get."""
    network = joined(models.mixer())
    feeds = [{"x": _values(n, 8, 32)} for n in (1, 2, 3, 4)]
    expected = [network.run(None, feed)[0] for feed in feeds]
    wrong: list[int] = []

    def work(i: int) -> None:
        for turn in range(10):
            at = (i + turn) % len(feeds)
            if not np.array_equal(network.run(None, feeds[at])[0], expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def _bound(options: dict[str, str], model: bytes, feed: Feed) -> Bound:
    return Bound(joined(model, options), feed)


def check_graphs_of_regions() -> None:
    """With CUDA graphs and without, the bits are the same: numpy feeds, bound values, several of them in turn."""
    shapes = {n: _values(n, 8, 32) for n in (1, 4, 2)}
    on, off = joined(models.mixer()), joined(models.mixer(), {"region_graphs": "0"})
    several = [(Bound(on, {"x": x}), Bound(off, {"x": x}), x.shape) for x in shapes.values() for _ in range(2)]
    for _ in range(5):
        for with_graphs, without, shape in several:
            feed = {"x": _values(*shape)}
            (expected,) = without(feed)
            np.testing.assert_array_equal(with_graphs(feed)[0], expected)
            np.testing.assert_array_equal(on.run(None, feed)[0], expected)
    network = models.residual_network()
    image = {"x": _values(2, 3, 16, 16)}
    with_graphs, without = (_bound({"region_graphs": value}, network, image) for value in ("1", "0"))
    for _ in range(5):
        feed = {"x": _values(2, 3, 16, 16)}
        np.testing.assert_array_equal(with_graphs(feed)[0], without(feed)[0])


def check_graphs_of_regions_inside_those_of_the_host() -> None:
    """A captured Run holds the region's steps, and Runs beside it replay the region's own graphs."""
    if HOST < (1, 26):
        raise SkippedError("the host captures no graphs")
    feed = {"x": _values(2, 8, 32)}
    with_graphs, without = (_bound({**GRAPHS, "region_graphs": value}, models.mixer(), feed) for value in ("1", "0"))
    for _ in range(5):
        feed = {"x": _values(2, 8, 32)}
        (expected,) = without(feed)
        np.testing.assert_array_equal(with_graphs(feed)[0], expected)
        np.testing.assert_array_equal(with_graphs.eager(feed)[0], expected)


def check_graphs_of_regions_on_threads() -> None:
    """Threads with values bound once and replaced in place."""
    network = joined(models.mixer())
    feeds = [{"x": _values(n, 8, 32)} for n in (1, 2, 3, 4)]
    expected = [network.run(None, feed)[0] for feed in feeds]
    wrong: list[int] = []

    def work(i: int) -> None:
        bound = [Bound(network, feed) for feed in feeds]
        for turn in range(12):
            at = (i + turn // 3) % len(feeds)
            if not np.array_equal(bound[at](feeds[at])[0], expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_values_outlive_their_session() -> None:
    """An output of a region is there after its session, on every host."""
    network = joined(models.mixer())
    feed = {"x": _values(2, 8, 32)}
    (expected,) = network.run(None, feed)
    binding = network.io_binding()
    binding.bind_cpu_input("x", feed["x"])
    binding._iobinding.bind_output("y", DEVICE)
    network.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    del binding, network
    np.testing.assert_array_equal(value.numpy(), expected)


if __name__ == "__main__":
    run_checks(globals())
