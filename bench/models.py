"""The models of the benchmark, as an exporter writes them, with random weights: no file and no framework is needed.

Weights are drawn as fp16 numbers whatever the element type is, so that the fp32 twin of a model computes the same
function and serves as its reference. Batches (and tokens) are open dimensions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


@functools.cache
def _block() -> np.ndarray:
    """Normal numbers, of which all weights are made: soon done, and as random as any to a GPU."""
    return np.random.default_rng(11).standard_normal(1_000_003, np.float32)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Random normal numbers that fp16 holds, for inputs."""
    return np.resize(_block().astype(np.float16).astype(dtype), shape)


def normal(seed: int, dims: tuple[int, ...]) -> np.ndarray:
    """Random normal float32 numbers of a seed, a writable array."""
    block = _block()
    return np.resize(np.roll(block, seed * 7919 % block.size), dims)


class Builder:
    """Collects the nodes and constants of one graph; `dtype` is the type of its numbers."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        """An empty graph."""
        self.dtype = np.dtype(dtype)
        self.kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def weight(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> str:
        """A random constant of the model's own type."""
        block = _block()
        values = np.resize(np.roll(block, int(self._rng.integers(block.size))), shape)
        values = values * np.float32(scale) + np.float32(mean)
        return self.constant(values.astype(np.float16).astype(self.dtype))

    def number(self, value: float) -> str:
        """A scalar of the model's own type."""
        return self.constant(np.asarray(value, self.dtype))

    def constant(self, value: np.ndarray) -> str:
        """The name of a constant."""
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The output of a new node."""
        return self.several(kind, (True,), *inputs, domain=domain, **attributes)[0]

    def several(self, kind: str, used: Sequence[bool], *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        """The outputs of a new node that are used; the others have no name."""
        name = f"{kind}_{len(self._nodes)}"
        outputs = [f"{name}_out{i or ''}" if wanted else "" for i, wanted in enumerate(used)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, name, domain=domain, **attributes))
        return list(filter(None, outputs))

    def finish(self, inputs: dict[str, tuple[int, Dims]], outputs: dict[str, str], opset: int = 17) -> onnx.ModelProto:
        """The model; `outputs` maps names of outputs to the values that they are."""
        for name, value in outputs.items():
            for node in self._nodes:
                node.input[:] = [name if given == value else given for given in node.input]
                node.output[:] = [name if made == value else made for made in node.output]
        graph = helper.make_graph(
            self._nodes,
            "graph",
            [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
            [helper.make_tensor_value_info(name, self.kind, None) for name in outputs],
            self._constants,
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def resnet(dtype: str, width: int = 64, blocks: Sequence[int] = (3, 4, 6, 3), classes: int = 1000) -> onnx.ModelProto:
    """ResNet with bottleneck blocks (He et al. 2015, stride in the 3x3), normalisation folded; defaults: ResNet-50.

    x [batch, 3, side, side] -> y [batch, classes].
    """
    b = Builder(dtype)

    def convolution(x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, gain: float = 2.0) -> str:
        weight = b.weight(outputs, inputs, kernel, kernel, scale=float(np.sqrt(gain / (inputs * kernel * kernel))))
        pads, strides = [kernel // 2] * 4, [stride] * 2
        bias = b.weight(outputs, scale=0.05)
        return b.node("Conv", x, weight, bias, kernel_shape=[kernel] * 2, pads=pads, strides=strides)

    value = b.node("Relu", convolution("x", 3, width, 7, 2))
    value = b.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = b.node("Relu", convolution(value, channels, inner, 1))
            branch = b.node("Relu", convolution(branch, inner, inner, 3, stride))
            # A small last step keeps a deep random network within the range of fp16.
            branch = convolution(branch, inner, 4 * inner, 1, gain=0.1)
            skip = convolution(value, channels, 4 * inner, 1, stride, gain=1.0) if block == 0 else value
            value = b.node("Relu", b.node("Add", branch, skip))
            channels = 4 * inner
    flat = b.node("Flatten", b.node("GlobalAveragePool", value), axis=1)
    head = b.weight(classes, channels, scale=float(np.sqrt(1 / channels)))
    y = b.node("Gemm", flat, head, b.weight(classes, scale=0.05), transB=1)
    return b.finish({"x": (b.kind, ["batch", 3, "height", "width"])}, {"y": y})


def bert(
    dtype: str, layers: int = 12, width: int = 768, heads: int = 12, words: int = 30522, positions: int = 512
) -> onnx.ModelProto:
    """A BERT encoder with pooler as the tracing exporter writes it; defaults: BERT-base.

    Dimensions of reshapes are computed by nodes, GELU is spelled out with Erf, the mask is the arithmetic of
    transformers 4 (that of transformers 5 has some ten nodes more, once in the model).
    input_ids, attention_mask, token_type_ids [batch, tokens] -> hidden [batch, tokens, width], pooled [batch, width].
    """
    b = Builder(dtype)
    values = {"0": 0, "1": 1, "[0]": [0], "[1]": [1], "[2]": [2], "[-1]": [-1]}
    values |= {"[heads]": [heads], "[size]": [width // heads]}
    ints = {name: b.constant(np.asarray(value, np.int64)) for name, value in values.items()}

    def dim(x: str, axis: str) -> str:
        return b.node("Gather", b.node("Shape", x), ints[axis], axis=0)

    def reshape(x: str, dims: Sequence[str], rest: Sequence[str]) -> str:
        parts = [b.node("Unsqueeze", each, ints["[0]"]) for each in dims]
        return b.node("Reshape", x, b.node("Concat", *parts, *(ints[name] for name in rest), axis=0))

    def dense(x: str, inputs: int, outputs: int) -> str:
        product = b.node("MatMul", x, b.weight(inputs, outputs, scale=0.04))
        return b.node("Add", b.weight(outputs, scale=0.02), product)

    def norm(x: str) -> str:
        scale, shift = b.weight(width, scale=0.1, mean=1.0), b.weight(width, scale=0.1)
        return b.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    mask = b.node("Unsqueeze", b.node("Unsqueeze", "attention_mask", ints["[1]"]), ints["[2]"])
    mask = b.node("Sub", b.number(1), b.node("Cast", mask, to=b.kind))
    mask = b.node("Mul", mask, b.number(float(np.finfo(np.float16).min)))
    tokens = b.node("Unsqueeze", dim("input_ids", "1"), ints["[0]"])
    places = b.constant(np.arange(positions, dtype=np.int64)[None])
    places = b.node("Slice", places, ints["[0]"], tokens, ints["[1]"])
    value = b.node("Gather", b.weight(words, width, scale=0.5), "input_ids")
    value = b.node("Add", value, b.node("Gather", b.weight(2, width, scale=0.5), "token_type_ids"))
    value = norm(b.node("Add", value, b.node("Gather", b.weight(positions, width, scale=0.5), places)))
    for _ in range(layers):
        dims = [dim(value, "0"), dim(value, "1")]
        split = [reshape(dense(value, width, width), dims, ["[heads]", "[size]"]) for _ in range(3)]
        q, k, v = (
            b.node("Transpose", part, perm=perm)
            for part, perm in zip(split, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
        )
        scores = b.node("Div", b.node("MatMul", q, k), b.number(float(np.sqrt(width // heads))))
        weights = b.node("Softmax", b.node("Add", scores, mask), axis=-1)
        context = b.node("Transpose", b.node("MatMul", weights, v), perm=[0, 2, 1, 3])
        context = dense(reshape(context, dims, ["[-1]"]), width, width)
        value = norm(b.node("Add", context, value))
        wide = dense(value, width, 4 * width)
        erf = b.node("Add", b.node("Erf", b.node("Div", wide, b.number(float(np.sqrt(2))))), b.number(1))
        active = b.node("Mul", b.node("Mul", wide, erf), b.number(0.5))
        value = norm(b.node("Add", dense(active, 4 * width, width), value))
    first = b.node("Gather", value, ints["0"], axis=1)
    pooled = b.node("Gemm", first, b.weight(width, width, scale=0.04), b.weight(width, scale=0.02), transB=1)
    rows: tuple[int, Dims] = (TensorProto.INT64, ["batch", "tokens"])
    inputs = {name: rows for name in ("input_ids", "attention_mask", "token_type_ids")}
    return b.finish(inputs, {"hidden": value, "pooled": b.node("Tanh", pooled)})


def products(dtype: str, size: int, length: int) -> onnx.ModelProto:
    """x [rows, size] through `length` products with weights of their own: cold weights when they outgrow the cache."""
    b = Builder(dtype)
    value = "x"
    for _ in range(length):
        value = b.node("MatMul", value, b.weight(size, size, scale=1 / float(np.sqrt(size))))
    return b.finish({"x": (b.kind, ["rows", size])}, {"y": value})


def operator(
    dtype: str, kind: str, inputs: int, parameters: int = 0, size: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node of a kind; after its inputs of any shape come `parameters` constants of `size` numbers."""
    b = Builder(dtype)
    names = [f"x{i}" for i in range(inputs)]
    weights = [b.weight(size, scale=0.1, mean=1.0) for _ in range(parameters)]
    y = b.node(kind, *names, *weights, **attributes)
    rank = len(attributes.get("perm", [])) or (2 if parameters or kind in ("Softmax", "Transpose") else 1)
    dims = [f"d{i}" for i in range(rank)]
    return b.finish({name: (b.kind, dims) for name in names}, {"y": y})


