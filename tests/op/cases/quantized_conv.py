"""QuantizedConv, which compiled regions make of Conv between codes: int8 in, codes or numbers out, in either layout.

Scales are powers of two, so that all that is computed in fp32 is exact: codes are the reference's. What other scales
may change is for tests/unit/ops/quantized_conv_test.cc.
"""

from functools import partial
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT
from .conv import _conv

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
_NO_BOUNDS = (-np.inf, np.inf)


def _numbers_of(bounds: Any) -> tuple[float, float]:
    """Bounds, where what is no number bounds nothing."""
    return tuple(without if np.isnan(bound) else bound for bound, without in zip(bounds, _NO_BOUNDS, strict=True))


def _coded(numbers: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    return np.clip(np.rint(numbers / np.float32(scale)) + np.float32(zero), *_LIMITS[dtype])


def quantized(x, w, scale, bias=None, shift=None, residual=None, *, dtype="int8", channels_last=0, x_zero=0,
               bounds=_NO_BOUNDS, y_scale=1.0, y_zero=0, residual_scale=1.0, residual_zero=0, sum_scale=1.0,
               sum_zero=0, sum_bounds=_NO_BOUNDS, tile=-1, **attrs):  # fmt: skip
    """`shift` is what x_zero times the weights adds up to; here x_zero is taken off x instead."""
    if channels_last:
        x = np.moveaxis(x, -1, 1)
    sums = _conv(x.astype(np.float64) - x_zero, w.astype(np.float64), **attrs)
    of_channels = (-1, 1, 1)
    numbers = sums.astype(np.float32) * scale.astype(np.float32).reshape(of_channels)
    if bias is not None:
        numbers += bias.astype(np.float32).reshape(of_channels)
    y = np.clip(numbers, *_numbers_of(bounds))
    if channels_last:
        y = np.moveaxis(y, 1, -1)
    if dtype == "float32":
        return y
    codes = _coded(y, y_scale, y_zero, "int8" if residual is not None else dtype)
    if residual is not None:
        other = (residual.astype(np.float32) - np.float32(residual_zero)) * np.float32(residual_scale)
        total = (codes - np.float32(y_zero)) * np.float32(y_scale) + other
        codes = _coded(np.clip(total, *sum_bounds), sum_scale, sum_zero, dtype)
    return codes.astype(dtype)


def _case(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any], dtype: str = "int8",
          residual: tuple[int, ...] = (), bias: bool = True, **more: Any) -> Case:  # fmt: skip
    generator = np.random.default_rng(len(x) + sum(w))
    weights = generator.integers(-128, 128, w, np.int8)
    scale = np.exp2(generator.integers(-13, -9, w[:1])).astype(np.float32)
    inputs: list[Any] = [Rand(x, "int8", full=True), weights, scale]
    inputs.append((generator.integers(-2000, 2000, w[:1]) * scale).astype(np.float32) if bias else None)
    zero = attrs.get("x_zero", 0)
    sums = weights.reshape(w[0], -1).sum(1, dtype=np.int64) if weights.size else np.zeros(w[0])
    inputs.append((-zero * sums).astype(np.int32) if zero else None)
    if residual:
        inputs.append(Rand(residual, dtype, full=True))
    while inputs[-1] is None:
        inputs.pop()
    coding = {} if dtype == "float32" else {"y_scale": 0.25, "y_zero": -3 if dtype == "int8" or residual else 100}
    return Case(op="QuantizedConv", domain=FUSED_DOMAIN, inputs=inputs, attrs={**coding, **attrs}, outputs=[dtype],
                constants={1, 2, 3, 4}, expected=partial(quantized, dtype=dtype),
                tolerance=EXACT, **more)  # fmt: skip


def _ties(dtype: str, bound: int, residual: bool = False, **attrs: Any) -> Case:
    """Sums of a few codes, whose halves are codes: every other one lies in the middle of two."""
    generator = np.random.default_rng(3)
    y_scale = np.float32(attrs["y_scale"])
    w = generator.integers(-bound, bound + 1, (32, 16, 1, 1), np.int8)
    inputs: list[Any] = [Rand((2, 9, 9, 16), "int8", full=True), w, np.full(32, y_scale / 2, np.float32)]
    if residual:
        inputs += [None, None, Rand((2, 9, 9, 32), dtype, full=True)]
    return Case(op="QuantizedConv", domain=FUSED_DOMAIN, inputs=inputs, outputs=[dtype], constants={1, 2},
                attrs={"channels_last": 1, **attrs}, expected=partial(quantized, dtype=dtype), tolerance=EXACT,
                name=f"ties-{dtype}-{attrs}")  # fmt: skip


