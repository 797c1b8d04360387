"""ConvInteger and QLinearConv: what Conv can do, with zero points, scales of channels and a bias."""

from math import prod
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from ..harness.tolerances import EXACT
from .conv import _DEPTHWISE, _EMPTY, _GEOMETRIES, _conv
from .matmul_integer import _requantized

_BYTES = ("int8", "uint8")
_MOST = [((1, 40, 12, 15), (70, 40, 3, 3), {"pads": [1, 1, 1, 1]}), ((3, 16, 9, 9), (65, 16, 1, 1), {})]


def _of_channels(values: np.ndarray, rank: int) -> np.ndarray:
    return values.reshape(-1, *[1] * (rank - 1))


def _integer(x: np.ndarray, w: np.ndarray, x_zero: np.ndarray | None = None, w_zero: np.ndarray | None = None,
             **attrs: Any) -> np.ndarray:  # fmt: skip
    """Padding is the zero point, which stands for 0."""
    real = x.astype(np.float64) - (0 if x_zero is None else x_zero.reshape(()).astype(np.float64))
    weights = w.astype(np.float64) - (0 if w_zero is None else _of_channels(w_zero.astype(np.float64), w.ndim))
    sums: np.ndarray = _conv(real, weights, **attrs)
    return sums.astype(np.int64).astype(np.int32)


def _linear(x: np.ndarray, x_scale: np.ndarray, x_zero: np.ndarray, w: np.ndarray, w_scale: np.ndarray,
            w_zero: np.ndarray, y_scale: np.ndarray, y_zero: np.ndarray, bias: np.ndarray | None = None,
            channels_last: int = 0, **attrs: Any) -> np.ndarray:  # fmt: skip
    acc = _integer(x, w, x_zero, w_zero, **attrs)
    if bias is not None:
        acc = acc + _of_channels(bias, x.ndim - 1)
    scale = w_scale.astype(np.float32) * x_scale.astype(np.float32) / y_scale.astype(np.float32)
    return _requantized(acc, _of_channels(scale, x.ndim - 1), y_zero)


def _skip(x: tuple[int, ...], w: tuple[int, ...]) -> dict[str, str]:
    many = prod(x) * prod(w[2:]) > 10_000
    return {"sliced": "thousands of launches of what smaller cases show"} if many else {}


def _case(geometry: Any, types: tuple[str, str] = ("uint8", "int8"), zeros: str = "scalar", **more: Any) -> Case:
    x, w, attrs = geometry
    shape = {"none": None, "scalar": (), "channels": (w[0],)}[zeros]
    inputs: list[Input] = [Rand(x, types[0], full=True), Rand(w, types[1], full=True)]
    if shape is not None:
        inputs += [Rand((), types[0], full=True), Rand(shape, types[1], full=True)]
    return Case(op="ConvInteger", inputs=inputs, attrs=attrs, expected=_integer, opset=10, tolerance=EXACT,
                skip=_skip(x, w), **more)  # fmt: skip


def _linear_case(geometry: Any, types: tuple[str, str, str] = ("uint8", "int8", "uint8"), channels: bool = True,
                 bias: bool = True, **more: Any) -> Case:  # fmt: skip
    x, w, attrs = geometry
    of = (w[0],) if channels else ()
    inputs: list[Input] = [
        Rand(x, types[0], full=True), Rand((), "float32", low=0.01, high=0.02), Rand((), types[0], full=True),
        Rand(w, types[1], full=True), Rand(of, "float32", low=0.01, high=0.1), Rand(of, types[1], full=True),
        Of(1.5, "float32"), Rand((), types[2], full=True),
        *([Rand((w[0],), "int32", low=-20000, high=20000)] if bias else []),
    ]  # fmt: skip
    options: dict[str, Any] = {"opset": 10} | more
    return Case(op="QLinearConv", inputs=inputs, attrs=attrs, expected=_linear, tolerance=EXACT,
                skip=_skip(x, w), **options)  # fmt: skip


_PLAIN = _GEOMETRIES[3]

CASES = [
    *(_case(geometry) for geometry in _GEOMETRIES + _DEPTHWISE + _EMPTY + _MOST),
    *(_case(_PLAIN, (x, w), zeros) for x in _BYTES for w in _BYTES for zeros in ("none", "scalar", "channels")),
    _case(_GEOMETRIES[14], zeros="channels"),
    *(_linear_case(geometry) for geometry in _GEOMETRIES + _DEPTHWISE[:4] + _EMPTY + _MOST),
    *(_linear_case(_PLAIN, (x, w, y)) for x in _BYTES for w in _BYTES for y in _BYTES),
    *(_linear_case(_PLAIN, channels=channels, bias=bias) for channels in (False, True) for bias in (False, True)),
    *(_linear_case(_PLAIN, (x, w, x), domain=MICROSOFT, opset=1) for x in _BYTES for w in _BYTES),
    # refusals
    Case(op="QLinearConv", domain=MICROSOFT, opset=1, attrs={"channels_last": 1}, outputs=["uint8"],
         inputs=_linear_case(_PLAIN).inputs, error=("NOT_SUPPORTED", "channels_last")),
    Case(op="ConvInteger", opset=10, outputs=["int32"], name="w_zero",
         inputs=[Rand((1, 2, 3), "int8"), Rand((3, 2, 2), "int8"), Rand((), "int8"), Rand((2,), "int8")],
         error=("INVALID_ARGUMENT", "must have one element or 3")),
    Case(op="ConvInteger", opset=10, outputs=["int32"], name="x_zero",
         inputs=[Rand((1, 2, 3), "int8"), Rand((3, 2, 2), "int8"), Rand((2,), "int8")],
         error=("INVALID_ARGUMENT", "must be one element")),
    Case(op="ConvInteger", opset=10, outputs=["int32"], name="channels",
         inputs=[Rand((1, 2, 3), "int8"), Rand((3, 3, 2), "int8")], error=("INVALID_ARGUMENT", "channels")),
]  # fmt: skip