def elementwise_chain(dtype: str, size: int) -> onnx.ModelProto:
    """Twenty element-wise nodes over x [rows, size]: scales, shifts, bounds and activations, as models mix them.

    Two read x again, three a vector; one is no simple arithmetic.
    """
    b = Builder(dtype)

    def vector(mean: float) -> str:
        return b.weight(size, scale=0.25, mean=mean)

    y = b.node("Add", b.node("Mul", "x", b.number(0.75)), b.number(0.125))
    y = b.node("Relu", b.node("Add", y, vector(0.0)))
    y = b.node("Abs", b.node("Sub", b.node("Mul", y, vector(1.0)), b.number(0.5)))
    y = b.node("Add", b.node("Mul", b.node("Min", y, b.number(4.0)), b.number(0.5)), "x")
    y = b.node("Add", b.node("Mul", b.node("Max", y, b.number(-2.0)), b.number(1.25)), b.number(-0.25))
    y = b.node("LeakyRelu", b.node("Add", b.node("Neg", y), vector(0.5)), alpha=0.125)
    y = b.node("Sigmoid", b.node("Clip", y, b.number(-3.0), b.number(3.0)))
    y = b.node("Add", b.node("Mul", y, "x"), b.number(0.0625))
    return b.finish({"x": (b.kind, ["rows", size])}, {"y": y})


def add_chain(length: int) -> onnx.ModelProto:
    """`length` Adds in a row of vectors: y = x + length * step."""
    b = Builder("float32")
    value = "x"
    for _ in range(length):
        value = b.node("Add", value, "step")
    return b.finish({"x": (b.kind, ["n"]), "step": (b.kind, ["n"])}, {"y": value})