def _large(dtype: str, **attrs: Any) -> Case:
    """Sums beyond 2^24 that the zero point takes off but for one step of one weight, an odd number."""
    w = np.random.default_rng(5).integers(50, 64, (32, 1616, 1, 1), np.int8) * np.int8(2) + np.int8(1)
    shift = (-127 * w.reshape(32, -1).sum(1, dtype=np.int64)).astype(np.int32)
    x = np.full((1, 3, 5, 1616), 127, np.int8)
    x.reshape(15, -1)[np.arange(15), np.arange(15) * 7] = 126
    return Case(op="QuantizedConv", domain=FUSED_DOMAIN, inputs=[x, w, np.full(32, 0.5, np.float32), None, shift],
                outputs=[dtype], constants={1, 2, 4}, attrs={"channels_last": 1, "x_zero": 127, **attrs},
                tolerance=EXACT, name=f"large-{dtype}-{attrs}", expected=partial(quantized, dtype=dtype))  # fmt: skip


def _refused(text: str, w: tuple[int, ...] = (8, 16, 1, 1), code: str = "NOT_SUPPORTED", constants: Any = (1, 2),
             dtype: str = "int8", **attrs: Any) -> Case:  # fmt: skip
    inputs = [Rand((1, w[1] * attrs.get("group", 1), 4, 4), "int8"), Rand(w, "int8"), Rand((w[0],), "float32")]
    return Case(op="QuantizedConv", domain=FUSED_DOMAIN, inputs=inputs, outputs=[dtype], constants=constants,
                attrs={"y_scale": 0.5, **attrs}, error=(code, text), name=text[:24])  # fmt: skip


_SAME = {"pads": [1, 1, 1, 1]}
_LAST = {"channels_last": 1}
# x channels last
_GEOMETRIES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 7, 9, 64), (64, 64, 3, 3), _SAME),
    ((1, 8, 8, 16), (24, 16, 1, 1), {}),  # less than a step of the inner dimension
    ((3, 5, 6, 48), (80, 48, 3, 3), {"pads": [0, 1, 2, 1]}),  # pieces of a step in two taps
    ((2, 9, 11, 32), (130, 32, 1, 1), {"strides": [2, 2]}),  # channels that are no whole packs
    ((1, 10, 12, 80), (16, 80, 2, 3), {"strides": [2, 1], "dilations": [3, 2], "pads": [2, 1, 0, 3]}),
    ((1, 1, 1, 16), (1, 16, 1, 1), {}),
    ((2, 4, 4, 16), (17, 16, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 3, 16), (8, 16, 3, 3), {"pads": [5, 5, 5, 5]}),  # windows beside the image
    ((0, 4, 4, 16), (8, 16, 3, 3), _SAME),
    ((2, 0, 4, 16), (8, 16, 1, 3), {"pads": [0, 1, 0, 1]}),
]
_DEEP = (  # more steps of the inner dimension than stages
    ((1, 5, 4, 272), (40, 272, 3, 3), _SAME),
    ((1, 6, 7, 1616), (33, 1616, 1, 1), {}),
)
_POINTS = (7, 8, 9)  # products, whose channels are whole segments of 32
_MANY = ((7, 56, 56, 16), (64, 16, 3, 1), {"pads": [1, 0, 1, 0]})  # for the tiles of many pixels
_MANY_CHANNELS = ((3, 56, 56, 16), (192, 16, 3, 3), _SAME)

