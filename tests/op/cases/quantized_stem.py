"""QuantizedStem, which compiled regions make of a network's first convolution between codes: StemConv of codes.

Scales are powers of two, so that all that is computed in fp32 is exact, as in quantized_conv.py.
"""

from functools import partial
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT
from .quantized_conv import quantized
from .stem_conv import pooled


def _stem(x, w, bias, scale, *, dtype, max_pool=0, pool_pads=(0, 0, 0, 0), pool_ceil_mode=0, **attrs):
    codes = np.moveaxis(quantized(x, w, scale, bias, dtype=dtype, **attrs), 1, -1)
    if not max_pool:
        return codes
    most = pooled(codes.astype(np.float64), pool_pads, pool_ceil_mode)
    return np.maximum(most, np.iinfo(dtype).min).astype(dtype)


def _case(x: tuple[int, ...], w: tuple[int, ...], dtype: str = "int8", bias: bool = True, **attrs: Any) -> Case:
    generator = np.random.default_rng(sum(x) + sum(w))
    scale = np.exp2(generator.integers(-13, -9, w[:1])).astype(np.float32)
    inputs: list[Any] = [Rand(x, "int8", full=True), generator.integers(-128, 128, w).astype(np.float16)]
    inputs.append((generator.integers(-2000, 2000, w[:1]) * scale).astype(np.float32) if bias else None)
    inputs.append(scale)
    attrs = {"strides": [2, 2], "y_scale": 0.25, "y_zero": -3 if dtype == "int8" else 100, "x_zero": -37, **attrs}
    return Case(op="QuantizedStem", domain=FUSED_DOMAIN, inputs=inputs, attrs=attrs, outputs=[dtype],
                constants={1, 2, 3}, expected=partial(_stem, dtype=dtype), tolerance=EXACT)  # fmt: skip


def _ties(channels: int, **attrs: Any) -> Case:
    """Whole sums whose halves are codes: every other one lies in the middle of two."""
    w = np.random.default_rng(3).integers(-3, 4, (channels, 1, 1, 1)).astype(np.float16)
    return Case(op="QuantizedStem", domain=FUSED_DOMAIN, outputs=["int8"], constants={1, 3}, tolerance=EXACT,
                inputs=[Rand((2, 1, 9, 24), "int8", full=True), w, None, np.full(channels, 0.5, np.float32)],
                attrs={"strides": [1, 2], "y_scale": 1.0, **attrs}, expected=partial(_stem, dtype="int8"),
                name=f"ties-{channels}-{attrs}")  # fmt: skip


def _largest(x_zero: int, channels: int) -> Case:
    """The largest sums that there are: 11 rows of 8 columns of 2 channels."""
    x = np.full((1, 2, 12, 16), 127 if x_zero < 0 else -128, np.int8)
    w = np.full((channels, 2, 11, 8), -128, np.float16)
    w.reshape(channels, -1)[np.arange(channels), np.arange(channels)] += 1
    return Case(op="QuantizedStem", domain=FUSED_DOMAIN, outputs=["int8"], constants={1, 2, 3}, tolerance=EXACT,
                inputs=[x, w, np.full(channels, 176 * 255 * 128.0 * np.sign(-x_zero), np.float32),
                        np.ones(channels, np.float32)],
                attrs={"strides": [1, 2], "y_scale": 4.0, "x_zero": x_zero}, expected=partial(_stem, dtype="int8"),
                name=f"largest-{x_zero}-{channels}")  # fmt: skip


def _refused(text: str, code: str = "NOT_SUPPORTED", w: Any = None, bias: int = 0, scale: int = 8,
             **attrs: Any) -> Case:  # fmt: skip
    inputs = [Rand((1, 3, 16, 16), "int8"), Rand((8, 3, 3, 3), "float16") if w is None else w,
              Rand((bias,), "float32") if bias else None, Rand((scale,), "float32") if scale else None]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    return Case(op="QuantizedStem", domain=FUSED_DOMAIN, inputs=inputs, outputs=["int8"], constants={1, 3},
                attrs={"strides": [2, 2], "y_scale": 0.5, **attrs}, error=(code, text), name=text[:24])  # fmt: skip


