"""Memory budgets of nodes that the host turns channels-last (`prefer_nhwc=1`), on every supported host.

python -m tests.session.budget_layout_suite LIBRARY
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.budget_support import FLOAT, HOSTS_ACCOUNT, OTHER_EP, limit, opened, recording, room_for, saved
from tests.session.suite import run_checks


def two_headed() -> bytes:
    """A convolution and two more that read it, each of which ends in an output of the model."""
    rng = np.random.default_rng(4)
    names = {"stem": ("x", "v"), "left": ("v", "y0"), "right": ("v", "y1")}
    constants = {f"w_{name}": rng.standard_normal((16, 16, 3, 3), dtype=np.float32) / 12 for name in names}
    nodes = [
        helper.make_node("Conv", [source, f"w_{name}"], [result], name=name, pads=[1, 1, 1, 1])
        for name, (source, result) in names.items()
    ]
    image: tuple[int, Sequence[int | str]] = (FLOAT, [1, 16, 48, 48])
    return models.model(nodes, {"x": image}, {"y0": image, "y1": image}, constants)


def check_a_graph_of_several_outputs_is_one_graph_in_every_layout() -> None:
    """The host reorders the nodes that it turns. Both answers are about one graph, and costs count once."""
    x = np.random.default_rng(5).standard_normal((1, 16, 48, 48), dtype=np.float32)
    options = {"prefer_nhwc": "1"}
    with saved(two_headed()) as path:
        plain = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        wanted = plain.run(None, {"x": x})
        full = opened(path, limit(1 << 30), OTHER_EP, options)
        assert all(node["placement"] == "provider" for node in full.nodes), full.nodes
        assert sum(node["domain"] == "com.ms.internal.nhwc" for node in full.nodes) == 3, full.nodes
        most = full.budget["stated_bytes"] // 1024 + 1
        before = 0
        for kilobytes in (*range(0, most, most // 16), most, most + most // 2, 3 * most):
            found = opened(path, limit(kilobytes), OTHER_EP, options)
            assert len(found.graphs) == 1, found.graphs
            assert found.budget["nodes"] == len(found.claimed), (kilobytes, found.budget, found.nodes)
            assert sum(found.costs()) == found.budget["stated_bytes"] <= kilobytes * 1024, (kilobytes, found.budget)
            convolutions = sum(node["op_type"] == "Conv" for node in found.claimed)
            assert before <= convolutions, (kilobytes, found.nodes)
            before = convolutions
            refused = [node["op_type"] for node in found.nodes if node["placement"] != "provider"]
            assert "Transpose" not in refused, (kilobytes, found.nodes)
            for actual, expected in zip(found.session.run(None, {"x": x}), wanted, strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
        assert before == 3, found.nodes


def check_recorded_costs_hold_in_the_other_layout() -> None:
    """The host renames what it turns, and its figure for a node knows of no transposes around it."""
    x = np.zeros((1, 16, 48, 48), np.float32)
    with saved(two_headed()) as path:
        recorder = recording(path)
        recorder.session.run(None, {"x": x})
        del recorder
        options = {"prefer_nhwc": "1"}
        for kilobytes in (0, *range(200, 2200, 100), 1 << 20):
            found = opened(path, f"{kilobytes},stats.csv", OTHER_EP, options)
            assert sum(found.costs()) == found.budget["stated_bytes"] <= kilobytes * 1024, (kilobytes, found.nodes)
            refused = [node["op_type"] for node in found.nodes if node["placement"] != "provider"]
            assert "Transpose" not in refused, (kilobytes, found.nodes)
            assert all(node["cost"]["recorded"] for node in found.claimed if node["op_type"] == "Conv"), found.nodes
        assert len(found.claimed) == 6, found.nodes


def check_nodes_that_stay_channels_first_cost_what_they_cost_so() -> None:
    """A type that the host knows no channels-last form of, and nodes that it left as they were."""
    image: tuple[int, Sequence[int | str]] = (FLOAT, [1, 16, 24, 24])
    weights = np.ones((16, 16, 3, 3), np.float32)

    def convolution(source: str, weight: str, result: str) -> onnx.NodeProto:
        return helper.make_node("Conv", [source, weight], [result], name=f"conv_{result}", pads=[1, 1, 1, 1])

    def to(code: int, source: str, result: str) -> onnx.NodeProto:
        return helper.make_node("Cast", [source], [result], name=f"cast_{result}", to=code)

    narrow = [
        to(TensorProto.BFLOAT16, "x", "n"),
        to(TensorProto.BFLOAT16, "w", "nw"),
        convolution("n", "nw", "c"),
        to(FLOAT, "c", "y"),
    ]
    pool = helper.make_node("MaxPool", ["y"], ["p"], name="pool", kernel_shape=[2, 2])
    shapeless = [convolution("s", "w", "y"), convolution("x", "w", "p")]  # older hosts turn the second alone
    cases = {
        "narrow": models.model(narrow, {"x": image}, {"y": image}, {"w": weights}, opset=22),
        "beside": models.model([*narrow, pool], {"x": image}, {"p": (FLOAT, None)}, {"w": weights}, opset=22),
        "shapeless": models.model(
            shapeless, {"x": image, "s": (FLOAT, None)}, {"y": (FLOAT, None), "p": image}, {"w": weights}
        ),
    }
    for kind, model in cases.items():
        with saved(model) as path:
            wanted, found = (
                {
                    node["name"]: node["cost"]["outputs"]
                    for node in opened(path, limit(1 << 30), OTHER_EP, {"prefer_nhwc": nhwc}).nodes
                    if node["op_type"] in ("Conv", "Cast") and node["domain"] == ""
                }
                for nhwc in ("0", "1")
            )
        assert found or kind == "shapeless", kind
        assert found.items() <= wanted.items(), (kind, wanted, found)


def check_the_budget_holds_for_converted_layouts() -> None:
    """With prefer_nhwc the host asks twice, the second time with other nodes: the last answer counts."""
    rng = np.random.default_rng(3)
    image: tuple[int, Sequence[int | str]] = (FLOAT, [1, 16, 24, 24])
    nodes, constants = [], {}
    for i in range(5):
        constants[f"w{i}"] = rng.standard_normal((16, 16, 3, 3), dtype=np.float32) / 12
        nodes.append(helper.make_node("Conv", [f"v{i}", f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"v{i + 1}"], name=f"relu{i}"))
    model = models.model(nodes, {"v0": image}, {"v5": image}, constants)
    x = rng.standard_normal((1, 16, 24, 24), dtype=np.float32)
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (wanted,) = plain.run(None, {"v0": x})
    options = {"prefer_nhwc": "1"}
    with saved(model) as path:
        most = room_for(path, 100, options)
        for name in HOSTS_ACCOUNT:
            before = 0
            for kilobytes in (0, *range(most // 12, most, most // 12), 2 * most):
                found = opened(path, limit(kilobytes), name, options)
                assert sum(found.costs()) == found.budget["stated_bytes"] <= kilobytes * 1024, (name, kilobytes)
                assert before <= len(found.claimed), (name, kilobytes, before)
                before = len(found.claimed)
                np.testing.assert_allclose(found.session.run(None, {"v0": x})[0], wanted, rtol=1e-3, atol=1e-4)
            assert before >= 10, (name, found.nodes)


if __name__ == "__main__":
    run_checks(globals())
