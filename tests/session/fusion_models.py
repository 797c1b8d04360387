"""Patterns that the host's optimisers turn into other operators for a provider of our name, as exporters write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

HIDDEN, HEADS, BATCH, STEPS, WORDS = 32, 4, 2, 6, 20
HEAD = HIDDEN // HEADS


@dataclass
class Graph:
    """Nodes, constants and feeds of a model under construction. Names are made up as needed."""

    opset: int = 17
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def feed(self, name: str, array: np.ndarray) -> str:
        self.feeds[name] = array
        return name

    def normal(self, *shape: int, dtype: Any = np.float32, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int, dtype: Any = np.float32) -> str:
        return self.constant(self.normal(*shape, scale=shape[0] ** -0.5), dtype)

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        return self.several(op, *inputs, outputs=outputs, domain=domain, **attributes)[0]

    def several(self, op: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        names = [f"{op.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, names[0], domain=domain, **attributes))
        return names

    def linear(self, x: str, columns: int = HIDDEN, rows: int = HIDDEN, dtype: Any = np.float32) -> str:
        return self.add(
            "Add", self.add("MatMul", x, self.weight(rows, columns, dtype=dtype)), self.weight(columns, dtype=dtype)
        )

    def layer_norm(self, x: str, dtype: Any = np.float32) -> str:
        centred = self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))
        variance = self.add("ReduceMean", self.add("Pow", centred, self.constant(2, dtype)), axes=[-1])
        deviation = self.add("Sqrt", self.add("Add", variance, self.constant(1e-5, dtype)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.weight(HIDDEN, dtype=dtype))
        return self.add("Add", scaled, self.weight(HIDDEN, dtype=dtype))

    def open_dims(self, array: np.ndarray) -> list[int | str]:
        """As a model for any batch states them: a dimension of BATCH or STEPS is open."""
        names: dict[int, str] = {BATCH: "batch", STEPS: "steps"}
        return [names.get(dim, dim) for dim in array.shape]

    def model(self) -> bytes:
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), self.open_dims(array))
            for name, array in self.feeds.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "graph", inputs, outputs, self.constants)
        domains = {"": self.opset, "com.microsoft": 1, "ai.onnx.ml": 3}
        imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        proto: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=10)
        return bytes(proto.SerializeToString())


@dataclass(frozen=True)
class Pattern:
    """A model, what the newest host makes of it, and session settings that a user gives for it."""

    name: str
    build: Callable[[Graph], None]
    becomes: str
    opset: int = 17
    entries: tuple[tuple[str, str], ...] = ()
    tolerance: float = 1e-4

    def graph(self) -> Graph:
        made = Graph(self.opset)
        self.build(made)
        return made


def _rows(g: Graph, dtype: Any = np.float32) -> str:
    return g.feed("x", g.normal(BATCH, STEPS, HIDDEN, dtype=dtype))


def gelu_of(g: Graph, x: str, dtype: Any = np.float32) -> str:
    erf = g.add("Erf", g.add("Div", x, g.constant(2**0.5, dtype)))
    return g.add("Mul", g.add("Mul", x, g.add("Add", erf, g.constant(1, dtype))), g.constant(0.5, dtype))


def gelu(g: Graph) -> None:
    g.outputs.append(gelu_of(g, _rows(g)))


def bias_gelu(g: Graph) -> None:
    g.outputs.append(gelu_of(g, g.add("Add", _rows(g), g.weight(HIDDEN))))


def bias_gelu_half(g: Graph) -> None:
    biased = g.add("Add", _rows(g, np.float16), g.weight(HIDDEN, dtype=np.float16))
    g.outputs.append(gelu_of(g, biased, np.float16))


def quick_gelu(g: Graph) -> None:
    x = _rows(g)
    g.outputs.append(g.add("Mul", x, g.add("Sigmoid", g.add("Mul", x, g.constant(1.702)))))


def silu(g: Graph) -> None:
    x = g.linear(_rows(g))
    g.outputs.append(g.add("Mul", x, g.add("Sigmoid", x)))


def layer_norm(g: Graph) -> None:
    g.outputs.append(g.layer_norm(_rows(g)))


def skip_layer_norm(g: Graph) -> None:
    x = _rows(g)
    g.outputs.append(g.layer_norm(g.add("Add", g.linear(x), x)))


def skip_layer_norm_half(g: Graph) -> None:
    x = _rows(g, np.float16)
    total = g.add("Add", g.linear(x, dtype=np.float16), x)
    scale, bias = g.weight(HIDDEN, dtype=np.float16), g.weight(HIDDEN, dtype=np.float16)
    g.outputs.append(g.add("LayerNormalization", total, scale, bias, axis=-1))


def rms_norm(g: Graph) -> None:
    x = _rows(g)
    mean = g.add("ReduceMean", g.add("Pow", x, g.constant(2)), axes=[-1])
    deviation = g.add("Sqrt", g.add("Add", mean, g.constant(1e-6)))
    g.outputs.append(g.add("Mul", g.weight(HIDDEN), g.add("Div", x, deviation)))


def fused_matmul(g: Graph) -> None:
    a = g.feed("a", g.normal(BATCH, STEPS, HIDDEN))
    b = g.feed("b", g.normal(BATCH, STEPS, HIDDEN))
    product = g.add("MatMul", a, g.add("Transpose", b, perm=[0, 2, 1]))
    g.outputs.append(g.add("Div", product, g.constant(HIDDEN**0.5)))


def bias_softmax(g: Graph) -> None:
    scores = g.feed("scores", g.normal(BATCH, HEADS, STEPS, STEPS))
    mask = g.feed("mask", g.normal(BATCH, 1, 1, STEPS))
    g.outputs.append(g.add("Softmax", g.add("Add", scores, mask), axis=-1))


def bias_dropout(g: Graph) -> None:
    x, residual = _rows(g), g.feed("residual", g.normal(BATCH, STEPS, HIDDEN))
    dropped, mask = g.several("Dropout", g.linear(x), g.constant(0.25), outputs=2)
    g.outputs += [g.add("Add", dropped, residual), mask]


def _split_heads(g: Graph, x: str, perm: list[int], dtype: Any = np.float32) -> str:
    shape = g.constant([0, 0, HEADS, HEAD], np.int64)
    return g.add("Transpose", g.add("Reshape", g.linear(x, dtype=dtype), shape), perm=perm)


def mixed_heads(g: Graph, x: str, mask: str = "", dtype: Any = np.float32) -> str:
    """Attention of `x`, rows of all heads side by side; an absent mask hides nothing."""
    q, k, v = (_split_heads(g, x, perm, dtype) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = g.add("Div", g.add("MatMul", q, k), g.constant(HEAD**0.5, dtype))
    weights = g.add("Softmax", g.add("Add", scores, mask) if mask else scores, axis=-1)
    mixed = g.add("Transpose", g.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    return g.add("Reshape", mixed, g.constant([0, 0, HIDDEN], np.int64))


def _attention_of(g: Graph, x: str, mask: str, dtype: Any = np.float32) -> str:
    return g.linear(mixed_heads(g, x, mask, dtype), dtype=dtype)


def _mask(g: Graph, dtype: Any = np.float32) -> str:
    kept = np.ones((BATCH, STEPS), np.int64)
    kept[1, 4:] = 0
    ids = g.feed("mask", kept)
    wide = g.add("Unsqueeze", g.add("Unsqueeze", ids, g.constant([1], np.int64)), g.constant([2], np.int64))
    number = g.add("Cast", wide, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    return g.add("Mul", g.add("Sub", g.constant(1, dtype), number), g.constant(-10000, dtype))


def attention(g: Graph) -> None:
    x = g.layer_norm(_rows(g))
    g.outputs.append(g.layer_norm(g.add("Add", _attention_of(g, x, _mask(g)), x)))


def attention_half(g: Graph) -> None:
    x = g.layer_norm(_rows(g, np.float16), np.float16)
    mixed = _attention_of(g, x, _mask(g, np.float16), np.float16)
    g.outputs.append(g.layer_norm(g.add("Add", mixed, x), np.float16))


def embed_layer_norm(g: Graph) -> None:
    ids = g.feed("ids", g.rng.integers(0, WORDS, (BATCH, STEPS)))
    segments = g.feed("segments", g.rng.integers(0, 2, (BATCH, STEPS)))
    words = g.add("Gather", g.weight(WORDS, HIDDEN), ids)
    places = g.add("Gather", g.weight(STEPS, HIDDEN), g.constant(np.arange(STEPS)[None], np.int64))
    kinds = g.add("Gather", g.weight(2, HIDDEN), segments)
    x = g.layer_norm(g.add("Add", g.add("Add", words, places), kinds))
    g.outputs.append(g.layer_norm(g.add("Add", _attention_of(g, x, _mask(g)), x)))


def gathers_to_split(g: Graph) -> None:
    x = g.feed("x", g.normal(3, BATCH, HIDDEN))
    g.outputs += [g.add("Gather", x, g.constant(i, np.int64), axis=0) for i in range(3)]


def quantized_product(g: Graph) -> None:
    x = g.feed("x", g.normal(STEPS, 64))
    weight = g.constant(g.rng.integers(-8, 8, (64, 48)), ml_dtypes.int4)
    scales = g.constant(g.rng.uniform(0.01, 0.02, (2, 48)))
    g.outputs.append(g.add("MatMul", x, g.add("DequantizeLinear", weight, scales, axis=0, block_size=32)))


def quantized_product_of_bytes(g: Graph) -> None:
    x = g.feed("x", g.normal(STEPS, 64))
    weight = g.constant(g.rng.integers(-128, 128, (64, 48)), np.int8)
    scales = g.constant(g.rng.uniform(0.001, 0.002, 48))
    g.outputs.append(g.add("MatMul", x, g.add("DequantizeLinear", weight, scales, axis=1)))


def quantized_table(g: Graph) -> None:
    ids = g.feed("ids", g.rng.integers(0, WORDS, (BATCH, STEPS)))
    table = g.constant(g.rng.integers(-8, 8, (WORDS, 64)), ml_dtypes.int4)
    scales = g.constant(g.rng.uniform(0.01, 0.02, (WORDS, 2)))
    g.outputs.append(g.add("Gather", g.add("DequantizeLinear", table, scales, axis=1, block_size=32), ids))


def quantized_convolution(g: Graph) -> None:
    x = g.feed("image", g.normal(1, 4, 8, 8))
    scale, zero = g.constant(0.02), g.constant(0, np.int8)
    quantised = g.add("DequantizeLinear", g.add("QuantizeLinear", x, scale, zero), scale, zero)
    weight = g.constant(g.rng.integers(-128, 128, (6, 4, 3, 3)), np.int8)
    kernel = g.add("DequantizeLinear", weight, g.constant(0.01), g.constant(0, np.int8))
    y = g.add("Conv", quantised, kernel, pads=[1, 1, 1, 1])
    g.outputs.append(g.add("DequantizeLinear", g.add("QuantizeLinear", y, scale, zero), scale, zero))


def space_to_depth(g: Graph) -> None:
    x = g.feed("image", g.normal(1, 3, 8, 8))
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        starts, ends = g.constant([row, column], np.int64), g.constant([2**31, 2**31], np.int64)
        axes, steps = g.constant([2, 3], np.int64), g.constant([2, 2], np.int64)
        parts.append(g.add("Slice", x, starts, ends, axes, steps))
    g.outputs.append(g.add("Conv", g.add("Concat", *parts, axis=1), g.weight(8, 12, 3, 3), pads=[1, 1, 1, 1]))


def grouped_query_attention(g: Graph) -> None:
    x = _rows(g)
    width, kept = 2 * HEAD, np.zeros((BATCH, 2, 0, HEAD), np.float32)
    q, k, v = (g.add("MatMul", x, g.weight(HIDDEN, size)) for size in (HIDDEN, width, width))
    cache = g.constant(np.cos(np.outer(np.arange(16), 0.3 + np.arange(HEAD // 2))))
    waves = g.constant(np.sin(np.outer(np.arange(16), 0.3 + np.arange(HEAD // 2))))
    positions = g.constant(np.tile(np.arange(STEPS), (BATCH, 1)), np.int64)
    q = g.add("RotaryEmbedding", q, positions, cache, waves, domain="com.microsoft", num_heads=HEADS)
    k = g.add("RotaryEmbedding", k, positions, cache, waves, domain="com.microsoft", num_heads=2)
    past_key, past_value = g.feed("past_key", kept), g.feed("past_value", kept)
    lengths = g.constant(np.full(BATCH, STEPS - 1), np.int32)
    total = g.constant(STEPS, np.int32)
    g.outputs += g.several(
        *("GroupQueryAttention", q, k, v, past_key, past_value, lengths, total),
        **{"outputs": 3, "domain": "com.microsoft", "num_heads": HEADS, "kv_num_heads": 2},
    )


APPROXIMATE = (("optimization.enable_gelu_approximation", "1"),)
DQ_PRODUCTS = (("session.enable_dq_matmulnbits_fusion", "1"),)
PATTERNS = (
    Pattern("gelu", gelu, "Gelu"),
    Pattern("gelu of opset 20", gelu, "Gelu", opset=20),
    Pattern("bias_gelu", bias_gelu, "BiasGelu"),
    Pattern("bias_gelu_half", bias_gelu_half, "BiasGelu", tolerance=2e-2),
    Pattern("approximate_gelu", gelu, "FastGelu", 17, APPROXIMATE, 2e-3),
    Pattern("quick_gelu", quick_gelu, "QuickGelu"),
    Pattern("silu", silu, "QuickGelu"),
    Pattern("layer_norm", layer_norm, "LayerNormalization"),
    Pattern("skip_layer_norm", skip_layer_norm, "SkipLayerNormalization"),
    Pattern("skip_layer_norm_half", skip_layer_norm_half, "SkipLayerNormalization", tolerance=2e-2),
    Pattern("rms_norm", rms_norm, "SimplifiedLayerNormalization"),
    Pattern("fused_matmul", fused_matmul, "FusedMatMul"),
    Pattern("bias_softmax", bias_softmax, "BiasSoftmax"),
    Pattern("bias_dropout", bias_dropout, "BiasDropout"),
    Pattern("attention", attention, "SkipLayerNormalization"),
    Pattern("attention_half", attention_half, "SkipLayerNormalization", tolerance=3e-2),
    Pattern("embed_layer_norm", embed_layer_norm, "SkipLayerNormalization"),
    Pattern("gathers_to_split", gathers_to_split, "Split"),
    Pattern("quantized_product", quantized_product, "MatMulNBits", opset=21),
    Pattern("quantized_product_of_bytes", quantized_product_of_bytes, "MatMulNBits", 21, DQ_PRODUCTS),
    Pattern("quantized_table", quantized_table, "Gather", opset=21),
    Pattern("quantized_convolution", quantized_convolution, "Conv"),
    Pattern("space_to_depth", space_to_depth, "SpaceToDepth"),
    Pattern("grouped_query_attention", grouped_query_attention, "GroupQueryAttention"),
)