CASES = [
    *(_case(x, w, {**attrs, **_LAST, "x_zero": -37}) for x, w, attrs in _GEOMETRIES),
    *(_case((x[0], x[3], *x[1:3]), w, {**attrs, "x_zero": 5}) for x, w, attrs in _GEOMETRIES),
    *(_case(x, w, {**attrs, **_LAST, "x_zero": -128}) for x, w, attrs in (_MANY, _MANY_CHANNELS)),
    *(
        _case(x, w, {**attrs, **_LAST, "x_zero": 11, "tile": tile})
        for tile in range(7)
        for x, w, attrs in (*_DEEP, *_GEOMETRIES[:4], ((1, 13, 11, 64), (144, 64, 1, 1), {}))
    ),
    *(
        _case(
            (1, 9, 17, 32),
            (w, 32, 3, 3),
            {**_SAME, **_LAST, "x_zero": 2, "residual_scale": 0.5, "sum_scale": 0.5, "tile": tile},
            residual=(1, 9, 17, w),
        )
        for tile in range(7)
        for w in (144, 131)
    ),
    *(_case(*_GEOMETRIES[3][:2], {"strides": [2, 2], **_LAST, "tile": tile}, "float32") for tile in range(7)),
    *(
        _case(x, w, {**_LAST, "x_zero": 11, "tile": tile})
        for tile in _POINTS
        for x, w in (((1, 13, 11, 64), (160, 64, 1, 1)), ((1, 2, 3, 1616), (96, 1616, 1, 1)))
    ),
    *(
        _case(
            (2, 9, 17, 32),
            (416, 32, 1, 1),
            {
                **_LAST,
                "x_zero": 2,
                "bounds": [-20.0, 20.0],
                "residual_scale": 0.5,
                "residual_zero": 9,
                "sum_scale": 0.5,
                "sum_zero": 5,
                "tile": tile,
            },
            dtype,
            residual=(2, 9, 17, 416),
        )
        for tile in _POINTS
        for dtype in ("int8", "uint8")
    ),
    *(
        _ties(dtype, bound, y_scale=scale, y_zero=zero)
        for bound, scale in ((1, 0.03125), (2, 0.5), (1, 2.0**-50))
        for dtype, zero in (("int8", -3), ("uint8", 131))
    ),
    *(
        _ties(dtype, 1, True, y_scale=0.25, residual_scale=other, sum_scale=scale, sum_zero=zero, residual_zero=zero)
        for other, scale in ((0.25, 0.5), (0.125, 1.0))
        for dtype, zero in (("int8", -5), ("uint8", 120))
    ),
    *(_case(*_GEOMETRIES[3][:2], {"strides": [2, 2], **_LAST}, dtype) for dtype in ("uint8", "float32")),
    _large("float32"),
    *(_large("int8", y_scale=0.5, y_zero=3, tile=tile) for tile in range(10)),
    _case(*_GEOMETRIES[0][:2], {**_SAME, **_LAST}, bias=False),
    _case((1, 16, 5, 7), (33, 16, 1, 1), {"x_zero": 9}, "float32"),
    *(
        _case(*_GEOMETRIES[0][:2], {**_SAME, **_LAST, "bounds": bounds, "x_zero": 1})
        for bounds in ([0.0, np.inf], [0.0, 6.0], [-1.5, 2.0], [np.nan, 6.0], [-1.5, np.nan])
    ),
    *(
        _case(
            (2, 6, 5, 32),
            (w, 32, 3, 3),
            {
                **_SAME,
                **_LAST,
                "x_zero": -128,
                "residual_scale": 0.5,
                "residual_zero": zero + 3,
                "sum_scale": 1.0,
                "sum_zero": zero,
                "bounds": [-20.0, 20.0],
                "sum_bounds": [0.0, np.inf],
            },
            dtype,
            residual=(2, 6, 5, w),
        )
        for w in (16, 21)
        for dtype, zero in (("int8", -128), ("uint8", 7))
    ),
    _case((2, 32, 6, 5), (21, 32, 3, 3), {**_SAME, "residual_scale": 0.5, "sum_scale": 0.5}, residual=(2, 21, 6, 5)),
    _refused("8 input channels; multiples of 16", (8, 8, 1, 1)),
    _refused("in 2 groups", (8, 16, 1, 1), group=2),
    _refused("weights that are no constant", constants=()),
    _refused("x_zero without shift", code="INVALID_ARGUMENT", x_zero=3),
    _refused("y_scale must be a positive", code="INVALID_ARGUMENT", y_scale=-1.0),
    _refused("y_scale 1e-30; 2^-60 to", y_scale=1e-30),
    _refused("y_scale 1.00000002e+30; 2^-60 to", y_scale=1e30),
    _refused("tile 10 of 10", code="INVALID_ARGUMENT", tile=10),
    _refused("tile 8 of this convolution", (16, 16, 3, 3), tile=8),
    _refused("tile 9 of this convolution", (8, 16, 1, 1), tile=9),
    _refused("tile 7 of this convolution", (16, 16, 1, 1), tile=7, strides=[2, 2]),
    _refused("y_zero 200 is no int8", code="INVALID_ARGUMENT", y_zero=200),
    _refused("bounds need 2 values, not 1", code="INVALID_ARGUMENT", bounds=[1.0]),
]
