"""QuantizeLinear and DequantizeLinear: every granularity, type and version."""

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.dtypes import FLOAT8, SMALL_FLOATS, SUB_BYTE, code_of, numpy_dtype
from ..harness.inputs import Input
from ..harness.tolerances import EXACT
from .cast_narrow import _to_narrow_float

_INTS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
_FLOATS = (*FLOAT8, "float4_e2m1fn")
_SCALES = ("float32", "float16", "bfloat16")


def _spread(values: np.ndarray, shape: tuple[int, ...], axis: int, block: int) -> np.ndarray:
    """Scales or zero points, one for each element."""
    if values.ndim == 0 or (values.shape == (1,) and not block):
        return np.broadcast_to(values.reshape(()), shape)
    axis %= len(shape)
    if not block:
        return np.broadcast_to(values.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)
    return np.repeat(values, block, axis)[tuple(slice(n) for n in shape)]


def _limits(name: str) -> tuple[int, int]:
    info: Any = ml_dtypes.iinfo(name)
    return int(info.min), int(info.max)


def _rounded(x: np.ndarray, precision: str) -> np.ndarray:
    return x.astype(numpy_dtype(precision)).astype(np.float64)


def _quantizer(to: str, divide_in: str) -> Any:
    """`divide_in`: the type that operands and quotient are rounded to; float64 for exact quotients of integers."""

    def quantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, axis: int = 1, block_size: int = 0,
                 saturate: int = 1, **_: Any) -> np.ndarray:  # fmt: skip
        spread = [_spread(one.astype(np.float64), x.shape, axis, block_size)
                  for one in (scale, np.zeros_like(scale, np.float64) if zero is None else zero)]  # fmt: skip
        y = _rounded(_rounded(x.astype(np.float64), divide_in) / _rounded(spread[0], divide_in), divide_in)
        if to in SMALL_FLOATS:
            return _to_narrow_float(y + spread[1], to, bool(saturate), "up")
        low, high = _limits(to)
        y = np.where(np.isnan(y), low, np.rint(y) + spread[1])
        return np.clip(y, low, high).astype(numpy_dtype(to))

    return quantize


def _dequantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, axis: int = 1, block_size: int = 0,
                **_: Any) -> np.ndarray:  # fmt: skip
    x = x.astype(np.float64)
    if zero is not None:
        x = x - _spread(zero.astype(np.float64), x.shape, axis, block_size)
    scales = _spread(scale.astype(np.float64), x.shape, axis, block_size)
    return x.astype(np.float32) * scales.astype(np.float32)


def _shape_of_scales(shape: tuple[int, ...], axis: int | None, block: int) -> tuple[int, ...]:
    if axis is None:
        return ()
    if not block:
        return (shape[axis],)
    return tuple(math.ceil(n / block) if d == axis % len(shape) else n for d, n in enumerate(shape))


def _attrs(axis: int | None, block: int) -> dict[str, Any]:
    return ({} if axis is None else {"axis": axis}) | ({"block_size": block} if block else {})


def _zero_point(shape: tuple[int, ...], dtype: str) -> Input:
    if dtype in SMALL_FLOATS:
        return Rand(shape, dtype, low=-1, high=1)
    return Rand(shape, dtype, **({} if dtype in SUB_BYTE else {"low": 1, "high": 9}))


def _q(to: str, shape: tuple[int, ...] = (3, 8, 5), axis: int | None = None, block: int = 0, zero: bool = True,
       x: Input = None, dtypes: tuple[str, ...] = ("float32",), attrs: dict[str, Any] | None = None, scale: str = "",
       divide_in: str = "", scale_of: Input = None, **more: Any) -> list[Case]:  # fmt: skip
    """A case for each type of x: rounding to it is part of what is expected."""
    cases = []
    scales = _shape_of_scales(shape, axis, block)
    spread = 30.0 if to in _INTS and "8" in to else 3.0 if SUB_BYTE.get(to) else 300.0
    for dtype in dtypes:
        of = scale or dtype
        precision = divide_in or ("float64" if dtype == "int32" else of if of in _SCALES else "float32")
        source = x or (Rand(shape, dtype, low=-4000, high=4000) if dtype == "int32" else
                       Rand(shape, dtype, low=-spread, high=spread))  # fmt: skip
        given = scale_of or (Rand(scales, of, low=3, high=70) if of == "int32" else Rand(scales, of, low=0.3, high=2))
        options: dict[str, Any] = {"opset": 25} | more
        name = options.pop("name", "")
        typed = {} if zero or to == "uint8" else {"output_dtype": code_of(to)}
        cases.append(Case(
            op="QuantizeLinear", inputs=[source, given, *([_zero_point(scales, to)] if zero else [])], outputs=[to],
            attrs=_attrs(axis, block) | (attrs or {}) | typed, expected=_quantizer(to, precision), tolerance=EXACT,
            name=f"{to}_of_{dtype}_{'x'.join(map(str, shape))}_axis{axis}_block{block}_{of}{'_zero' * zero}{name}",
            **options))  # fmt: skip
    return cases


