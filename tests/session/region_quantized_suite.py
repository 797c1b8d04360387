"""Models of QuantizeLinear and DequantizeLinear in compiled regions, whose products are of integers.

    python -m tests.session.region_quantized_suite LIBRARY

Codes are those of the same nodes one by one, but for quotients that lie within fp32's errors of a tie: there one more
or one less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.region_suite import joined
from tests.session.suite import logged, run_checks

INNER = 48


class Network:
    """Nodes and constants under construction; values are names."""

    def __init__(self, seed: int, dims: Sequence[str | int] | None = ("n", "m", INNER)) -> None:
        self.rng = np.random.default_rng(seed)
        self.dims = dims
        self.nodes: list[object] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = values
        return name

    def add(self, op: str, inputs: Sequence[str], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def scale(self, low: float = 0.01, high: float = 0.05) -> str:
        return self.constant(np.float32(self.rng.uniform(low, high)))

    def zero(self, dtype: type = np.uint8, zero: int | None = None) -> str:
        return self.constant(np.asarray(self.rng.integers(90, 160) if zero is None else zero).astype(dtype))

    def through(self, x: str, scale: str, zero: str) -> str:
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [x, scale, zero]), scale, zero])

    def codes(self, *shape: int, dtype: type = np.int8) -> str:
        limits = np.iinfo(dtype)
        return self.constant(self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype))

    def weights(self, rows: int, columns: int, transposed: bool = False) -> str:
        """As onnxruntime.quantization writes those of int8: a scale for each column, no zero point."""
        scales = self.constant(self.rng.uniform(0.001, 0.01, columns).astype(np.float32))
        zeros = self.constant(np.zeros(columns, np.int8))
        codes = self.codes(*((columns, rows) if transposed else (rows, columns)))
        return self.add("DequantizeLinear", [codes, scales, zeros], axis=0 if transposed else 1)

    def filters(self, *dims: int, per_tensor: bool = False) -> str:
        """Of a convolution, with a scale for each output channel."""
        count = 1 if per_tensor else dims[0]
        scales = self.rng.uniform(0.5, 2, count) / np.sqrt(np.prod(dims[1:])) / 64
        scale = np.float32(scales[0]) if per_tensor else scales.astype(np.float32)
        zero = np.zeros(() if per_tensor else count, np.int8)
        return self.add("DequantizeLinear", [self.codes(*dims), self.constant(scale), self.constant(zero)], axis=0)

    def convolve(self, x: str, *dims: int, stride: int = 1, kind: type = np.uint8, zero: int | None = None,
                 bias: bool = True, bound: str = "", per_tensor: bool = False) -> str:  # fmt: skip
        """To the next codes and back."""
        pads = [d // 2 for d in dims[2:]] * 2
        inputs = [x, self.filters(*dims, per_tensor=per_tensor), *([self.bias(dims[0])] if bias else [])]
        y = self.add("Conv", inputs, pads=pads, strides=[stride, stride])
        y = self.add(bound, [y]) if bound else y
        return self.through(y, self.scale(0.04, 0.06), self.zero(kind, zero))

    def bias(self, columns: int) -> str:
        codes = self.constant(self.rng.integers(-5000, 5000, columns).astype(np.int32))
        return self.add("DequantizeLinear", [codes, self.constant(np.float32(2e-4))])

    def feed(self, *dims: int) -> np.ndarray:
        return (self.rng.standard_normal(dims) * 2).astype(np.float32)

    def model(self, outputs: dict[str, int]) -> bytes:
        values = {name: (kind, None) for name, kind in outputs.items()}
        return models.model(self.nodes, {"x": (TensorProto.FLOAT, self.dims)}, values, self.constants)  # type: ignore[arg-type]


def agree(network: Network, codes: str, feeds: Sequence[np.ndarray], kind: int, others: float = 1e-3,
          by: str = "qdq") -> list[str]:  # fmt: skip
    """With and without rewriting; `others`: the share of codes that may be others, by one. What `by` rewrote."""
    model = network.model({codes: kind})
    ort.set_default_logger_severity(0)
    with logged("fusion ") as lines:
        fused = joined(model, {"fusion": "1"})
    ort.set_default_logger_severity(2)
    plain = joined(model)
    for feed in [*feeds, *feeds]:
        mine, twin = (session.run(None, {"x": feed})[0].astype(np.int64) for session in (fused, plain))
        assert mine.shape == twin.shape, (mine.shape, twin.shape)
        if twin.size == 0:
            continue
        assert twin.std() > 4, "a test of hardly any codes"
        away = np.abs(mine - twin)
        assert away.max() <= 1 and np.mean(away != 0) <= others, (away.max(), np.mean(away != 0))
    return [line for line in lines if f"fusion {by}: " in line]


def _quantized(network: Network, value: str, kind: type, zero: int) -> str:
    return network.add("QuantizeLinear", [value, network.scale(0.05, 0.1), network.zero(kind, zero)])


ACTIVATIONS = ((np.uint8, 121), (np.uint8, 0), (np.int8, 0), (np.int8, -128))
FEEDS = ((2, 5), (1, 1), (3, 17), (0, 4))


def check_products_of_weights() -> None:
    """Whatever activations are, with sizes that libraries take and others, with a bias and a Relu behind."""
    for seed, (kind, zero) in enumerate(ACTIVATIONS):
        for inner, columns in ((INNER, 32), (INNER, 7), (50, 32)):
            network = Network(seed, ("n", "m", inner))
            x = network.through("x", network.scale(), network.zero(kind, zero))
            y = network.add("Add", [network.add("MatMul", [x, network.weights(inner, columns)]), network.bias(columns)])
            y = _quantized(network, network.add("Relu", [y]), np.uint8, 3)
            feeds = [network.feed(*dims, inner) for dims in FEEDS]
            assert len(agree(network, y, feeds, TensorProto.UINT8)) == 1


def check_gemm() -> None:
    """Of transposed weights and a bias in 32 bits, as a last layer is written."""
    network = Network(10, ("n", INNER))
    x = network.through("x", network.scale(), network.zero())
    y = network.add("Gemm", [x, network.weights(INNER, 24, transposed=True), network.bias(24)], transB=1, alpha=0.5)
    y = _quantized(network, y, np.int8, 5)
    assert len(agree(network, y, [network.feed(n, INNER) for n in (3, 1, 20)], TensorProto.INT8)) == 1


def check_rows_of_zeros() -> None:
    """Padding is zeros behind a product too, to the bit, whatever its code and the sums of the weights' columns."""
    for kind, zero in ACTIVATIONS:
        network = Network(15)
        x = network.through("x", network.scale(), network.zero(kind, zero))
        y = network.add("MatMul", [x, network.weights(INNER, 32)])
        feed = network.feed(2, 3, INNER)
        feed[:, 1] = 0
        result = joined(network.model({y: TensorProto.FLOAT}), {"fusion": "1"}).run(None, {"x": feed})[0]
        assert not result[:, 1].any(), result[:, 1]
        assert result[:, 0].any()


