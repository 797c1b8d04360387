"""Attention, layer norms and products between codes in compiled regions, as onnxruntime.quantization writes them.

    python -m tests.session.region_codes_suite LIBRARY

Codes are those of the same nodes one by one, here and on the CPU, but for a small share next to a tie: there one more
or one less. What became of the nodes is read from the placement report.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto

from tests.session import models
from tests.session.region_quantized_suite import Network
from tests.session.region_support import Feed, joined
from tests.session.suite import run_checks, session_options

HEADS, INNER = 3, 48
SPLIT = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])  # of queries, keys and values that lie row by row
MOST_OTHERS = 0.01  # the share of codes that may be others
ODD = 1.00731  # in scales: multiples of round numbers lie in the middle between two codes again and again

Dims = Sequence[str | int]


class Codes(Network):
    """Of several inputs of floats, with codes as results."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.inputs: dict[str, Dims] = {}
        self.outputs: dict[str, int] = {}
        self.sizes: dict[str, float] = {}  # of numbers

    def coded(self, name: str, dims: Dims, kind: type = np.uint8, size: float = 1) -> str:
        """An input as its codes stand for it."""
        self.inputs[name] = dims
        self.sizes[name] = size
        scale = self.scale(0.03 * size, 0.04 * size)
        return self.through(name, scale, self.zero(kind, 120 if kind == np.uint8 else -5))

    def recoded(self, x: str, scale: float, kind: type = np.uint8, zero: int | None = None) -> str:
        zero = (131 if kind == np.uint8 else 4) if zero is None else zero
        return self.through(x, self.constant(np.float32(scale * ODD)), self.zero(kind, zero))

    def give(self, x: str, scale: float, kind: type = np.uint8) -> None:
        zero = self.zero(kind, 126 if kind == np.uint8 else 3)
        y = self.add("QuantizeLinear", [x, self.constant(np.float32(scale * ODD)), zero])
        self.outputs[y] = TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8

    def vector(self, columns: int, low: float, high: float) -> str:
        return self.constant(self.rng.uniform(low, high, columns).astype(np.float32))

    def product(self, x: str, rows: int, columns: int, scale: float = 0.09) -> str:
        """With codes in front of the bias."""
        x = self.recoded(self.add("MatMul", [x, self.weights(rows, columns)]), scale)
        return self.add("Add", [x, self.bias(columns)])

    def serialized(self) -> bytes:
        inputs = {name: (int(TensorProto.FLOAT), dims) for name, dims in self.inputs.items()}
        outputs = {name: (kind, None) for name, kind in self.outputs.items()}
        return models.model(self.nodes, inputs, outputs, self.constants)  # type: ignore[arg-type]

    def feeds(self, sizes: dict[str, int]) -> Feed:
        def feed(name: str, dims: Dims) -> np.ndarray:
            values = self.feed(*(sizes[d] if isinstance(d, str) else d for d in dims))
            if name == "mask":
                return np.where(values > 1, np.float32(-9), values / 8)
            return values * np.float32(0.7 * self.sizes[name])

        return {name: feed(name, dims) for name, dims in self.inputs.items()}


def _others(mine: Sequence[list[np.ndarray]], twin: Sequence[list[np.ndarray]]) -> tuple[int, float]:
    """Of results of several Runs: by how much codes are others at most, and the share of those that are."""
    away = []
    for ours, theirs in zip(mine, twin, strict=True):
        for y, right in zip(ours, theirs, strict=True):
            assert y.shape == right.shape and y.dtype == right.dtype, (y.shape, right.shape, y.dtype, right.dtype)
            away.append(np.abs(y.astype(np.int64) - right.astype(np.int64)).ravel())
    codes = np.concatenate([right.ravel() for theirs in twin for right in theirs])
    assert codes.size > 1000 and codes.astype(np.float64).std() > 4, "a test of hardly any codes"
    every = np.concatenate(away)
    return int(every.max()), float(np.mean(every != 0))


def _on_the_cpu(model: bytes) -> ort.InferenceSession:
    settings = session_options()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def _steps_agree(network: Codes, sizes: Sequence[dict[str, int]], apart: int = 1) -> Counter[str]:
    """What the region is made of, by operator; its results are those of the nodes one by one, up to `apart` codes."""
    model = network.serialized()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        fused = joined(model, {"fusion": "1", "placement_report": str(report)})
        (region,) = json.loads(report.read_text(encoding="utf-8"))["regions"]
    feeds = [network.feeds(of) for of in sizes]
    mine = [fused.run(None, feed) for feed in [*feeds, feeds[0]]]
    for where, session in (("without fusion", joined(model)), ("on the CPU", _on_the_cpu(model))):
        twin = [session.run(None, feed) for feed in feeds]
        largest, share = _others(mine, [*twin, twin[0]])
        assert largest <= apart and share <= MOST_OTHERS, f"a share of {share} by up to {largest} codes; {where}"
    return Counter(step["op_type"] for step in region["steps"])


