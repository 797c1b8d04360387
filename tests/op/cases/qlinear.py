"""Operators of com.microsoft on 8-bit integers with scales and zero points."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from ..harness.tolerances import EXACT
from .pool import _average_pool

_BYTES = ("uint8", "int8")


def _code(rounded: np.ndarray, zero: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(rounded + (0.0 if zero is None else float(zero)), limits.min, limits.max).astype(dtype)


def _even_code(real: np.ndarray, zero: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    """The zero point is added before a tie is broken."""
    return _code(np.rint(real + _single(0 if zero is None else zero)), None, dtype)


def _single(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _less(x: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    return x.astype(np.int64) - (0 if zero is None else int(zero))


def _add(a: np.ndarray, a_scale: np.ndarray, a_zero: np.ndarray | None, b: np.ndarray, b_scale: np.ndarray,
         b_zero: np.ndarray | None, y_scale: np.ndarray, y_zero: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    ratios = [(_single(scale) / _single(y_scale)).astype(np.float64) for scale in (a_scale, b_scale)]
    second = (_less(b, b_zero) * ratios[1]).astype(np.float32).astype(np.float64)
    return _even_code((_less(a, a_zero) * ratios[0] + second).astype(np.float32), y_zero, a.dtype)


def _mul(a: np.ndarray, a_scale: np.ndarray, a_zero: np.ndarray | None, b: np.ndarray, b_scale: np.ndarray,
         b_zero: np.ndarray | None, y_scale: np.ndarray, y_zero: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    ratio = _single(a_scale) * _single(b_scale) / _single(y_scale)
    return _even_code(_single(_less(a, a_zero) * _less(b, b_zero)) * ratio, y_zero, a.dtype)


def _unary(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, x_scale: np.ndarray, x_zero: np.ndarray | None, y_scale: np.ndarray,
                  y_zero: np.ndarray | None = None, **attrs: float) -> np.ndarray:  # fmt: skip
        real = _single(x_scale) * _single(_less(x, x_zero))
        return _code(np.rint(_single(function(real, **attrs)) / _single(y_scale)), y_zero, x.dtype)

    return reference


def _leaky(x: np.ndarray, alpha: float = 0.01) -> np.ndarray:
    return np.where(x >= 0, x, np.float32(alpha) * x)


def _mean(x: np.ndarray, x_scale: np.ndarray, x_zero: np.ndarray, y_scale: np.ndarray, y_zero: np.ndarray,
          channels_last: int = 0) -> np.ndarray:  # fmt: skip
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    elems = _single(np.prod([x.shape[axis] for axis in axes]))
    sums = _less(x, x_zero).sum(axis=axes, keepdims=True)
    return _code(np.rint(_single(sums) * (_single(x_scale) / _single(y_scale)) / elems), y_zero, x.dtype)


def _window_mean(x: np.ndarray, x_scale: np.ndarray, x_zero: np.ndarray | None, y_scale: np.ndarray,
                 y_zero: np.ndarray | None = None, channels_last: int = 0, **attrs: Any) -> np.ndarray:  # fmt: skip
    wide = _less(x, x_zero).astype(np.float64)
    mean = _average_pool(np.moveaxis(wide, -1, 1) if channels_last else wide, **attrs)
    y = _code(np.rint(mean * (float(_single(x_scale)) / float(_single(y_scale)))), y_zero, x.dtype)
    return np.moveaxis(y, 1, -1) if channels_last else y


def _concat(y_scale: np.ndarray, y_zero: np.ndarray, *parts: np.ndarray, axis: int) -> np.ndarray:
    reals = [_single(parts[i + 1]) * _single(_less(parts[i], parts[i + 2])) for i in range(0, len(parts), 3)]
    return _code(np.rint(np.concatenate(reals, axis) / _single(y_scale)), y_zero, y_zero.dtype)


def _softmax(x: np.ndarray, x_scale: np.ndarray, _: np.ndarray, y_scale: np.ndarray, y_zero: np.ndarray, opset: int,
             axis: int = -1) -> np.ndarray:  # fmt: skip
    axes = tuple(range(axis % x.ndim, x.ndim)) if opset < 13 else (axis,)
    real = x.astype(np.float64)
    terms = np.exp((real - real.max(axis=axes, keepdims=True, initial=-128)) * float(x_scale))
    return _code(np.rint(terms / terms.sum(axis=axes, keepdims=True) / float(y_scale)), y_zero, x.dtype)


def _scale(value: float) -> Of:
    return Of(value, "float32")


def _zero(given: bool) -> Input:
    return Rand((), low=1, high=20) if given else None


def _pair(op: str, a: tuple[int, ...], b: tuple[int, ...], zeros: bool = True, y_scale: float = 0.07) -> Case:
    scale = y_scale * (20 if op == "QLinearMul" else 1)
    inputs: list[Input] = [Rand(a, full=True), _scale(0.031), _zero(zeros), Rand(b, full=True), _scale(0.057),
                           _zero(zeros), _scale(scale), *([_zero(True)] if zeros else [])]  # fmt: skip
    return Case(op=op, domain=MICROSOFT, opset=1, inputs=inputs, expected=_add if op == "QLinearAdd" else _mul,
                dtypes=_BYTES, tolerance=EXACT, constants=(1, 4),
                skip={} if zeros else {"session": "the host's inference wants the zero points"},
                name=f"{a}_{b}_{zeros}_{y_scale}".replace(", ", "x").replace(",", ""))  # fmt: skip


def _one(op: str, shape: tuple[int, ...], expected: Callable[..., np.ndarray], y_scale: float, zeros: bool = True,
         attrs: dict[str, Any] | None = None) -> Case:  # fmt: skip
    inputs: list[Input] = [Rand(shape, full=True), _scale(0.043), _zero(zeros), _scale(y_scale),
                           *([_zero(True)] if zeros else [])]  # fmt: skip
    absent = op == "QLinearAveragePool" and not zeros
    return Case(op=op, domain=MICROSOFT, opset=1, inputs=inputs, expected=expected, dtypes=_BYTES, tolerance=EXACT,
                skip={"session": "the host's inference wants the zero points"} if absent else {},
                attrs=attrs or {})  # fmt: skip


def _joined(shapes: list[tuple[int, ...]], axis: int, types: tuple[str, ...] = (), to: str = "uint8") -> Case:
    inputs: list[Input] = [_scale(0.05), Of(7, to)]
    for i, shape in enumerate(shapes):
        dtype = types[i] if types else "uint8"
        inputs += [Rand(shape, dtype, full=True), _scale(0.03 + 0.02 * i), Of(3 + i, dtype)]
    name = f"{len(shapes)}_axis{axis}_{shapes[0]}_{'_'.join(types)}_{to}"
    return Case(op="QLinearConcat", domain=MICROSOFT, opset=1, inputs=inputs, attrs={"axis": axis}, expected=_concat,
                outputs=[to], tolerance=EXACT, name=name)  # fmt: skip


def _softmax_beside_ties(size: int, margin: float) -> Case:
    """Rows of two codes, as many of each, whose shares lie `margin` above and below the middle of two codes."""
    half = size // 2
    low = (37.5 + margin) / 128  # of all of a pair's 128 codes
    x = np.repeat([[20, 10], [10, 20], [127, 117]], half, axis=1)
    inputs: list[Input] = [Of(x), _scale(-np.log(low / (1 - low)) / 10), Of(3), _scale(1 / (128 * half)), Of(0)]
    return Case(op="QLinearSoftmax", domain=MICROSOFT, opset=1, inputs=inputs, expected=_softmax, dtypes=_BYTES,
                tolerance=EXACT, attrs={"opset": 13}, name=f"beside_ties_{size}_{margin}")  # fmt: skip


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


CASES = [
    *(_pair(op, a, b, zeros) for op in ("QLinearAdd", "QLinearMul") for zeros in (False, True)
      for a, b in (((3, 5, 16), (3, 5, 16)), ((3, 5, 16), (16,)), ((3, 1, 5), (4, 1)))),
    *(_pair(op, a, b, y_scale=0.02) for op in ("QLinearAdd", "QLinearMul")
      for a, b in (((4099,), (4099,)), ((), (7,)), ((0, 3), (3,)), ((), ()))),
    # ties, with an even and an odd zero point
    *(Case(op=op, domain=MICROSOFT, opset=1, dtypes=_BYTES, tolerance=EXACT, name=f"ties_{zero}",
           expected=_add if op == "QLinearAdd" else _mul, constants=(1, 4),
           inputs=[Rand((3, 77), full=True), _scale(0.5), Of(3), Rand((3, 77), full=True), _scale(0.5), Of(6),
                   _scale(1 if op == "QLinearAdd" else 16), Of(zero)])
      for op in ("QLinearAdd", "QLinearMul") for zero in (6, 7)),
    *(_one("QLinearSigmoid", shape, _unary(_sigmoid), 0.004, zeros) for zeros in (False, True)
      for shape in ((3, 7), (4099,), (), (0,))),
    *(_one("QLinearLeakyRelu", (3, 77), _unary(_leaky), 0.05, zeros, attrs) for zeros in (False, True)
      for attrs in ({}, {"alpha": 0.3})),
    *(_one("QLinearGlobalAveragePool", shape, _mean, 0.01, attrs={"channels_last": last}) for last in (0, 1)
      for shape in ((2, 3, 7, 5), (2, 40, 41, 70), (1, 3, 9), (1, 2, 3, 4, 5), (0, 3, 2, 2),
                    # packs of codes: of a row, and of a pixel's channels; few of either over many pixels
                    (3, 7, 7, 48), (2, 5, 4, 8), (1, 1, 120, 64), (1, 120, 60, 16), (1, 9, 1, 16))),
    *(_one("QLinearAveragePool", shape, _window_mean, 0.02313,
           attrs={"kernel_shape": kernel, "channels_last": last, **more})
      for last in (0, 1) for shape, kernel, more in (
          ((2, 9, 7, 8), [3, 2], {}), ((2, 9, 8, 8), [3, 3], {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
          ((1, 9, 9, 9), [2, 3], {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 0, 0], "count_include_pad": 1}),
          ((3, 17, 9), [4], {"auto_pad": "SAME_LOWER", "strides": [3]}), ((2, 5, 4, 6, 5), [2, 3, 2], {}),
          ((2, 6, 7, 9), [3, 3], {"auto_pad": "SAME_UPPER", "count_include_pad": 1}), ((0, 5, 4, 4), [2, 2], {}))),
    _one("QLinearAveragePool", (2, 33, 20, 19), _window_mean, 0.02313, False, {"kernel_shape": [2, 2]}),
    _joined([(2, 3, 5), (2, 4, 5)], 1), _joined([(2, 16), (2, 32), (2, 16)], -1), _joined([(7,)], 0),
    _joined([(2, 3), (0, 3), (5, 3)], 0, ("int8", "uint8", "int8"), "int8"), _joined([(33, 5), (33, 9)], 1),
    *(_one("QLinearSoftmax", shape, _softmax, y_scale, attrs={"opset": opset, "axis": axis})
      for shape, axis, opset, y_scale in (((3, 7), -1, 13, 1 / 256), ((3, 5, 300), 2, 13, 1 / 2048),
                                          ((3, 5, 9), 1, 13, 1 / 256), ((3, 5, 9), 1, 12, 1 / 512),
                                          ((0, 4), 1, 13, 1 / 256),
                                          # rows of some lanes or a warp, in packs of one, four and sixteen codes, and
                                          # of a block
                                          ((37, 64), 1, 13, 1 / 256), ((5, 208), 1, 13, 1 / 512),
                                          ((5, 197), 1, 13, 1 / 512), ((5, 260), 1, 13, 1 / 512),
                                          ((5, 516), 1, 13, 1 / 1024),
                                          ((5, 128), 1, 13, 1 / 256), ((5, 132), 1, 13, 1 / 512),
                                          ((3, 5, 512), 1, 12, 1 / 1024), ((5, 1024), 1, 13, 1 / 1024),
                                          ((5, 1028), 1, 13, 1 / 1024), ((8195, 4), 1, 13, 1 / 256))),
    # shares next to a tie, a little farther from it than fp32 goes astray
    *(_softmax_beside_ties(size, margin) for size in (2, 16, 68, 1028) for margin in (2e-4, -2e-4)),
    # refusals
    *(Case(op=f"QLinear{op}AveragePool", domain=MICROSOFT, opset=1, dtypes=("uint8",), attrs=attrs,
           inputs=[Rand((1, 2)), _scale(1), Rand(()), _scale(1), Rand(())], name="rank",
           error=("INVALID_ARGUMENT", "needs batch, channels and a spatial"))
      for op, attrs in (("", {"kernel_shape": [2, 2]}), ("Global", {}))),
    Case(op="QLinearAveragePool", domain=MICROSOFT, opset=1, dtypes=("uint8",), name="kernel", attrs={"strides": [2]},
         inputs=[Rand((1, 2, 3)), _scale(1), Rand(()), _scale(1), Rand(())],
         error=("INVALID_ARGUMENT", "kernel_shape is missing"), skip={"session": "the host asks for it"}),
    Case(op="QLinearAdd", domain=MICROSOFT, opset=1, dtypes=("uint8",), name="scale",
         inputs=[Rand((2,)), Of([1, 2], "float32"), Rand(()), Rand((2,)), _scale(1), Rand(()), _scale(1)],
         error=("INVALID_ARGUMENT", "scale [2] must be one")),
    Case(op="QLinearConcat", domain=MICROSOFT, opset=1, attrs={"axis": 0}, name="parts", outputs=["uint8"],
         inputs=[_scale(1), Of(0, "uint8"), Rand((2, 3), "uint8"), _scale(1), Of(0, "uint8"), Rand((2, 4), "uint8"),
                 _scale(1), Of(0, "uint8")], error=("INVALID_ARGUMENT", "[2,4] beside [2,3]")),
    Case(op="QLinearConcat", domain=MICROSOFT, opset=1, attrs={"axis": 0}, name="float", outputs=["uint8"],
         inputs=[_scale(1), Of(0, "uint8"), Rand((2, 3), "float32"), _scale(1), Of(0, "uint8")],
         error=("INVALID_ARGUMENT", "a tensor stands here")),
]  # fmt: skip