def check_asymmetric_weights() -> None:
    """Weights with zero points, of either type, and with codes or floats behind."""
    for seed, (kind, zero) in enumerate(((np.uint8, 119), (np.int8, 9))):
        for followed in (False, True):
            network = Network(20 + seed)
            x = network.through("x", network.scale(), network.zero())
            codes = network.codes(INNER, 32, dtype=kind)
            w = network.add("DequantizeLinear", [codes, network.scale(0.001, 0.01), network.zero(kind, zero)])
            y = network.add("MatMul", [x, w])
            y = network.add("Mul", [y, network.constant(np.float32(1.5))]) if followed else y
            feeds = [network.feed(*dims, INNER) for dims in FEEDS]
            assert len(agree(network, _quantized(network, y, np.uint8, 130), feeds, TensorProto.UINT8)) == 1


def check_products_of_activations() -> None:
    """Scores and their product with values, as attention has them, with the transposition on codes."""
    network = Network(30)
    scale, zero = network.scale(), network.zero()
    x = network.through("x", scale, zero)
    keys = network.through(network.add("Transpose", [x], perm=[0, 2, 1]), scale, zero)
    scores = network.through(network.add("MatMul", [x, keys]), network.scale(0.2, 0.4), network.zero())
    soft = network.add("Softmax", [network.add("Mul", [scores, network.constant(np.float32(0.05))])])
    soft = network.through(soft, network.constant(np.float32(1 / 255)), network.zero(np.uint8, 0))
    y = _quantized(network, network.add("MatMul", [soft, x]), np.uint8, 128)
    # Another code of a score is another code of its row's softmax.
    lines = agree(network, y, [network.feed(*dims, INNER) for dims in FEEDS[:3]], TensorProto.UINT8, 0.05)
    assert len(lines) == 4, lines