ATTENTION_SIZES = ({"b": 2, "rows": 5, "keys": 5}, {"b": 1, "rows": 7, "keys": 128}, {"b": 2, "rows": 2, "keys": 129},
                   {"b": 1, "rows": 70, "keys": 129}, {"b": 3, "rows": 1, "keys": 300},
                   {"b": 0, "rows": 4, "keys": 5})  # fmt: skip
# Dimensions of the mask, and whether that is of codes.
MASKS: Sequence[tuple[Dims, bool]] = (
    ((), False),
    (("b", 1, 1, "keys"), False),
    (("b", 1, 1, "keys"), True),
    ((1, 1, 1, "keys"), False),
    ((1, 1, 1, "keys"), True),
)


def _attend(network: Codes, q: str, k: str, v: str, size: int, coded: bool, scaling: str = "Div",
            kind: type = np.uint8) -> str:  # fmt: skip
    """`coded`: the input mask, where there is one, has codes. `scaling`: what makes scores smaller, if anything."""
    root = size**0.5
    scores = network.recoded(network.add("MatMul", [q, k]), 0.08 * root if scaling else 0.08, kind)
    if scaling:
        number = network.constant(np.float32(root if scaling == "Div" else 1 / root))
        scores = network.recoded(network.add(scaling, [scores, number]), 0.07, kind)
    if "mask" in network.inputs:
        mask = network.recoded("mask", 10 / 255, zero=230) if coded else "mask"
        scores = network.recoded(network.add("Add", [scores, mask]), 0.071, zero=180)
    shares = network.recoded(network.add("Softmax", [scores], axis=-1), 1 / 255, zero=0)
    y = network.recoded(network.add("MatMul", [shares, v]), 0.02)
    return network.add("Transpose", [y], perm=[0, 2, 1, 3])


def _attention(seed: int, size: int, mask: Dims = (), coded: bool = False, scaling: str = "Div",
               kind: type = np.uint8) -> Codes:  # fmt: skip
    network = Codes(seed)
    if mask:
        network.inputs["mask"] = mask
    q = network.coded("q", ("b", "rows", HEADS, size), size=1 if scaling else size**-0.5)
    k, v = (network.coded(name, ("b", "keys", HEADS, size), of) for name, of in (("k", kind), ("v", np.int8)))
    q, k, v = (network.add("Transpose", [x], perm=perm) for x, perm in zip((q, k, v), SPLIT, strict=True))
    network.give(_attend(network, q, k, v, size, coded, scaling, kind), 0.021, kind)
    return network


def check_attention() -> None:
    """Of every mask by key and without, of scores that are divided, multiplied and neither."""
    scaling = itertools.cycle(("Div", "Mul", ""))
    for seed, (size, (mask, coded)) in enumerate(itertools.product((16, 64), MASKS)):
        network = _attention(seed, size, mask, coded, next(scaling), (np.uint8, np.int8)[seed % 2])
        steps = _steps_agree(network, ATTENTION_SIZES)
        # The last one turns the result's codes into those that leave.
        assert steps == {"QuantizeLinear": 3 + coded, "QuantizedAttention": 1, "Elementwise": 1}, (seed, steps)


ROW_SIZES = ({"n": 2, "m": 9}, {"n": 1, "m": 1}, {"n": 3, "m": 100}, {"n": 0, "m": 4})


def _norm(network: Codes, x: str, columns: int, beta: bool = True) -> str:
    vectors = [network.vector(columns, 0.5, 1.5), *([network.vector(columns, -1, 1)] if beta else [])]
    return network.add("LayerNormalization", [x, *vectors], axis=-1, epsilon=1e-5)


def _residual_norm(seed: int, residual: str, columns: int, kind: type = np.uint8) -> Codes:
    """`residual`: a sum of "numbers" or of "codes", which has codes itself; empty: nothing is added."""
    network = Codes(seed)
    x = network.coded("x", ("n", "m", columns), kind)
    if residual:
        x = network.add("Add", [x, network.coded("residual", ("n", "m", columns))])
    if residual == "codes":
        x = network.recoded(x, 0.05, kind)
    network.give(_norm(network, x, columns, beta=seed % 3 != 0), 0.03, kind)
    return network


