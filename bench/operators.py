"""Cases of single operators beyond the first table: what moves memory at a size that no cache holds, and what computes.

`bytes` of a case is what has to be read and written once; cases without it are compared with the other subjects alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.cases import Case, Feeds
from bench.models import numbers

MS = "com.microsoft"
Arrays = Callable[[], Feeds]


def node(
    kind: str,
    label: str,
    inputs: Arrays,
    *,
    constants: Mapping[str, Any] | None = None,
    outputs: int = 1,
    moved: int = 0,
    domain: str = "",
    opset: int = 21,
    dtype: str = "float16",
    tolerance: float = 2e-3,
    **attributes: Any,
) -> Case:
    """One node. Inputs in the order of feeds, then constants; an empty array stands for an input that is left out."""
    fixed = {name: np.asarray(value) for name, value in (constants or {}).items()}

    def model(kind_of_float: str) -> onnx.ModelProto:
        def typed(array: np.ndarray) -> np.ndarray:
            return array.astype(kind_of_float) if array.dtype == np.float16 else array

        given = {name: typed(array) for name, array in inputs().items()}
        names = [name if array.size else "" for name, array in {**given, **fixed}.items()]
        results = [f"y{i}" for i in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(kind, names, results, "node", domain=domain, **attributes)],
            "graph",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in given.items()
                if array.size
            ],
            [helper.make_empty_tensor_value_info(name) for name in results],
            [numpy_helper.from_array(typed(array), name) for name, array in fixed.items() if array.size],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds() -> Feeds:
        return {name: array for name, array in inputs().items() if array.size}

    return Case(
        f"{kind}/{label}",
        "operator",
        {"operator": kind, "dtype": dtype, "shape": label},
        model,
        feeds,
        tolerance=tolerance,
        bytes=moved,
        rotate=moved > 0,
    )


def _half(*shape: int) -> np.ndarray:
    return numbers("float16", *shape)


def _single(*shape: int) -> np.ndarray:
    return numbers("float32", *shape)


def _drawn(low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(low, high, shape)


def _vector(size: int) -> dict[str, np.ndarray]:
    return {"scale": np.abs(_half(size)) + np.float16(0.5), "bias": _half(size)}


def _whole(values: Any) -> np.ndarray:
    return np.asarray(values, np.int64)


def moving(unit: int) -> tuple[Case, ...]:
    """Operators that memory bounds; `unit` is 64 at full size, 1 on a simulated device."""
    n, rows = unit << 20, unit << 8  # elements of an array, rows of 4096 of them
    image = (unit // 2 or 1, 64, 128, 256)
    fp16, fp32 = 2, 4
    return (
        node("Pad", "rows", lambda: {"x": _half(rows * 4, 1022)}, constants={"pads": _whole([0, 1, 0, 1])},
             moved=fp16 * rows * 4 * (1022 + 1024)),
        node("Pad", "reflect", lambda: {"x": _half(unit * 16, 254, 254)}, mode="reflect",
             constants={"pads": _whole([0, 1, 1, 0, 1, 1])}, moved=fp16 * unit * 16 * (254 * 254 + 256 * 256)),
        node("Trilu", "lower", lambda: {"x": _half(unit // 4 or 1, 2048, 2048)}, upper=0,
             moved=fp16 * (unit // 4 or 1) * 2048 * 2048 * 3 // 2),
        node("Range", "int32", lambda: {name: np.asarray(value, np.int32) for name, value in
                                        (("start", 0), ("limit", n), ("delta", 1))},
             dtype="float32", moved=4 * n),  # floats of this size the CPU provider adds up wrongly
        node("OneHot", "last axis", lambda: {"i": _drawn(0, 1024, n // 1024)}, dtype="float32", moved=fp32 * n,
             constants={"depth": _whole(1024), "values": np.array([0, 1], np.float32)}),
        node("QuantizeLinear", "tensor", lambda: {"x": _single(rows, 4096)}, dtype="float32", moved=5 * n,
             constants={"s": np.float32(0.05), "z": np.uint8(128)}),
        node("QuantizeLinear", "axis", lambda: {"x": _half(rows, 4096)}, moved=3 * n, axis=1,
             constants={"s": np.full(4096, 0.05, np.float16), "z": np.zeros(4096, np.int8)}),
        node("DequantizeLinear", "tensor", lambda: {"x": _drawn(0, 255, rows, 4096).astype(np.uint8)}, moved=5 * n,
             dtype="float32", constants={"s": np.float32(0.05), "z": np.uint8(128)}),
        node("DequantizeLinear", "axis", lambda: {"x": _drawn(0, 255, rows, 4096).astype(np.uint8)}, moved=3 * n,
             axis=1, constants={"s": np.full(4096, 0.05, np.float16), "z": np.full(4096, 128, np.uint8)}),
        node("InstanceNormalization", "image", lambda: {"x": _half(*image)}, constants=_vector(64), moved=2 * fp16 * n),
        node("InstanceNormalization", "large images", lambda: {"x": _half(1, unit // 4 or 1, 2048, 2048)},
             constants=_vector(unit // 4 or 1), moved=2 * fp16 * max(n, 4 << 20)),
        node("GroupNormalization", "image", lambda: {"x": _half(*image)}, constants=_vector(64), num_groups=32,
             moved=2 * fp16 * n),
        node("LpNormalization", "rows", lambda: {"x": _half(rows * 4, 1024)}, axis=-1, p=2, moved=2 * fp16 * n),
        node("MeanVarianceNormalization", "image", lambda: {"x": _single(*image)}, dtype="float32", opset=13,
             axes=[0, 2, 3], moved=2 * fp32 * n),
        node("MeanVarianceNormalization", "short rows", lambda: {"x": _half(2, unit * 32, 128, 128)}, opset=13,
             axes=[0, 2, 3], moved=2 * fp16 * n),
        node("MeanVarianceNormalization", "whole", lambda: {"x": _single(*image)}, dtype="float32", opset=13,
             axes=[0, 1, 2, 3], moved=2 * fp32 * n, tolerance=1e-2),  # the CPU provider's, whose sums are fp32
        node("LRN", "image", lambda: {"x": _half(*image)}, size=5, moved=2 * fp16 * n),
        node("LRN", "image, fp32", lambda: {"x": _single(*image)}, dtype="float32", size=5, moved=2 * fp32 * n),
        node("BatchNormalization", "image", lambda: {"x": _half(*image)}, moved=2 * fp16 * n,
             constants={**_vector(64), "mean": _half(64), "var": np.abs(_half(64)) + np.float16(0.5)}),
        node("RMSNormalization", "rows", lambda: {"x": _half(rows, 4096)}, constants={"scale": _half(4096)}, opset=23,
             moved=2 * fp16 * n),
        node("SkipSimplifiedLayerNormalization", "rows", lambda: {"x": _half(rows, 4096), "skip": _half(rows, 4096)},
             constants={"gamma": _half(4096)}, domain=MS, epsilon=1e-5, moved=3 * fp16 * n),
        node("ReverseSequence", "time first", lambda: {"x": _half(512, unit * 2, 1024)}, batch_axis=1, time_axis=0,
             constants={"lengths": _drawn(1, 513, unit * 2)}, moved=2 * fp16 * n),
        node("GatherND", "rows of 2 KB", lambda: {"x": _half(n // 1024, 1024), "i": _drawn(0, n // 1024, n // 1024, 1)},
             moved=2 * fp16 * n),
        node("GatherND", "rows of 128 bytes", lambda: {"x": _half(n // 64, 64), "i": _drawn(0, n // 64, n // 64, 1)},
             moved=2 * fp16 * n + 8 * n // 64),
        node("Gather", "rows of 2 KB", lambda: {"x": _half(n // 1024, 1024), "i": _drawn(0, n // 1024, n // 1024)},
             moved=2 * fp16 * n),
        node("Where", "fp16", lambda: {"c": _drawn(0, 2, n).astype(bool), "a": _half(n), "b": _half(n)[::-1].copy()},
             moved=7 * n),
        node("Expand", "rows", lambda: {"x": _half(rows, 1, 64)}, constants={"s": _whole([rows, 64, 64])},
             moved=fp16 * n),
        node("Tile", "rows", lambda: {"x": _half(rows, 1024)}, constants={"s": _whole([1, 4])},
             moved=fp16 * n * 5 // 4),
        node("Clip", "fp16", lambda: {"x": _half(n)}, moved=2 * fp16 * n,
             constants={"low": np.float16(-1), "high": np.float16(1)}),
        node("Cast", "fp32 to fp16", lambda: {"x": _single(n)}, to=10, moved=6 * n),
        node("Gelu", "erf", lambda: {"x": _half(n)}, opset=20, moved=2 * fp16 * n),
        node("ReduceMean", "rows", lambda: {"x": _half(rows, 4096)}, constants={"axes": _whole([1])}, moved=fp16 * n),
        node("ReduceSum", "columns", lambda: {"x": _half(rows, 4096)}, constants={"axes": _whole([0])}, moved=fp16 * n,
             tolerance=1e-2),
        node("ArgMax", "rows", lambda: {"x": _half(rows, 4096)}, axis=1, moved=fp16 * n),
        node("CumSum", "rows", lambda: {"x": _single(rows, 4096)}, constants={"axis": _whole(1)}, dtype="float32",
             moved=2 * fp32 * n, tolerance=1e-4),
        node("CumSum", "columns", lambda: {"x": _single(rows, 4096)}, constants={"axis": _whole(0)}, dtype="float32",
             moved=2 * fp32 * n, tolerance=1e-4),
        node("GlobalAveragePool", "image", lambda: {"x": _half(*image)}, moved=fp16 * n),
        node("MaxPool", "3x3, steps of 2", lambda: {"x": _half(*image)}, kernel_shape=[3, 3], strides=[2, 2],
             pads=[1, 1, 1, 1], moved=fp16 * n * 5 // 4),
        node("AveragePool", "2x2", lambda: {"x": _half(*image)}, kernel_shape=[2, 2], strides=[2, 2],
             moved=fp16 * n * 5 // 4),
        node("DepthToSpace", "2", lambda: {"x": _half(*image)}, blocksize=2, moved=2 * fp16 * n),
        node("Resize", "linear, twice", lambda: {"x": _half(*image)}, mode="linear", moved=fp16 * n * 5,
             constants={"roi": np.empty(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}),
        node("Resize", "nearest, twice", lambda: {"x": _half(*image)}, mode="nearest", moved=fp16 * n * 5,
             constants={"roi": np.empty(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}),
        node("Einsum", "transposed", lambda: {"x": _half(*image)}, equation="abcd->acbd", moved=2 * fp16 * n),
    )  # fmt: skip


def computing(tiny: bool) -> tuple[Case, ...]:
    """Operators that are compared with the other subjects alone."""
    s = 16 if tiny else 1  # divides sizes
    rows, batch, tokens, steps, hidden = 4096 // s, 8 // min(s, 8), 512 // s, 128 // s, 512 // s
    image = (8 // min(s, 8), 64 // s, 128 // s, 128 // s)
    heads, width = 16 // s, 64
    size, kv = heads * width, heads // 4 or 1

    def boxes() -> Feeds:
        corners = np.sort(np.random.default_rng(3).random((1, rows, 2, 2), np.float32), axis=2).reshape(1, rows, 4)
        return {"boxes": corners, "scores": np.abs(_single(1, 4, rows))}

    def recurrent(gates: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
        weights = _single(1, gates * hidden, hidden) * np.float32(1 / np.sqrt(hidden))
        return {"w": weights.astype(dtype), "r": weights[:, ::-1].astype(dtype)}

    def attention(past: int, new: int) -> Arrays:
        return lambda: {
            "q": _half(batch, new, size),
            "k": _half(batch, new, kv * width),
            "v": _half(batch, new, kv * width)[::-1].copy(),
            "past_k": _half(batch, kv, past, width),
            "past_v": _half(batch, kv, past, width)[::-1].copy(),
        }

    def scattered() -> Feeds:
        return {"x": _single(rows, 1024), "i": _drawn(0, rows, rows, 1024), "u": _single(rows, 1024)}

    recurrences: tuple[tuple[str, int, dict[str, Any]], ...] = (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}))
    past, total = 1024 // s, 1024 // s + 1
    return (
        node("GatherElements", "columns", lambda: {"x": _single(rows, 1024), "i": _drawn(0, rows, rows, 1024)},
             dtype="float32"),
        node("ScatterElements", "replace", lambda: {"x": _single(rows, 1024), "i": _permuted(rows, 1024),
                                                    "u": _single(rows, 1024)[::-1].copy()}, dtype="float32"),
        node("ScatterElements", "add", scattered, reduction="add", dtype="float32", tolerance=1e-4),
        node("ScatterND", "rows", lambda: {"x": _half(rows * 8, 512), "i": _permuted(rows * 8, 1)[: rows * 4],
                                           "u": _half(rows * 4, 512)[::-1].copy()}),
        node("TopK", "64 of rows", lambda: {"x": _distinct(1024 // s, rows * 4)}, constants={"k": _whole([64])},
             dtype="float32", outputs=2),
        node("NonZero", "half of them", lambda: {"x": _drawn(0, 2, rows, 4096).astype(bool)}, dtype="float32"),
        node("GridSample", "bilinear",
             lambda: {"x": _single(*image), "g": np.clip(_single(*image[:1], *image[2:], 2), -1, 1)},
             opset=20, dtype="float32", tolerance=1e-4),
        node("RoiAlign", "boxes", lambda: {"x": _single(*image), "rois": _rois(256 // s, image[3]),
                                           "b": np.zeros(256 // s, np.int64)}, output_height=14, output_width=14,
             sampling_ratio=2, opset=16, dtype="float32", tolerance=1e-4),
        node("NonMaxSuppression", "4 classes", boxes, dtype="float32",
             constants={"most": _whole([100]), "iou": np.full(1, 0.5, np.float32),
                        "score": np.full(1, 0.1, np.float32)}),
        *(node(op, "one way", lambda: {"x": _single(steps, 32, hidden)}, constants=recurrent(gates), hidden_size=hidden,
               dtype="float32", tolerance=2e-2, outputs=2, **more) for op, gates, more in recurrences),
        *(node(op, "one row", lambda: {"x": _single(steps, 1, hidden)}, constants=recurrent(gates), hidden_size=hidden,
               dtype="float32", tolerance=2e-2, outputs=2, **more) for op, gates, more in recurrences),
        *(node(op, "16 bits", lambda: {"x": _half(steps, 32, hidden)}, constants=recurrent(gates, np.float16),
               hidden_size=hidden, tolerance=2e-2, outputs=2, **more) for op, gates, more in recurrences),
        node("Einsum", "attention scores",
             lambda: {name: np.roll(_half(batch, tokens, heads, width), step) for name, step in (("q", 0), ("k", 5))},
             equation="bihd,bjhd->bhij", tolerance=5e-3),
        node("MatMulInteger", "1024 rows", lambda: {"a": _drawn(0, 255, 1024 // s, 1024 // s).astype(np.uint8)},
             constants={"b": _drawn(0, 255, 1024 // s, 4096 // s).astype(np.int8)}, dtype="float32"),
        node("MeanVarianceNormalization", "one image", lambda: {"x": _single(1, 3, 224 // s, 224 // s)},
             dtype="float32", opset=13, axes=[0, 2, 3]),
        node("DynamicQuantizeLinear", "rows", lambda: {"x": _single(rows, 4096)}, dtype="float32", outputs=3),
        node("MatMulNBits", "4 bits, 1 row", lambda: {"x": _half(1, rows)}, constants=_nibbles(rows, rows), domain=MS,
             K=rows, N=rows, bits=4, block_size=32, tolerance=5e-3),
        node("MatMulNBits", "4 bits, 256 rows", lambda: {"x": _half(256 // s, rows)}, constants=_nibbles(rows, rows),
             domain=MS, K=rows, N=rows, bits=4, block_size=32, tolerance=5e-3),
        node("ConvTranspose", "4x4, steps of 2", lambda: {"x": _half(*image)}, strides=[2, 2], pads=[1, 1, 1, 1],
             constants={"w": _half(image[1], image[1], 4, 4) * np.float16(0.05)}, tolerance=5e-3),
        node("Conv", "depthwise 3x3", lambda: {"x": _half(*image)}, group=image[1], pads=[1, 1, 1, 1],
             constants={"w": _half(image[1], 1, 3, 3)}, tolerance=5e-3),
        node("MultiHeadAttention", "prefill", lambda: {name: np.roll(_half(batch, tokens, size), step) for name, step in
                                                       (("q", 0), ("k", 5), ("v", 11))}, num_heads=heads, domain=MS,
             tolerance=5e-3),
        node("Attention", "causal", lambda: {name: np.roll(_half(batch, heads, tokens, width), step) for name, step in
                                             (("q", 0), ("k", 5), ("v", 11))}, is_causal=1, opset=23, tolerance=5e-3),
        node("GroupQueryAttention", "one token", attention(past, 1), num_heads=heads, kv_num_heads=kv, domain=MS,
             constants={"lengths": np.full(batch, total - 1, np.int32), "total": np.int32(total).reshape(1)},
             outputs=3, tolerance=5e-3),
        node("RotaryEmbedding", "tokens", lambda: {"x": _half(batch, heads, tokens, width),
                                                   "p": np.tile(np.arange(tokens), (batch, 1))}, domain=MS,
             constants={"c": _half(tokens, width // 2), "s": _half(tokens, width // 2)[::-1].copy()}),
    )  # fmt: skip


def _permuted(rows: int, columns: int) -> np.ndarray:
    order = np.random.default_rng(5).permutation(rows)
    return np.ascontiguousarray(np.broadcast_to(order[:, None], (rows, columns)))


def _distinct(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(9).random((rows, columns), np.float32)


def _rois(count: int, side: int) -> np.ndarray:
    corners = np.random.default_rng(3).random((count, 2, 2), np.float32) * np.float32(side - 1)
    return np.sort(corners, axis=1).reshape(count, 4)


def _nibbles(rows: int, columns: int, block: int = 32) -> dict[str, np.ndarray]:
    packed = _drawn(0, 255, columns, rows // block, block // 2).astype(np.uint8)
    return {"w": packed, "s": np.full(columns * (rows // block), 0.01, np.float16)}


def table(tiny: bool) -> tuple[Case, ...]:
    """All of them."""
    return (*moving(1 if tiny else 64), *computing(tiny))
