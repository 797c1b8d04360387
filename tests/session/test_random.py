"""Random numbers in sessions: their distribution, and which calls, nodes and sessions share them."""

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ..op.cases.random import philox
from . import host

ELEMS = 200_000


def open_model(*nodes: onnx.NodeProto, feeds: dict[str, int] | None = None, kind: int = TensorProto.FLOAT) -> Any:
    """A session of nodes whose last outputs are the model's."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in (feeds or {}).items()]
    outputs = [helper.make_tensor_value_info(node.output[0], kind, None) for node in nodes]
    graph = helper.make_graph(list(nodes), "random", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    host.require_plugin()
    return host.open_session(model.SerializeToString())


def draw(op: str, output: str = "y", **attrs: Any) -> onnx.NodeProto:
    """A node without inputs."""
    return helper.make_node(op, [], [output], shape=[ELEMS], **attrs)


def distance(sample: np.ndarray, cumulative: np.ndarray) -> float:
    """Kolmogorov and Smirnov's, of a sorted sample from the distribution's function at its values."""
    steps = np.arange(len(sample) + 1) / len(sample)
    return float(max(np.max(steps[1:] - cumulative), np.max(cumulative - steps[:-1])))


LIMIT = 1.95 / math.sqrt(ELEMS)  # a sample of the distribution is further away once in 1,000 times
_ERF = np.vectorize(math.erf)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("seed", [1.0, 2.0])
def test_normal(kind: int, seed: float) -> None:
    session = open_model(draw("RandomNormal", seed=seed, mean=3.0, scale=0.5, dtype=kind), kind=kind)
    z = np.sort((session.run(None, {})[0].astype(np.float64) - 3) / 0.5)
    assert distance(z, 0.5 * (1 + _ERF(z / math.sqrt(2)))) < LIMIT
    assert abs(np.mean(z**4) - 3) < 0.1
    assert 4 < np.max(np.abs(z)) < 7


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_uniform(kind: int) -> None:
    session = open_model(draw("RandomUniform", seed=4.0, low=-2.0, high=6.0, dtype=kind), kind=kind)
    u = np.sort((session.run(None, {})[0].astype(np.float64) + 2) / 8)
    assert u[0] >= 0
    assert u[-1] <= 1
    assert distance(u, u) < LIMIT


def test_the_test_of_a_distribution_can_fail() -> None:
    u = (np.arange(ELEMS) + 0.5) / ELEMS
    assert distance(u, u) < LIMIT
    assert distance(u, u * 0.99) > LIMIT


def test_words_are_those_of_the_paper() -> None:
    # Random123's known answers for Philox4x32-10.
    assert [*map(int, philox(0, np.zeros(1, np.int64))[0])] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    groups = np.array([0x85A308D3243F6A88], np.uint64)
    assert [*map(int, philox(0x299F31D0A4093822, groups, 0x0370734413198A2E)[0])] == [
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]  # fmt: skip


def test_neighbours_and_calls_are_independent() -> None:
    session = open_model(draw("RandomNormal", seed=9.0))
    first, second = (session.run(None, {})[0].astype(np.float64) for _ in range(2))
    assert not np.any(first == second)
    bound = 5 / math.sqrt(ELEMS)
    assert abs(np.mean(first * second)) < bound
    for lag in (1, 2, 3, 4, 256):
        assert abs(np.mean(first[lag:] * first[:-lag])) < bound


def test_a_seed_repeats_in_another_session() -> None:
    drawn = [
        [session.run(None, {})[0] for _ in range(2)]
        for session in (open_model(draw("RandomUniform", seed=5.0)) for _ in range(2))
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    other = open_model(draw("RandomUniform", seed=6.0)).run(None, {})[0]
    assert np.mean(other == drawn[0][0]) < 1e-3


def test_without_a_seed_nodes_and_sessions_differ() -> None:
    values = [
        value
        for session in (
            open_model(draw("RandomUniform", "a"), draw("RandomUniform", "b")),
            open_model(draw("RandomUniform")),
        )
        for value in session.run(None, {})
    ]
    for i, value in enumerate(values):
        assert all(np.mean(value == other) < 1e-3 for other in values[:i])


def test_bernoulli_and_dropout_keep_their_shares() -> None:
    coin = open_model(helper.make_node("Bernoulli", ["p"], ["y"], seed=1.0), feeds={"p": ELEMS})
    share = np.mean(coin.run(None, {"p": np.full(ELEMS, 0.3, np.float32)})[0])
    assert abs(share - 0.3) < 5 * math.sqrt(0.21 / ELEMS)

    constants = [
        helper.make_node("Constant", [], ["ratio"], value_float=0.2),
        helper.make_node("Constant", [], ["on"], value=helper.make_tensor("on", TensorProto.BOOL, [], [True])),
    ]
    node = helper.make_node("Dropout", ["x", "ratio", "on"], ["y"], seed=3)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ELEMS])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ELEMS])]
    graph = helper.make_graph([*constants, node], "dropout", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    host.require_plugin()
    session = host.open_session(model.SerializeToString())
    masks = [session.run(None, {"x": np.ones(ELEMS, np.float32)})[0] for _ in range(2)]
    for mask in masks:
        np.testing.assert_allclose(np.unique(mask), [0, 1.25], rtol=1e-6)
        assert abs(np.mean(mask == 0) - 0.2) < 5 * math.sqrt(0.16 / ELEMS)
    assert abs(np.mean((masks[0] == 0) & (masks[1] == 0)) - 0.04) < 5 * math.sqrt(0.04 / ELEMS)