def check_layer_norms() -> None:
    """Of codes, of the sum of two tensors of codes, and of that sum's codes; with and without a bias."""
    choices = itertools.product(("", "numbers", "codes"), (INNER, 50), (np.uint8, np.int8))
    for seed, (residual, columns, kind) in enumerate(choices, 20):
        steps = _steps_agree(_residual_norm(seed, residual, columns, kind), ROW_SIZES)
        assert steps == {"QuantizeLinear": 1 + bool(residual), "QuantizedLayerNormalization": 1}, (seed, steps)


def _products(seed: int, columns: int, kind: type = np.uint8) -> Codes:
    network = Codes(seed)
    x = network.coded("x", ("n", "m", INNER), kind)
    for _ in range(3):
        network.give(network.product(x, INNER, columns), 0.1, kind)
    return network


def check_products_of_one_tensor() -> None:
    """Queries, keys and values are one product of three results."""
    for seed, (columns, kind) in enumerate(((32, np.uint8), (INNER, np.int8), (7, np.uint8)), 40):
        steps = _steps_agree(_products(seed, columns, kind), ROW_SIZES)
        assert steps == {"QuantizeLinear": 1, "MatMulIntegerToCodes": 1}, (seed, steps)


def _feed_forward(network: Codes, x: str, kind: type = np.uint8) -> str:
    x = network.recoded(network.product(x, INNER, 64), 0.05, kind)
    erf = network.add("Erf", [network.add("Div", [x, network.constant(np.float32(np.sqrt(2)))])])
    erf = network.recoded(erf, 1 / 127, zero=128)
    sums = network.recoded(network.add("Add", [erf, network.constant(np.float32(1))]), 2 / 255, zero=0)
    y = network.add("Mul", [network.add("Mul", [x, sums]), network.constant(np.float32(0.5))])
    return network.product(network.recoded(y, 0.03, zero=9), 64, INNER, 0.2)


def check_feed_forward() -> None:
    """GELU, as it is spelled out between codes, is a table behind the first of two products."""
    for seed, kind in enumerate((np.uint8, np.int8), 50):
        network = Codes(seed)
        network.give(_feed_forward(network, network.coded("x", ("n", "m", INNER), kind), kind), 0.25, kind)
        steps = _steps_agree(network, ROW_SIZES)
        assert steps == {"QuantizeLinear": 1, "MatMulIntegerToCodes": 2}, (seed, steps)


def check_a_layer_of_an_encoder() -> None:
    """All of them together. Behind a code that is another, norms may make more than one of the difference."""
    size = INNER // HEADS
    network = Codes(55)
    x = network.coded("x", ("n", "m", INNER))
    network.inputs["mask"] = ("n", 1, 1, "m")
    split = network.constant(np.array([0, 0, HEADS, size]))
    merged = network.constant(np.array([0, 0, INNER]))
    q, k, v = (
        network.add(
            "Transpose",
            [network.add("Reshape", [network.recoded(network.product(x, INNER, INNER), 0.1), split])],
            perm=perm,
        )
        for perm in SPLIT
    )
    y = network.add("Reshape", [_attend(network, q, k, v, size, coded=True), merged])
    x = network.recoded(network.add("Add", [network.recoded(network.product(y, INNER, INNER), 0.1), x]), 0.1)
    x = network.recoded(_norm(network, x, INNER), 0.03)
    x = network.recoded(network.add("Add", [network.recoded(_feed_forward(network, x), 0.25), x]), 0.26)
    network.give(_norm(network, x, INNER), 0.03)
    steps = _steps_agree(network, ROW_SIZES, apart=4)
    assert steps == {"QuantizeLinear": 2, "Reshape": 4, "MatMulIntegerToCodes": 4, "QuantizedAttention": 1,
                     "QuantizedLayerNormalization": 2}, steps  # fmt: skip


def check_results_of_others_are_told() -> None:
    """A twentieth more in any scale or other number of a network is told from rounding."""
    networks = (
        (_attention(60, 16, ("b", 1, 1, "keys"), True), ATTENTION_SIZES[:3]),
        (_residual_norm(61, "codes", INNER), ROW_SIZES),
        (_products(62, 32), ROW_SIZES),
    )
    for network, sizes in networks:
        feeds = [network.feeds(of) for of in sizes]
        right = [_on_the_cpu(network.serialized()).run(None, feed) for feed in feeds]
        numbers = {name: value for name, value in network.constants.items() if value.dtype == np.float32}
        for name, value in numbers.items():
            network.constants[name] = value * np.float32(1.05)
            other = joined(network.serialized(), {"fusion": "1"})
            network.constants[name] = value
            others = [other.run(None, feed) for feed in feeds]
            largest, share = _others(others, right)
            assert largest > 1 or share > MOST_OTHERS, (name, value, largest, share)


if __name__ == "__main__":
    run_checks(globals())