_RELU = {"bounds": [0.0, np.inf]}
_POOL = {"max_pool": 1, "pool_pads": [1, 1, 1, 1]}
_SAME = {"pads": [3, 3, 3, 3]}
CASES = [
    *(
        _case(x, w, **attrs)
        for x, w, attrs in [
            ((2, 3, 16, 24), (64, 3, 7, 7), {**_SAME, **_RELU}),
            ((1, 3, 15, 21), (64, 3, 7, 7), _SAME),  # rows that are no whole packs
            ((2, 3, 14, 40), (32, 3, 3, 3), {"pads": [1, 1, 1, 1], "dtype": "uint8"}),
            ((2, 3, 9, 136), (24, 3, 3, 3), {"pads": [0, 1, 1, 0], "bounds": [-8.0, 20.0]}),  # two blocks of columns
            ((1, 3, 11, 80), (80, 3, 6, 6), {"pads": [2, 2, 2, 2], "x_zero": 127}),
            ((3, 1, 12, 16), (8, 1, 5, 5), {"pads": [4, 3, 2, 1], "x_zero": -128, "bias": False}),
            ((2, 4, 13, 18), (16, 4, 3, 3), {"pads": [0, 1, 2, 3], "strides": [3, 2], "x_zero": 0}),
            ((1, 2, 9, 16), (136, 2, 1, 7), {"pads": [0, 3, 0, 3], "strides": [1, 2]}),
            ((1, 3, 12, 12), (8, 3, 2, 1), {"auto_pad": "VALID"}),
            ((1, 3, 8, 6), (8, 3, 3, 3), {"pads": [0, 9, 0, 9]}),  # windows that meet no pixel
            ((0, 3, 8, 8), (8, 3, 3, 3), {}),
            ((2, 3, 32, 48), (64, 3, 7, 7), {**_SAME, **_RELU, **_POOL}),
            ((2, 3, 32, 48), (64, 3, 7, 7), {**_SAME, **_POOL, "dtype": "uint8"}),
            ((1, 3, 30, 80), (64, 3, 7, 7), {**_SAME, **_POOL}),
            ((1, 3, 9, 150), (128, 3, 5, 5), {"pads": [2] * 4, "bias": False}),
            ((2, 3, 33, 33), (192, 3, 3, 3), {"pads": [1] * 4, **_POOL, "dtype": "uint8"}),
            ((1, 3, 29, 33), (40, 3, 3, 3), {"pads": [1] * 4, **_POOL}),
            ((2, 3, 18, 122), (24, 3, 3, 3), {"pads": [1] * 4, "max_pool": 1, "pool_ceil_mode": 1, **_RELU}),
            ((2, 1, 16, 24), (16, 1, 5, 5), {"pads": [2] * 4, "strides": [1, 2], "max_pool": 1,
                                             "pool_pads": [2, 0, 1, 2], "pool_ceil_mode": 1}),
            ((1, 3, 2, 2), (8, 3, 3, 3), {"pads": [1] * 4, **_POOL}),  # one pixel
            ((1, 3, 2, 2), (8, 3, 3, 3), {"pads": [1] * 4, "max_pool": 1, "pool_pads": [2, 2, 2, 2], "dtype": "uint8"}),
            ((1, 3, 32, 40), (72, 3, 7, 7), {**_SAME, **_RELU, **_POOL}),  # no whole 64 channels
            *(  # blocks of several rows
                (x, w, {"pads": [w[2] // 2] * 4, **more})
                for x, w in [((48, 3, 66, 8), (8, 3, 3, 3)), ((9, 3, 130, 20), (64, 3, 7, 7))]
                for more in (_POOL, {})
            ),
        ]
    ),
    *(_ties(channels, **bounds) for channels in (16, 64) for bounds in ({}, {"bounds": [-7.5, 7.5]})),
    *(_ties(channels, y_zero=3, **_POOL) for channels in (16, 64)),
    *(_largest(x_zero, channels) for x_zero in (-128, 127) for channels in (8, 64)),
    *(
        _case((1, 3, 10, 12), (w, 3, 3, 3), bounds=bounds)
        for w in (16, 64)
        for bounds in ([np.nan, 3.0], [-3.0, np.nan], [-np.inf, 0.0])
    ),
    _refused("x_zero 128 is no int8", "INVALID_ARGUMENT", x_zero=128),
    _refused("x_zero 4294967296 is no int8", "INVALID_ARGUMENT", x_zero=1 << 32),
    _refused("y_scale must be a positive number", "INVALID_ARGUMENT", y_scale=0.0),
    _refused("y_zero 128 is no int8", "INVALID_ARGUMENT", y_zero=128),
    _refused("bounds need 2 values, not 1", "INVALID_ARGUMENT", bounds=[0.0]),
    _refused("an activation beside codes", "INVALID_ARGUMENT", activation="relu"),
    _refused("must have 8 elements", "INVALID_ARGUMENT", scale=7),
    _refused("must have 8 elements", "INVALID_ARGUMENT", scale=0),
    _refused("7", "INVALID_ARGUMENT", bias=7),
    _refused("strides 1 and 1", strides=[1, 1]),
    _refused("12 output channels; multiples of 8", w=Rand((12, 3, 3, 3), "float16"), scale=12),
]  # fmt: skip