def _dq(dtype: str, shape: tuple[int, ...] = (3, 8, 5), axis: int | None = None, block: int = 0, zero: bool = True,
        scale: str = "float32", to: str = "", **more: Any) -> Case:  # fmt: skip
    scales = _shape_of_scales(shape, axis, block)
    source = Rand(shape, dtype, full=True)
    options: dict[str, Any] = {"opset": 25} | more
    extra = {"output_dtype": code_of(to)} if to else {}
    out = to or scale
    return Case(
        op="DequantizeLinear", expected=_dequantize, outputs=[out], tolerance=EXACT, attrs=_attrs(axis, block) | extra,
        inputs=[source, Rand(scales, scale, low=0.01, high=2), *([_zero_point(scales, dtype)] if zero else [])],
        name=f"{dtype}_{'x'.join(map(str, shape))}_axis{axis}_block{block}_{scale}{'_zero' * zero}_{to}",
        **options)  # fmt: skip


# shape, axis, block: rows of quads, quads along the axis, and neither; the last block shorter; four rows and more below
# one another, which share scales
_GRANULARITIES = [((3, 8, 5), 1, 0), ((3, 5, 8), 1, 0), ((4, 12), 1, 0), ((4, 7), -1, 0), ((7, 9), 0, 0), ((6,), 0, 0),
                  ((3, 16), 1, 8), ((3, 16), 1, 4), ((3, 10), 1, 4), ((6, 8), 0, 4), ((5, 3, 4), 0, 2),
                  ((2, 9, 3), 1, 2), ((5,), 0, 2), ((2, 5), 1, 9), ((40, 130), 1, 32), ((2, 3, 8), 1, 1),
                  ((3, 8), 1, 1), ((9, 3, 8), 1, 0), ((131, 44), 1, 0), ((5, 3, 4, 3), 2, 0)]  # fmt: skip
_SHAPES = [(), (0,), (1,), (3,), (4099,), (3, 5521)]

_HARD = Of([np.nan, np.inf, -np.inf, 1e10, -1e10, 0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, -128.5, 65534.5, 3e9, 0.0,
            -0.0, 7.5, -8.5, 1e-30])  # fmt: skip

