"""Layer normalisation between codes, with or without a sum in front, which compiled regions make."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT

_LOWEST = {"int8": -128, "uint8": 0}
_MARGIN = 1e-3  # of a code: more than fp32 loses on the way to it
_OP = "QuantizedLayerNormalization"


def _single(value: Any) -> Any:
    return np.asarray(value, np.float32)


def _reals(codes: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Any:
    return _single(codes.astype(np.int64) - int(zero)) * _single(scale)


def _codes(reals: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Any:
    """QuantizeLinear: what saturates is cut off before the zero point is added, and NaN is the lowest."""
    least = _LOWEST[zero.dtype.name] - int(zero)
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = np.nan_to_num(np.rint(_single(reals) / _single(scale)), nan=least)
    return (np.clip(quotient, least, least + 255).astype(np.int64) + int(zero)).astype(zero.dtype)


def _summed(x: np.ndarray, x_scale: Any, x_zero: Any, residual: Any = None, residual_scale: Any = None,
            residual_zero: Any = None, sum_scale: Any = None, sum_zero: Any = None) -> Any:  # fmt: skip
    """What is normalised, of the separate nodes, each rounded to fp32."""
    numbers = _reals(x, x_scale, x_zero)
    if residual is not None:
        numbers = numbers + _reals(residual, residual_scale, residual_zero)
    if sum_scale is not None:
        numbers = _reals(_codes(numbers, sum_scale, sum_zero), sum_scale, sum_zero)
    return numbers.astype(np.float64)


def _standard(numbers: np.ndarray, epsilon: float) -> Any:
    if numbers.size == 0:
        return numbers
    deviations = numbers - numbers.mean(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return deviations / np.sqrt(np.mean(deviations**2, axis=-1, keepdims=True) + epsilon)


def _norm(*inputs: Any, epsilon: float = 1e-5) -> Any:
    gamma, beta, y_scale, y_zero = inputs[8:]
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = _standard(_summed(*inputs[:8]), epsilon) * gamma + (0 if beta is None else beta)
        return _codes(numbers, y_scale, y_zero)


def _settled(
    standards: Sequence[np.ndarray], gamma: np.ndarray, beta: np.ndarray | None, scale: float
) -> tuple[Any, Any]:
    """Scale and bias for which no element lies next to the middle of two codes: one of them moves, column by column."""
    gamma, beta = gamma.copy(), None if beta is None else beta.copy()
    rows = np.concatenate([standard.reshape(-1, gamma.size) for standard in standards])
    for _ in range(200):
        shift = 0 if beta is None else beta.astype(np.float64)
        codes = (rows * gamma.astype(np.float64) + shift) / np.float64(scale)
        near = np.any(np.abs(codes - np.floor(codes) - 0.5) <= _MARGIN, axis=0)
        if not near.any():
            return gamma, beta
        if beta is None:
            gamma[near] *= np.float32(1.003)
        else:
            beta[near] += np.float32(scale * 0.071)
    raise ValueError("no scale and bias keep clear of ties")


def _case(shape: tuple[int, ...], types: tuple[str, str, str, str], beta: bool = True, epsilon: float = 1e-5,
          sum_scale: float = 0.057, y_scale: float = 0.021, alike: bool = False, odd: bool = False,
          name: str = "") -> Case:  # fmt: skip
    """`types`: of x, residual, sum and y; empty for none. `alike`: rows of one number."""
    generator = np.random.default_rng(sum(shape))
    of_x, of_residual, of_sum, of_y = types

    def coded(dtype: str, scale: float, zero: int, values: bool = True) -> list[Any]:
        if not dtype:
            return [None] * (2 + values)
        about: list[Any] = [np.array(scale, np.float32), np.array(_LOWEST[dtype] + zero).astype(dtype)]
        if not values:
            return about
        lowest = _LOWEST[dtype]
        codes = generator.integers(lowest, lowest + 256, shape).astype(dtype)
        if alike:
            codes[...] = codes[..., :1] if codes.ndim == 1 else codes[:1, :1]
        return [codes, *about]

    inputs = [*coded(of_x, 0.043, 117), *coded(of_residual, 0.031, 140), *coded(of_sum, sum_scale, 131, values=False)]
    gamma = generator.uniform(0.3, 1.7, shape[-1]).astype(np.float32)
    shift = generator.uniform(-0.5, 0.5, shape[-1]).astype(np.float32) if beta else None
    rolled = [v if v is None or v.ndim == 0 else np.roll(v.reshape(-1), 1).reshape(v.shape) for v in inputs]
    if y_scale > 1e-6 and 0 not in shape:
        standards = [_standard(_summed(*values), epsilon) for values in (inputs, rolled)]
        gamma, shift = _settled(standards, gamma, shift, y_scale)
    if odd and shift is not None:
        gamma[:8] = [np.nan, np.inf, -np.inf, 0, 3e38, -3e38, 1e-38, 1]
        shift[7:10] = [np.nan, np.inf, -np.inf]
    inputs += [gamma, shift, *coded(of_y, y_scale, 126, values=False)]
    label = ["x".join(map(str, shape)), *(t or "none" for t in types), "" if beta else "no_bias", name]
    return Case(op=_OP, domain=FUSED_DOMAIN, inputs=inputs, attrs={"epsilon": epsilon}, outputs=[of_y],
                constants={8, 9}, expected=_norm, tolerance=EXACT, name="_".join(filter(None, label)))  # fmt: skip


def _ties(columns: int, beta: bool) -> Case:
    """Deviations of 1 and -1, of which every other column makes the middle of two codes."""
    signs = np.where(np.arange(4 * columns).reshape(4, columns) % 2 == 0, 1, -1)
    gamma = (np.arange(columns) % 1000 * 0.125).astype(np.float32)
    shift = np.resize(np.array([0, 0.25, 0.125], np.float32), columns) if beta else None
    inputs = [(signs + 5).astype(np.int8), _single(1), np.int8(3), *[None] * 5, gamma, shift, _single(0.25), np.int8(1)]
    return Case(op=_OP, domain=FUSED_DOMAIN, inputs=[None if v is None else np.asarray(v) for v in inputs],
                attrs={"epsilon": 0.0}, outputs=["int8"], constants={8, 9}, expected=_norm, tolerance=EXACT,
                name=f"ties_{columns}_{beta:d}")  # fmt: skip


_SCALE, _ZERO, _ROW = np.array(0.5, np.float32), np.array(0, np.int8), Rand((8,), "float32")
_X = [Rand((3, 8), "int8"), _SCALE, _ZERO]
_NONE, _LAST = [None] * 5, [_ROW, _ROW, _SCALE, _ZERO]


def _refused(text: str, *inputs: Any) -> Case:
    return Case(op=_OP, domain=FUSED_DOMAIN, inputs=inputs, outputs=["int8"], attrs={"epsilon": 1e-5},
                error=("INVALID_ARGUMENT", text), name=text.replace(" ", "_"))  # fmt: skip


_PLAIN, _NUMBERS, _CODES = ("int8", "", "", "int8"), ("int8", "int8", "", "int8"), ("int8", "int8", "int8", "int8")

CASES = [
    # packs of sixteen, eight and four codes, whole rows of lanes and others; rows of one code; a block a row
    *(_case(shape, types) for types in (_PLAIN, _NUMBERS, _CODES) for shape in (
        (5, 768), (3, 1), (3, 8), (2, 2, 1000), (3, 1001), (2, 3000), (5, 512), (3, 1024), (2, 1536), (2, 2048),
        (3, 1280), (3, 384), (5, 128), (2, 1012), (2, 2044), (3, 20), (2, 2052), (16,), (37, 64),
        (0, 768), (3, 0), (2, 0, 3))),
    *(_case((3, width), (x, residual, total, y)) for width in (48, 51) for x in ("int8", "uint8")
      for residual in ("", "int8", "uint8") for total in (("", "int8", "uint8") if residual else ("",))
      for y in ("int8", "uint8")),
    *(_case((3, width), types, beta=False) for width in (48, 51) for types in (_PLAIN, _CODES)),
    # rows of one number have no deviation, whatever rounding makes of their mean
    *(_case((3, width), types, epsilon=1e-12, alike=True, name="alike") for width in (48, 768, 1001)
      for types in (_PLAIN, _NUMBERS, _CODES)),
    _ties(64, beta=False), _ties(768, beta=True), _ties(66, beta=True),
    *(_case((3, width), types, odd=True, name="odd") for width in (48, 51) for types in (_PLAIN, _CODES)),
    # scales without a reciprocal
    _case((3, 48), _PLAIN, y_scale=2.0**-70, name="tiny"), _case((3, 48), _CODES, sum_scale=2.0**70, name="huge"),
    # refusals
    _refused("a scalar has no rows", Rand((), "int8"), _SCALE, _ZERO, *_NONE, *_LAST),
    _refused("must have the dimensions of", *_X, Rand((8,), "int8"), _SCALE, _ZERO, None, None, *_LAST),
    _refused("must have an element for each column", *_X, *_NONE, Rand((3,), "float32"), *_LAST[1:]),
    _refused("scale or bias", *_X, *_NONE, _ROW, Rand((3, 8), "float32"), _SCALE, _ZERO),
    _refused("a residual comes with its scale", *_X, Rand((3, 8), "int8"), None, None, None, None, *_LAST),
    _refused("codes of a sum without a residual", *_X, None, None, None, _SCALE, _ZERO, *_LAST),
    _refused("must be one element", _X[0], np.ones(2, np.float32), _ZERO, *_NONE, *_LAST),
    _refused("input 10 is missing", *_X, *_NONE, _ROW, _ROW),
]  # fmt: skip