def check_transposes_before_several_zero_points() -> None:
    """One for each row or column of a model's own QLinearMatMul."""
    for seed, place in enumerate((2, 5), 35):
        network = Network(seed, (5, INNER))
        scale, zero = network.scale(0.04, 0.05), network.zero()
        codes = network.add("QuantizeLinear", ["x", scale, zero])
        turned = network.add("Transpose", [codes], perm=[1, 0])
        inputs = [codes, scale, zero, turned, scale, zero, network.constant(np.float32(1)), network.zero()]
        inputs[place] = network.constant(network.rng.integers(120, 136, 5).astype(np.uint8))
        agree(network, network.add("QLinearMatMul", inputs), [network.feed(5, INNER)], TensorProto.UINT8)


def check_softmax_of_a_scalar() -> None:
    """That the model does not say is one."""
    network = Network(37, None)
    y = network.add("Softmax", [network.through("x", network.scale(), network.zero())])
    y = network.through(y, network.constant(np.float32(1 / 200)), network.zero(np.uint8, 0))
    model = network.model({y: TensorProto.FLOAT})
    for options in ({}, {"fusion": "1"}):
        np.testing.assert_allclose(joined(model, options).run(None, {"x": np.array(0.3, np.float32)})[0], 1, atol=1e-6)


def check_softmax_of_codes() -> None:
    """Of scores that have codes; also of a row's length that no warp has whole packs of."""
    for seed, inner in ((32, INNER), (33, 50)):
        network = Network(seed, ("n", "m", inner))
        x = network.through("x", network.scale(0.04, 0.05), network.zero())
        soft = network.through(
            network.add("Softmax", [x]), network.constant(np.float32(1 / 512)), network.zero(np.uint8, 0)
        )
        y = network.add("Mul", [soft, network.constant(np.float32(20))])
        lines = agree(network, _quantized(network, y, np.uint8, 3), [network.feed(*dims, inner) for dims in FEEDS],
                      TensorProto.UINT8, 0.02)  # fmt: skip
        assert len(lines) == 1, lines


def check_functions_of_codes() -> None:
    """GELU as it is spelled out, with codes behind each of its nodes."""
    network = Network(31)
    x = network.through("x", network.scale(), network.zero())
    x = network.through(
        network.add("MatMul", [x, network.weights(INNER, 32)]), network.scale(0.03, 0.04), network.zero()
    )

    def code(x: str, low: float, zero: int) -> str:
        return network.through(x, network.constant(np.float32(low)), network.zero(np.uint8, zero))

    erf = code(network.add("Erf", [network.add("Div", [x, network.constant(np.float32(np.sqrt(2)))])]), 1 / 127, 128)
    sums = code(network.add("Add", [erf, network.constant(np.float32(1))]), 2 / 255, 0)
    y = network.add("Mul", [network.add("Mul", [x, sums]), network.constant(np.float32(0.5))])
    lines = agree(network, _quantized(network, y, np.uint8, 9), [network.feed(*dims, INNER) for dims in FEEDS[:3]],
                  TensorProto.UINT8, 0.02, "chains")  # fmt: skip
    # The chain that the table joins has them too, behind its product.
    functions = [f"{op} node" for op in ("Div", "Erf", "Add", "Mul", "QuantizeLinear")]
    tables = [line for line in lines if all(op in line for op in functions) and "MatMul node" not in line]
    assert len(tables) == 1, lines


