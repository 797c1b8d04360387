"""Models for the matrix of compiled regions beside everything else, each with feeds of several dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from tests.models import weights
from tests.session.fusion_models import HIDDEN, Graph
from tests.session.image_models import CHANNELS, Images

Feed = dict[str, np.ndarray]
EXPORTS = Path(__file__).resolve().parents[1] / "models" / "graphs"


@dataclass(frozen=True)
class Case:
    """A model and what its regions must come to.

    `rewritten`: passes that do something. `replays`: regions of enough launches to have graphs of their own.
    `tolerance`: of results with regions against those without, of the largest. `on_cpu`: a node between its regions is
    the CPU's. `mixes_sizes`: without regions, sizes go from the CPU to the device in the middle of a Run, so that
    nothing can capture it.
    """

    name: str
    model: bytes
    feeds: list[Feed]
    rewritten: frozenset[str]
    regions: int = 1
    replays: int = 1
    tolerance: float = 1e-5
    on_cpu: bool = False
    mixes_sizes: bool = False

    def nodes(self) -> set[str]:
        """Names of its nodes; constants are none."""
        return {node.name for node in onnx.load_from_string(self.model).graph.node if node.op_type != "Constant"}


def _cnn() -> Case:
    """A stem of three channels and two bottlenecks in float16, pooled."""
    images = Images(21, channels=3, size=16)
    value = images.add("Relu", [images.conv("x", kernel=7, stride=2)])
    value = images.add("MaxPool", [value], (CHANNELS, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        inner = images.add("Relu", [images.conv(value, 8, kernel=1)])
        inner = images.conv(images.add("Relu", [images.conv(inner, 8)]), kernel=1)
        value = images.add("Relu", [images.add("Add", [inner, value])])
    flat = images.add("Flatten", [images.add("GlobalAveragePool", [value], (CHANNELS, 1))])
    y = images.add("Gemm", [flat, images.random(CHANNELS, 10, scale=0.25)])
    feeds = [{"x": images.rng.standard_normal((n, 3, 16, 16)).astype(np.float16)} for n in (2, 3)]
    rewritten = frozenset({"conv_epilogue", "channels_last", "stem_pool"})
    return Case("cnn", images.model([y], TensorProto.FLOAT16), feeds, rewritten, tolerance=1e-2)


def _export(name: str, file: str, *rewritten: str) -> Case:
    model, feeds = weights.load(EXPORTS / f"{file}.onnx.xz")
    return Case(name, model.SerializeToString(), feeds, frozenset(rewritten), mixes_sizes=True)


def _bert() -> Case:
    """Two layers with a mask."""
    return _export("bert", "bert.torchscript", "attention", "projections", "activation", "product_epilogue")


def _decoder() -> Case:
    """Some steps of two layers, with a past of any length."""
    return _export("decoder", "gpt2.torchscript", "attention", "product_epilogue", "activation")


def _chain() -> Case:
    """Gates and shifts of rows, element by element."""
    g = Graph()
    x = g.feed("x", g.normal(2, 6, HIDDEN))
    value = g.add("Mul", g.add("Add", x, g.weight(HIDDEN)), g.weight(HIDDEN))
    value = g.add("Add", g.add("Tanh", value), g.add("Sigmoid", g.add("Sub", x, value)))
    g.outputs += [value, g.add("Neg", g.add("Softmax", g.add("Abs", value)))]
    feeds: list[Feed] = [{"x": g.normal(n, 6, HIDDEN)} for n in (2, 4)]
    return Case("chain", g.model(), feeds, frozenset({"chains"}))


def _mixed() -> Case:
    """A region, a node that only the CPU has, and a region."""
    g = Graph()
    x = g.feed("x", g.normal(2, HIDDEN))
    value = g.add("Sigmoid", g.add("Mul", g.add("Relu", g.linear(x)), x))
    scaled = g.add("Scaler", value, domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    g.outputs.append(g.add("Tanh", g.add("Relu", g.linear(g.add("Neg", scaled)))))
    feeds: list[Feed] = [{"x": g.normal(n, HIDDEN)} for n in (2, 3)]
    return Case("mixed", g.model(), feeds, frozenset({"product_epilogue", "chains"}), regions=2, on_cpu=True)


CASES: dict[str, Callable[[], Case]] = {
    "cnn": _cnn,
    "bert": _bert,
    "decoder": _decoder,
    "chain": _chain,
    "mixed": _mixed,
}
