"""Quantization, and products of quantized values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.op.cases import gather_block_quantized
from tests.op.harness.dtypes import FLOATS, SMALL_FLOATS, code_of, is_float, numpy_dtype

from ..draw import Draw, Node
from .windows import MICROSOFT, _Windows, convolved


def _powers(d: Draw, dtype: str, shape: list[int] | tuple[int, ...]) -> np.ndarray:
    """Scales that a quotient by is exact, so that everyone rounds the same number."""
    return np.ldexp(1.0, d.free.integers(-3, 2, shape)).astype(np.float32).astype(_zero(dtype).dtype).reshape(shape)


def _zero(dtype: str) -> np.ndarray:
    return np.zeros((), numpy_dtype(dtype))


def _layout(d: Draw, least: int = 1) -> tuple[list[int], list[int], dict[str, Any]]:
    """The shape of values, that of their scales, and the attributes: of a tensor, an axis or a block."""
    shape = d.dims(d.integer(1, 4), least)
    rank = len(shape)
    kind = d.pick(["tensor", "axis", "block"] if "block_size" in d.schema.attributes else ["tensor", "axis"])
    if kind == "tensor" or "axis" not in d.schema.attributes:
        return shape, [], {}
    axis = d.integer(0, rank - 1)
    attrs = {"axis": d.negative(axis, rank)}
    if kind == "axis":
        return shape, [shape[axis]], attrs
    block = d.integer(1, 4)
    return (
        shape,
        [math.ceil(n / block) if a == axis else n for a, n in enumerate(shape)],
        {**attrs, "block_size": block},
    )


def _point(d: Draw, dtype: str, shape: list[int]) -> np.ndarray:
    """Zero points; floats have none but 0."""
    return np.zeros(shape, _zero(dtype).dtype) if dtype in SMALL_FLOATS or dtype == "int32" else d.moved(dtype, shape)


def _quantize(d: Draw) -> Node:
    # The scale of an integer is a float where it has a type of its own.
    same = d.schema.inputs[0].type == d.schema.inputs[1].type
    source = d.input_type(0, of=FLOATS if same else None)
    formal = d.schema.inputs[1].type
    if not same and formal in d.schema.types:  # of another type the quotient is rounded, and not by the reference
        d.type(formal, of=(source if is_float(source) else "float32",))
    scale, target = d.input_type(1), d.input_type(2)
    shape, scales, attrs = _layout(d)
    if target.startswith("float8"):
        attrs.update(d.attrs(saturate=[1, 1, None]))
    point = _point(d, target, scales)
    if d.chance(0.25) and target == "uint8":
        return Node([d.values(source, shape, -40, 40), _powers(d, scale, scales)], attrs, widen=False)
    if d.chance(0.25) and "output_dtype" in d.schema.attributes:
        attrs["output_dtype"] = code_of(target)
        return Node([_finite(d, source, shape, target), _powers(d, scale, scales)], attrs, widen=False)
    return Node([_finite(d, source, shape, target), _powers(d, scale, scales), point], attrs, widen=False)


def _finite(d: Draw, source: str, shape: list[int], target: str) -> np.ndarray:
    """No NaN: what integer it becomes is open."""
    most = 3 if "4" in target or "2" in target else 300
    return d.values(source, shape, -most, most, specials=False)


def _dequantize(d: Draw) -> Node:
    source, scale = d.input_type(0), d.input_type(1)
    shape, scales, attrs = _layout(d)
    x = d.values(source, shape, -4, 4, specials=False) if is_float(source) else d.moved(source, shape)
    point = _point(d, source, scales) if d.chance(0.6) and source != "int32" else None
    if "output_dtype" in d.schema.attributes and d.chance(0.3):
        attrs["output_dtype"] = code_of(d.type("T3", of=("float32", "float16")))
    return Node([x, _powers(d, scale, scales), point], attrs, widen=False)


def _dynamic_quantize(d: Draw) -> Node:
    return Node([d.values("float32", d.shape(0, 4, 1), -9, 9, specials=False)], {}, (True, True, True), widen=False)


def _two(d: Draw) -> tuple[list[int], list[int]]:
    m, k, n = (d.dim(1) for _ in range(3))
    batch = d.dims(d.integer(0, 2), 1, elems=9)
    return [*batch, m, k], ([k, n] if d.chance(0.5) else [*batch, k, n])


def _matmul_integer(d: Draw) -> Node:
    a, b = _two(d)
    kinds = d.input_type(0), d.input_type(1)
    a_point = d.moved(kinds[0], []) if d.chance(0.6) else None
    b_point = d.moved(kinds[1], [] if len(b) > 2 or d.chance(0.5) else [b[-1]]) if d.chance(0.6) else None
    return Node([d.moved(kinds[0], a), d.moved(kinds[1], b), a_point, b_point], formula=_products)


def _matmul_integer_to_float(d: Draw) -> Node:
    a, b = _two(d)
    b = b[-2:]
    kinds = d.input_type(0), d.input_type(1)
    scale = d.input_type(2)
    columns = [] if d.chance(0.5) else [b[-1]]
    points = [d.moved(kinds[0], []) if d.chance(0.6) else None, d.moved(kinds[1], columns) if d.chance(0.6) else None]
    bias = d.small(scale, b[-1:]) if d.chance(0.4) else None
    low = {"low": 0.001, "high": 0.01, "specials": False}
    scales = [d.values(scale, [], **low), d.values(scale, columns, **low)]
    return Node([d.moved(kinds[0], a), d.moved(kinds[1], b), *scales, *points, bias], formula=_to_float)


def _to_float(a: Any, b: Any, a_scale: Any, b_scale: Any, a_point: Any = None, b_point: Any = None,
              bias: Any = None) -> np.ndarray:  # fmt: skip
    """The CPU provider lacks pairs of types."""
    return np.asarray(_products(a, b, a_point, b_point) * a_scale * b_scale + (0 if bias is None else bias))


def _shifted(values: Any, point: Any) -> np.ndarray:
    return np.asarray(values.astype(np.int64) - (0 if point is None else point.astype(np.int64)))


def _products(a: Any, b: Any, a_point: Any = None, b_point: Any = None) -> np.ndarray:
    return np.asarray(_shifted(a, a_point) @ _shifted(b, b_point))


def _requantized(total: np.ndarray, scale: Any, y_point: Any) -> np.ndarray:
    """The reference rounds with the zero point added, which differs at ties."""
    limits = np.iinfo(y_point.dtype)
    return np.asarray(np.clip(np.rint(total * scale.astype(np.float64)) + y_point, limits.min, limits.max))


def _qlinear_product(a: Any, a_scale: Any, a_point: Any, b: Any, b_scale: Any, b_point: Any, y_scale: Any,
                     y_point: Any) -> np.ndarray:  # fmt: skip
    return _requantized(_products(a, b, a_point, b_point), a_scale * b_scale / y_scale, y_point)


def _each_channel(values: Any, rank: int) -> Any:
    return values if values is None or values.ndim == 0 else values.reshape(-1, *[1] * (rank - 1))


def _integer_convolution(x: Any, w: Any, x_point: Any = None, w_point: Any = None, **attrs: Any) -> np.ndarray:
    return convolved(_shifted(x, x_point), _shifted(w, _each_channel(w_point, w.ndim)), attrs)


def _qlinear_convolution(x: Any, x_scale: Any, x_point: Any, w: Any, w_scale: Any, w_point: Any, y_scale: Any,
                         y_point: Any, bias: Any = None, channels_last: int = 0,
                         **attrs: Any) -> np.ndarray:  # fmt: skip
    x = np.moveaxis(x, -1, 1) if channels_last else x
    total = convolved(_shifted(x, x_point), _shifted(w, _each_channel(w_point, w.ndim)), attrs)
    total = total if bias is None else total + bias.reshape(-1, *[1] * (x.ndim - 2))
    y = _requantized(total, _each_channel(x_scale * w_scale / y_scale, w.ndim - 1), y_point)
    return np.moveaxis(y, 1, -1) if channels_last else y


def _dynamic_quantize_matmul(d: Draw) -> Node:
    a, b = _two(d)
    b = b[-2:]
    kind, columns = d.input_type(1), [] if d.chance(0.5) else [b[-1]]
    point = d.moved(kind, columns) if d.chance(0.6) else None
    bias = d.small("float32", b[-1:]) if d.chance(0.4) else None
    scale = d.values("float32", columns, 0.001, 0.01, specials=False)
    x = d.values("float32", a, -3, 3, specials=False)
    # Only the CPU provider judges, and without dot products of bytes in the processor it saturates sums in 16 bits.
    weights = d.values(kind, b, -64, 63) if kind == "int8" else d.moved(kind, b)
    return Node([x, weights, scale, point, bias], widen=False, scale=300.0)


def _scale_and_point(d: Draw, index: int, shape: list[int]) -> list[np.ndarray]:
    return [_powers(d, d.input_type(index), shape), d.moved(d.input_type(index + 1), shape)]


def _qlinear_matmul(d: Draw) -> Node:
    a, b = _two(d)
    columns = [] if len(b) > 2 or d.chance(0.6) else [b[-1]]
    inputs = [d.moved(d.input_type(0), a), *_scale_and_point(d, 1, []), d.moved(d.input_type(3), b),
              *_scale_and_point(d, 4, columns), *_scale_and_point(d, 6, [])]  # fmt: skip
    return Node([*inputs], widen=False, formula=_qlinear_product)


def _qgemm(d: Draw) -> Node:
    m, k, n = (d.dim(1) for _ in range(3))
    attrs = d.attrs(transA=[0, 1, None], transB=[0, 1, None], alpha=[0.5, 2.0, None])
    columns = [] if d.chance(0.5) else [n]
    a, b = [k, m] if attrs.get("transA") else [m, k], [n, k] if attrs.get("transB") else [k, n]
    kinds = d.input_type(0), d.input_type(3)
    c = d.pick([None, [], [1], [n], [1, n], [m, 1], [m, n]])
    inputs = [d.moved(kinds[0], a), *_scale_and_point(d, 1, []), d.moved(kinds[1], b), *_scale_and_point(d, 4, columns),
              None if c is None else d.values("int32", c, -9000, 9000)]  # fmt: skip
    if d.chance(0.6):
        inputs += [_powers(d, "float32", []), d.moved(d.type("TYZ"), [])]
    return Node([*inputs], attrs, widen=False, formula=_qgemm_formula)


def _qgemm_formula(a: Any, a_scale: Any, a_point: Any, b: Any, b_scale: Any, b_point: Any, c: Any = None,
                   y_scale: Any = None, y_point: Any = None, **attrs: Any) -> np.ndarray:  # fmt: skip
    a, b = a.T if attrs.get("transA") else a, b.T if attrs.get("transB") else b
    total = _products(a, b, a_point, b_point) + (0 if c is None else c)
    scale = attrs.get("alpha", 1.0) * a_scale * b_scale
    return np.asarray(total * scale) if y_scale is None else _requantized(total, scale / y_scale, y_point)


def _conv_shapes(d: Draw) -> tuple[list[int], list[int], dict[str, Any]]:
    windows = _Windows(d, d.pick([1, 2, 2, 3]), dilate=True, most=3)
    group, inner = d.pick([1, 1, 2]), d.integer(1, 4)
    attrs = {**windows.attrs, **({"group": group} if group > 1 else {})}
    if d.chance(0.5):
        attrs["kernel_shape"] = windows.kernel
    return [d.any(1, 2), group * inner, *windows.image(d)], [group * d.integer(1, 4), inner, *windows.kernel], attrs


def _conv_integer(d: Draw) -> Node:
    x, w, attrs = _conv_shapes(d)
    kinds = d.input_type(0), d.input_type(1)
    x_point = d.moved(kinds[0], []) if d.chance(0.6) else None
    w_point = d.moved(kinds[1], [] if d.chance(0.6) else w[:1]) if d.chance(0.6) else None
    return Node([d.moved(kinds[0], x), d.moved(kinds[1], w), x_point, w_point], attrs, formula=_integer_convolution)


def _qlinear_conv(d: Draw) -> Node:
    x, w, attrs = _conv_shapes(d)
    each = [] if d.chance(0.5) else w[:1]
    inputs = [d.moved(d.input_type(0), x), *_scale_and_point(d, 1, []), d.moved(d.input_type(3), w),
              *_scale_and_point(d, 4, each), *_scale_and_point(d, 6, [])]  # fmt: skip
    bias = d.values("int32", w[:1], -500, 500) if d.chance(0.4) else None
    if "channels_last" in d.schema.attributes and d.chance(0.4):
        attrs["channels_last"] = 1
        inputs[0] = np.moveaxis(inputs[0], 1, -1)
    return Node([*inputs, bias], attrs, widen=False, formula=_qlinear_convolution)


def _gather_blocks(d: Draw) -> Node:
    source, kind = d.type("T1", of=("uint8", "int4", "uint4")), d.type("T2")
    rank, block = d.integer(2, 3), d.pick([16, 32])
    bits = d.pick([4, 8]) if source == "uint8" else 4
    per_byte = 8 // bits if source == "uint8" else 1
    shape = [d.any(1, 5) for _ in range(rank)]
    shape[-1] = block * d.any(1, 3)
    stored = [*shape[:-1], shape[-1] // per_byte]
    scales = [*shape[:-1], shape[-1] // block]
    axis = 0 if source == "uint8" else d.integer(0, rank - 2)
    indices = d.indices(d.type("Tind"), d.dims(d.integer(0, 2), 1, elems=12), shape[axis])
    attrs = {"gather_axis": axis, "quantize_axis": rank - 1, "block_size": block}
    if source == "uint8":
        attrs["bits"] = bits
    points = None
    if d.chance(0.5):
        points = d.moved(source, [*scales[:-1], math.ceil(scales[-1] / per_byte)])
    return Node([d.moved(source, stored), indices, _powers(d, kind, scales), points], attrs, widen=False,
                constants=frozenset({0, 2, 3}), formula=gather_block_quantized._gather)  # fmt: skip


SPECS = {
    ("", "QuantizeLinear"): _quantize,
    ("", "DequantizeLinear"): _dequantize,
    (MICROSOFT, "QuantizeLinear"): _quantize,
    (MICROSOFT, "DequantizeLinear"): _dequantize,
    ("", "DynamicQuantizeLinear"): _dynamic_quantize,
    ("", "MatMulInteger"): _matmul_integer,
    (MICROSOFT, "MatMulIntegerToFloat"): _matmul_integer_to_float,
    (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic_quantize_matmul,
    ("", "QLinearMatMul"): _qlinear_matmul,
    (MICROSOFT, "QGemm"): _qgemm,
    ("", "ConvInteger"): _conv_integer,
    ("", "QLinearConv"): _qlinear_conv,
    (MICROSOFT, "QLinearConv"): _qlinear_conv,
    (MICROSOFT, "GatherBlockQuantized"): _gather_blocks,
}