def check_convolutions() -> None:
    """Blocks as residual networks have them, of any zero points; the first convolution has few channels."""
    kinds = ((np.uint8, None, ""), (np.uint8, 0, "Relu"), (np.int8, 0, "Relu"), (np.int8, -128, ""))
    for seed, (kind, zero, bound) in enumerate(kinds, 60):
        network = Network(seed, ("n", 3, "h", "w"))
        of = {"kind": kind, "zero": zero}
        x = network.through("x", network.scale(0.03, 0.05), network.zero(kind, zero))
        x = network.convolve(x, 16, 3, 3, 3, stride=2, bound=bound, **of)
        x = network.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        x = network.through(x, network.scale(0.04, 0.06), network.zero(kind, zero))
        for channels, stride in ((16, 1), (32, 2)):
            y = network.convolve(x, 16, 16, 1, 1, bound=bound, bias=False, **of)
            y = network.convolve(y, channels, 16, 3, 3, stride=stride, bound=bound, per_tensor=True, **of)
            y = network.convolve(y, channels, channels, 1, 1, **of)
            x = network.convolve(x, channels, 16, 1, 1, stride=stride, **of) if channels == 32 else x
            x = network.add("Add", [y, x])
            x = network.add(bound, [x]) if bound else x
            x = network.through(x, network.scale(0.04, 0.06), network.zero(kind, zero))
        y = network.add("QuantizeLinear", [network.add("GlobalAveragePool", [x]), network.scale(0.004, 0.005),
                                           network.zero(np.uint8, 128 if zero is None else 20)])  # fmt: skip
        feeds = [network.feed(2, 3, 33, 40), network.feed(1, 3, 16, 16)]
        lines = agree(network, y, feeds, TensorProto.UINT8, 0.1)
        convolutions = [line for line in lines if "Conv" in line]
        assert len(convolutions) == 8, lines


def check_pooled_classifiers() -> None:
    """The end of an image network, with codes in front of Flatten and not, of whole packs of channels and others."""
    for seed, (kind, zero, side) in enumerate(((np.uint8, None, 7), (np.uint8, 0, 1), (np.int8, 0, 12)), 110):
        for flat_codes in (False, True):
            network = Network(seed, ("n", 16, side, side))
            x = network.through("x", network.scale(0.03, 0.05), network.zero(kind, zero))
            for channels in (16, 48):
                x = network.convolve(x, channels, 16, 3, 3, kind=kind, zero=zero)
            scale, between = network.scale(0.01, 0.02), network.zero()
            x = network.add("GlobalAveragePool", [x])
            x = network.through(x, scale, between) if flat_codes else x
            x = network.through(network.add("Flatten", [x]), scale, between)
            y = network.add("Gemm", [x, network.weights(48, 24, transposed=True), network.bias(24)], transB=1)
            y = network.add("QuantizeLinear", [y, network.scale(0.01, 0.02), network.zero()])
            feeds = [network.feed(n, 16, side, side) for n in (2, 1, 20)]
            # Another code of a mean, where a convolution's is another, is another code of some classes.
            lines = agree(network, y, feeds, TensorProto.UINT8, 0.2)
            assert sum("GlobalAveragePool" in line for line in lines) == 1, lines
            assert sum("Gemm" in line for line in lines) == 1, lines


def check_networks() -> None:
    """Random ones, of layers that are quantized in and out, with what onnxruntime.quantization puts between."""
    for seed in range(40, 60):
        network = Network(seed)
        rng = network.rng
        value = network.through("x", network.scale(0.02, 0.05), network.zero())
        before = value
        for _ in range(rng.integers(1, 5)):
            kind, zero = ((np.uint8, None), (np.uint8, 0), (np.int8, 0))[rng.integers(3)]
            choice = rng.integers(5)
            if choice < 2:
                value = network.add("MatMul", [value, network.weights(INNER, INNER)])
                if rng.integers(2):
                    value = network.through(value, network.scale(0.05, 0.1), network.zero())
                value = network.add("Add", [value, network.bias(INNER)])
            elif choice == 2:
                value = network.add("Add", [value, before])
            elif choice == 3:
                value = network.add("Transpose", [value], perm=[1, 0, 2])
                value = network.through(value, network.scale(0.05, 0.1), network.zero())
                value = network.add("Transpose", [value], perm=[1, 0, 2])
            else:
                value = network.add(str(rng.choice(["Tanh", "Sigmoid", "Neg"])), [value])
                value = network.add("Mul", [value, network.constant(np.float32(3))])
            value = network.through(value, network.scale(0.02, 0.05), network.zero(kind, zero))
        y = network.add("QuantizeLinear", [value, network.scale(0.02, 0.03), network.zero(np.uint8, 128)])
        feeds = [network.feed(*dims, INNER) for dims in FEEDS[:3]]
        agree(network, y, feeds, TensorProto.UINT8, 0.02)


if __name__ == "__main__":
    run_checks(globals())