CASES = [
    # types
    *(case for to in (*_INTS, *_FLOATS) for case in _q(to, dtypes=(*_SCALES, "int32"))),
    *(case for to in ("int8", "uint4", "float8_e4m3fn") for case in _q(to, zero=False, dtypes=("float32",))),
    *(case for to in ("int8", "float8_e5m2") for scale in ("float8_e8m0fnu", "float32", "float16")
      for case in _q(to, dtypes=("float32", "bfloat16"), scale=scale)),
    *_q("int16", dtypes=("int32",), scale="float32"),
    *_q("int16", dtypes=("int32",), scale="float8_e8m0fnu", axis=1),
    # granularities
    *(case for shape, axis, block in _GRANULARITIES for to in ("int8", "uint4")
      for case in _q(to, shape, axis, block)),
    *(case for shape, axis, block in _GRANULARITIES[:6] for case in _q("int8", shape, axis, block, dtypes=("int32",))),
    *(case for shape in _SHAPES for to in ("uint8", "int2") for case in _q(to, shape)),
    *_q("uint8", (3, 5521), 1, 0, dtypes=("float16",)),
    *(case for to in ("int16", "uint8", "float8_e4m3fn") for opset in (21, 25)
      for case in _q(to, (67, 12), 1, 0, dtypes=("float16", "bfloat16"), opset=opset,
                     divide_in="float32" if opset == 21 else "")),
    # rounding and saturation
    *(case for to in (*_INTS, *_FLOATS) for zero in (False, True)
      for case in _q(to, (20,), x=Of(_HARD.values, "float32"), scale_of=Of(1.0, "float32"), zero=zero, name="_hard")),
    # the same below one another, a scale for each column; ordinary ones, and one no reciprocal is made of
    *(case for scales in ([1.0, 0.5, 4.0, 3.0], [1.0, 1e-30, 0.5, 2.0])
      for case in _q("int8", (20, 4), 1, x=Of([[v] * 4 for v in _HARD.values], "float32"),
                     scale_of=Of(scales, "float32"), name=f"_hard_{scales[1]}")),
    *_q("uint8", (20,), x=Of(_HARD.values, "float32"), scale_of=Of(1e-30, "float32"), name="_tiny_scale"),
    *(case for to in FLOAT8
      for case in _q(to, (20,), x=Of(_HARD.values, "float32"), scale_of=Of(0.5, "float32"), zero=False,
                     attrs={"saturate": 0}, name="_unsaturated")),
    *_q("int8", (3000,), dtypes=("float16", "bfloat16"), name="_division"),
    *_q("int8", (3000,), dtypes=("float16", "bfloat16"), divide_in="float32", opset=21, name="_division"),
    *(case for precision in ("float16", "bfloat16", "float32")
      for case in _q("int8", (3000,), dtypes=("float32", "float16"), divide_in=precision,
                     attrs={"precision": code_of(precision)}, name=f"_in_{precision}")),
    # the fp32 nearest to the quotient would be a tie
    *_q("int16", (2,), x=Of([2**30 + 1, 2**30 - 1], "int32"), dtypes=("int32",), scale="int32",
        scale_of=Of(2**31 // 33, "int32"), zero=False),
    # versions
    *(case for to in ("int8", "uint8") for case in _q(to, (3, 4), dtypes=("float32",), opset="10+", divide_in="float32",
                                                      name="_versions")),
    *_q("int8", (3, 4), dtypes=("int32",), scale="float32", opset=(10, 13), divide_in="float64"),
    *_q("uint8", (3, 4), 1, opset="13+", divide_in="float32"),
    *_q("float8_e4m3fn", (3, 4), 1, opset="19+", divide_in="float32"),
    *(case for to in ("int8", "uint8", "int16", "uint16", "int4", "uint4", *FLOAT8)
      for case in _q(to, (3, 4), 1, 2, opset=21, divide_in="float32")),
    *_q("int8", (3, 4), dtypes=("float16", "bfloat16"), opset=(19, 21), divide_in="float32"),
    *_q("int8", (3, 4), dtypes=("int32",), opset=(19, 21), divide_in="float64"),
    # back
    *(_dq(dtype, scale=scale, to=to) for dtype in (*_INTS, "int32", *_FLOATS)
      for scale, to in (("float32", ""), ("float16", ""), ("bfloat16", "float32"), ("float8_e8m0fnu", "float16"))),
    *(_dq(dtype, shape, axis, block) for shape, axis, block in _GRANULARITIES for dtype in ("uint8", "int4")),
    *(_dq(dtype, (67, 12), 1, scale="float16") for dtype in ("int16", "int8", "float8_e4m3fn", "int32")),
    *(_dq(dtype, shape) for shape in _SHAPES for dtype in ("int8", "uint2")),
    *(_dq(dtype, zero=False, opset="10+" if dtype == "int8" else 25) for dtype in ("int8", "int32", "float8_e5m2")),
    *(_dq(dtype, (3, 4), opset=(10, 13)) for dtype in ("int8", "uint8", "int32")),
    _dq("uint8", (3, 4), 1, opset="13+"),
    *(_dq(dtype, (3, 4), 1, scale=scale, opset=(19, 21)) for dtype in ("int8", *FLOAT8)
      for scale in ("float32", "bfloat16")),
    *(_dq(dtype, (3, 4), 1, 2, scale="float16", opset=21)
      for dtype in ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int32", *FLOAT8)),
    _dq("int8", (3, 4), to="float32", scale="float16", opset=(23, 24, 25)),
    _dq("float4_e2m1fn", (3, 4), opset=(23, 24, 25)),
    _dq("int8", (3, 4), to="bfloat16"),
    # com.microsoft
    *(case for to in _INTS[:6] for case in _q(to, (3, 4), 0, dtypes=("float32", "float16"), divide_in="float32",
                                             domain=MICROSOFT, opset=1)),
    *(_dq(dtype, (3, 4), 0, scale=scale, domain=MICROSOFT, opset=1) for dtype in (*_INTS[:6], "int32")
      for scale in ("float32", "float16")),
    # a scale of one element serves the tensor
    Case(op="QuantizeLinear", inputs=[Rand((2, 9), "float32"), Of([0.5], "float32"), Of([3], "uint8")],
         expected=_quantizer("uint8", "float32"), outputs=["uint8"], opset=25, tolerance=EXACT, name="one"),
    # refusals
    *(Case(op="QuantizeLinear", inputs=[Rand((2, 9)), Rand(scale, low=1, high=2), Rand(zero, "uint8")], attrs=attrs,
           dtypes=("float32",), outputs=["uint8"], opset=25, error=("INVALID_ARGUMENT", text), name=text[:20])
      for scale, zero, attrs, text in (
          ((8,), (8,), {}, "has not one element for each place"),
          ((9,), (8,), {}, "has not the shape of the scale"),
          ((9,), (9,), {"axis": 2}, "axis 2 of an input"),
          ((2, 2), (2, 2), {"block_size": 4}, "should be [2,3]"),
          ((2, 2), (2, 2), {"block_size": -4}, "block_size -4"),
      )),
    Case(op="QuantizeLinear", inputs=[Rand((2, 9)), Rand((), low=1, high=2)], attrs={"precision": 11},
         dtypes=("float32",), outputs=["uint8"], opset=25, error=("NOT_SUPPORTED", "precision double")),
    Case(op="DequantizeLinear", inputs=[Rand((2, 9), "int8"), Rand((2,), "float32")], outputs=["float32"], opset=25,
         error=("INVALID_ARGUMENT", "has not one element"), name="scales"),
]  # fmt: skip
