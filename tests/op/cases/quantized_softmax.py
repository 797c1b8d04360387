"""Softmax of masked scores between codes, which compiled regions make."""

from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT

_LOWEST = {"int8": -128, "uint8": 0, "float32": 0}


def _single(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _reals(codes: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return _single(codes.astype(np.int64) - zero) * _single(scale)


def _codes(reals: np.ndarray, scale: float, zero: int, lowest: int) -> np.ndarray:
    """QuantizeLinear: what saturates is cut off before the zero point is added, and NaN is the lowest."""
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = np.nan_to_num(np.rint(reals / _single(scale)), nan=lowest - zero)
    return np.clip(quotient, lowest - zero, lowest + 255 - zero).astype(np.int64) + zero


def _reference(to: str) -> Any:
    """The separate nodes, one after another, with the powers' sum in double."""

    def masked_softmax(x: np.ndarray, mask: np.ndarray, x_scale: float, x_zero: int, sum_scale: float, sum_zero: int,
                       y_scale: float, y_zero: int, mask_scale: float = 1,
                       mask_zero: int = 0) -> np.ndarray:  # fmt: skip
        is_codes = np.issubdtype(mask.dtype, np.integer)
        added = _reals(mask, mask_scale, mask_zero) if is_codes else _single(mask)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = _reals(x, x_scale, x_zero) + added
        codes = _codes(scores, sum_scale, sum_zero, 0)
        highest = codes.max(axis=-1, keepdims=True, initial=0)
        terms = np.exp((codes - highest) * np.float64(_single(sum_scale)))
        return _codes(_single(terms / terms.sum(axis=-1, keepdims=True)), y_scale, y_zero, _LOWEST[to]).astype(to)

    return masked_softmax


def _case(x: tuple[int, ...], mask: tuple[int, ...], types: tuple[str, str, str] = ("int8", "float32", "int8"),
          given: Input = None, sum_scale: float = 0.061, y_scale: float = 1 / 255, name: str = "",
          **more: Any) -> Case:  # fmt: skip
    """A mask of codes reaches as far as the scores do, and beyond what the masked codes hold."""
    attrs: dict[str, Any] = {"x_scale": 0.043, "x_zero": _LOWEST[types[0]] + 117, "sum_scale": sum_scale,
                             "sum_zero": 131, "y_scale": y_scale, "y_zero": _LOWEST[types[2]]}  # fmt: skip
    coded = types[1] != "float32"
    if coded:
        attrs |= {"mask_scale": 0.05, "mask_zero": _LOWEST[types[1]] + 200}
    drawn = Rand(mask, types[1], full=True) if coded else Rand(mask, types[1], low=-6, high=2)
    shapes = "_".join("x".join(map(str, shape)) for shape in (x, mask))
    about: dict[str, Any] = {"expected": _reference(types[2]), "tolerance": EXACT} | more
    inputs: list[Input] = [Rand(x, types[0], full=True), drawn if given is None else given]
    return Case(op="QuantizedSoftmax", domain=FUSED_DOMAIN, inputs=inputs, attrs=attrs, outputs=[types[2]],
                name="_".join([shapes, *types, name]), **about)  # fmt: skip


def _keys(*shape: int) -> np.ndarray:
    """As models have it: 0, or the lowest number for the last keys of a batch."""
    mask = np.zeros(shape, np.float32)
    for b in range(shape[0]):
        mask[b, ..., shape[-1] - 2 - b :] = np.finfo(np.float32).min
    return mask


_INT8 = ("int8", "int8", "int8")
_ODD = np.array([np.nan, np.inf, -np.inf, 0, 3e38, -3e38, 1e-38, -1] * 4, np.float32)

CASES = [
    *(_case(x, mask, types) for types in (("int8", "float32", "int8"), _INT8) for x, mask in (
        # by key and by query, for each batch and head or for all
        ((2, 3, 5, 32), (2, 1, 1, 32)), ((2, 3, 5, 32), (1, 1, 1, 32)), ((2, 3, 5, 32), (2, 1, 5, 32)),
        ((2, 3, 5, 32), (1, 1, 5, 32)), ((2, 3, 5, 32), (1, 3, 5, 32)), ((2, 3, 5, 32), (2, 3, 5, 32)),
        ((2, 3, 5, 32), (5, 32)), ((2, 3, 5, 32), (2, 3, 1, 32)), ((2, 3, 5, 32), (32,)), ((5, 32), (1, 32)),
        ((3, 5, 32), (3, 1, 32)), ((32,), (32,)), ((0, 2, 3, 4), (1, 1, 1, 4)), ((2, 2, 3, 0), (1, 1, 1, 0)),
        # lanes of a row, packs of a lane, packs of one, four and sixteen codes, and a block a row
        ((2, 1, 37, 128), (2, 1, 1, 128)), ((3, 2, 2, 256), (3, 1, 1, 256)), ((2, 2, 2, 384), (2, 1, 1, 384)),
        ((2, 2, 2, 528), (2, 1, 1, 528)), ((2, 2, 3, 68), (2, 1, 1, 68)), ((2, 2, 3, 132), (2, 1, 1, 132)),
        ((2, 1, 3, 260), (2, 1, 1, 260)), ((2, 1, 3, 516), (2, 1, 1, 516)), ((2, 2, 3, 49), (2, 1, 3, 49)),
        ((2, 1, 3, 257), (2, 1, 1, 257)), ((2, 1, 3, 1040), (2, 1, 1, 1040)))),
    *(_case((2, 3, 5, 48), (2, 1, 1, 48), (x, mask, y)) for x in ("int8", "uint8")
      for mask in ("float32", "int8", "uint8") for y in ("int8", "uint8")),
    # more rows than the grid has at once
    _case((2, 4, 4099, 16), (2, 1, 1, 16)),
    # rows of few keys, whose codes are alike
    _case((3, 2, 4, 16), (3, 1, 1, 16), given=_keys(3, 1, 1, 16), sum_scale=256.9, name="lowest"),
    _case((2, 3, 5, 32), (32,), given=_ODD, name="odd"), _case((2, 3, 5, 33), (33,), given=np.append(_ODD, _ODD[:1]),
                                                               name="odd"),
    # scales without a reciprocal
    _case((2, 3, 5, 32), (2, 1, 1, 32), y_scale=2.0**-70, name="tiny"),
    _case((2, 3, 5, 32), (2, 1, 1, 32), _INT8, sum_scale=2.0**70, name="huge"),
    # refusals
    *(_case((2, 3, 5, 32), mask, expected=None, tolerance=None, name="mask",
            error=("INVALID_ARGUMENT", "does not repeat over scores"))
      for mask in ((2, 1, 1, 1), (3, 1, 1, 32), (1, 2, 3, 5, 32), (), (5, 1))),
    *(_case(x, (32,), expected=None, tolerance=None, name="rank",
            error=("INVALID_ARGUMENT", "must have 1 to 4 dimensions")) for x in ((), (1, 1, 1, 1, 32))),
    *(Case(op="QuantizedSoftmax", domain=FUSED_DOMAIN, inputs=[Rand((2, 3), "int8"), Rand((3,), "int8")],
           attrs={"x_scale": 1.0, "mask_scale": 1.0, "sum_scale": 1.0, "y_scale": 1.0} | wrong, outputs=["int8"],
           name="_".join(wrong), error=("INVALID_ARGUMENT", text))
      for wrong, text in (({"x_scale": 0.0}, "x_scale must be a positive number"),
                          ({"mask_scale": -1.0}, "mask_scale must be"), ({"y_scale": 0.0}, "y_scale must be"),
                          ({"sum_zero": -1}, "sum_zero -1 is no uint8"), ({"x_zero": 128}, "x_zero 128 is no int8"))),
]  # fmt: skip
