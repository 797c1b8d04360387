"""Compiled regions on every supported host: what is joined, and that results are those of the nodes one by one.

    python -m tests.session.region_suite LIBRARY

What is fused is held to tolerances.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.session import models
from tests.session.region_support import APART, BASIC, FLOATS, Feed, agrees, joined, ran, regions_of, values
from tests.session.suite import EP, error_of, on_one_host, run_checks, session


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
        (models.residual_network(), [{"x": values(n, 3, size, size)} for n, size in ((1, 16), (2, 24), (1, 8))]),
        (models.mixer(), [{"x": values(n, 8, 32)} for n in (1, 3, 2)]),
        (dense, [{name: values(n, 64)} for n in (3, 1)]),
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
    feeds = [{"v0": values(length), "b": values(length)} for length in (3, 0, 1000, 0, 3)]
    agrees(models.add_chain(5), feeds)


def check_shapes_are_computed_inside() -> None:
    """Shape arithmetic whose result only the region reads is part of it: no node is on the CPU."""
    feeds: list[Feed] = [{"x": values(n, m)} for n, m in ((4, 6), (1, 2), (0, 4), (7, 8))]
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
    feeds: list[Feed] = [{"x": values(n, m)} for n, m in ((4, 6), (1, 2), (0, 4), (7, 8), (4, 6), (300, 3))]
    agrees(model, feeds, cpu_allowed=True)
    assert regions_of(model, feeds[0]) == (1, [])
    # Under graphs of the region's own the same values come again.
    agrees(model, [feeds[0]] * 6, cpu_allowed=True)


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
    feed = {"x": values(3, 4)}
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


@on_one_host
def check_random_graphs() -> None:
    """What is claimed together the host takes: it would drop every claim otherwise, and all go to the CPU."""
    random = np.random.default_rng(3)
    found = 0
    for _ in range(25):
        model, feed = random_graph(random), {"x": values(2, 3)}
        try:
            agrees(model, [feed, {"x": values(4, 3)}], cpu_allowed=True)
            by_provider = ran(model, feed, cpu_allowed=True)
            ours = sum(op.startswith(EP) for op in by_provider[EP])
        except Exception:
            Path(tempfile.gettempdir(), "region_graph.onnx").write_bytes(model)
            raise
        assert {*by_provider.get("CPUExecutionProvider", [])} <= {"Shape"}, by_provider
        found += ours
    assert found >= 25, found


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
    feeds = [{"x": values(2, 3), "condition": np.array(value)} for value in (True, False)]
    agrees(model, feeds)
    assert regions_of(model, feeds[0])[0] == 2


def check_a_bad_shape_fails_the_run_only() -> None:
    """The error names the node inside the region and the region; the next Run works."""
    chain = joined(models.add_chain(3))
    text = error_of(lambda: chain.run(None, {"v0": values(3), "b": values(2)}))
    assert "Add node 'add0'" in text and "region of 3 nodes" in text and "[3]" in text, text
    (result,) = chain.run(None, {"v0": np.ones(3, np.float32), "b": np.ones(3, np.float32)})
    np.testing.assert_array_equal(result, np.full(3, 4, np.float32))


def check_what_the_host_asks_of_single_nodes_is_refused() -> None:
    """It would ask for nodes that hold a compiled region, or place nodes on streams by names that a region has not."""
    options = {"compiled_regions": "1"}
    for entry, value in (("ep.context_enable", "1"), ("session.node_partition_config_file", "streams.json")):
        text = error_of(lambda entry=entry, value=value: session(models.mixer(), options, entries={entry: value}))
        assert "compiled_regions='1'" in text and entry in text, text


if __name__ == "__main__":
    run_checks(globals())
