"""CumSum and CumProd."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.tolerances import Tolerance

_FLOATS = ("float32", "float16", "bfloat16", "float64")
_TYPES = (*_FLOATS, "int32", "int64", "uint32", "uint64")
_SUM = {"float64": Tolerance(4), "float32": Tolerance(4), "float16": Tolerance(0.6), "bfloat16": Tolerance(0.6)}
# A product is rounded once for each factor, in any order: errors of 0.2 epsilons or so that add up as a random walk.
_PRODUCT = {
    "float64": Tolerance(4, terms=1.5),
    "float32": Tolerance(4, terms=1.5),
    "float16": Tolerance(0.6, terms=1.5),
    "bfloat16": Tolerance(0.6, terms=1.5),
}


def _scan(x: np.ndarray, axis: np.ndarray, exclusive: int, reverse: int, product: bool) -> np.ndarray:
    along = int(axis.reshape(()))
    line = np.flip(x, along) if reverse else x
    out = (np.cumprod if product else np.cumsum)(line, axis=along, dtype=x.dtype)  # type: ignore[operator]
    if exclusive:
        out = np.roll(out, 1, axis=along)
        first: list[Any] = [slice(None)] * x.ndim
        first[along] = slice(0, 1)
        out[tuple(first)] = 1 if product else 0
    return np.flip(out, along) if reverse else out


def _sum(x: np.ndarray, axis: np.ndarray, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    return _scan(x, axis, exclusive, reverse, product=False)


def _product(x: np.ndarray, axis: np.ndarray, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    return _scan(x, axis, exclusive, reverse, product=True)


def _walk(x: np.ndarray, axis: np.ndarray, **attrs: int) -> np.ndarray:
    """Products, times the root of how many factors each has."""
    return np.abs(_product(x, axis, **attrs)) * np.sqrt(_sum(np.ones_like(x), axis, **attrs))


# shape, axis: rows of a warp, of a block, in segments; columns, in segments
_LINES: list[tuple[tuple[int, ...], int]] = [
    ((5,), 0),
    ((1,), -1),
    ((3, 4), 1),
    ((3, 4), 0),
    ((0, 3), 0),
    ((3, 0), 0),
    ((3, 130), -1),
    ((2, 511), 1),
    ((2, 1500), 1),
    ((2, 2049), 1),
    ((1, 70001), 1),
    ((1, 65536), 1),
    ((2, 5, 3), 1),
    ((2, 3, 4, 5), -3),
    ((200, 3), 0),
    ((2, 1001, 33), 1),
]


def _case(op: str, shape: Sequence[int], axis: int, dtypes: Sequence[str], index: str = "int64", **more: Any) -> Case:
    product = op == "CumProd"
    # Factors around 1, lest a product of many is 0 or infinite.
    long = shape[axis] > 64
    spread = {"low": 0.9, "high": 1.1} if product and long else {"low": -2, "high": 3}
    if any(t.startswith("uint") for t in dtypes):
        spread = {"low": 0, "high": 3}
    values = Rand(shape, **spread, nonzero=product)
    if product and long and all(t not in _FLOATS for t in dtypes):
        values = Rand(shape, full=True)
    return Case(**({"op": op, "inputs": [values, Of(axis, index)], "expected": _product if product else _sum,
                    "dtypes": dtypes, "tolerance": _PRODUCT if product else _SUM,
                    "magnitude": _walk if product else lambda x, axis, **attrs: _sum(np.abs(x), axis, **attrs),
                    "name": f"{'x'.join(map(str, shape))}_axis_{axis}"} | more))  # fmt: skip


def _ways(op: str, shape: Sequence[int], axis: int, dtypes: Sequence[str]) -> list[Case]:
    return [
        _case(op, shape, axis, dtypes, attrs={"exclusive": exclusive, "reverse": reverse},
              name=f"{'x'.join(map(str, shape))}_axis_{axis}_exclusive_{exclusive}_reverse_{reverse}")
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ]  # fmt: skip


CASES = [
    *(case for row in _LINES for case in _ways("CumSum", *row, ("float32",))),
    *(case for row in _LINES if 70000 > row[0][row[1]] > 3 for case in _ways("CumSum", *row, ("float16", "int64"))),
    *(case for row in _LINES if 2000 > row[0][row[1]] > 3 for case in _ways("CumProd", *row, ("float32",))),
    _case("CumProd", (2, 3000), 1, ("int32", "uint64"), name="wraps_around"),
    _case("CumSum", (3, 40), 1, _TYPES, opset="11+", attrs={"reverse": 1}, name="types"),
    _case("CumProd", (3, 40), 1, _TYPES, attrs={"exclusive": 1}, name="types"),
    *(_case(op, (7, 5), 0, ("float32",), "int32") for op in ("CumSum", "CumProd")),
    *(_case(op, (7, 5), 0, ("float32",), constants=(1,), name="constant") for op in ("CumSum", "CumProd")),
    Case(op="CumSum", inputs=[Rand((3, 9), full=True), Of([1], "int64")], expected=_sum, dtypes=("int32", "uint64"),
         name="wraps_around"),
    Case(op="CumSum", inputs=[Of([1.0, np.inf, 2.0, -np.inf, 1.0]), Of(0, "int64")], expected=_sum,
         dtypes=("float32", "float16"), name="infinite"),
    # rows of several tiles, some of whose products leave the range of the type and come back, or do not
    *(_case("CumProd", (3, 2500), 1, _FLOATS, attrs={"exclusive": exclusive, "reverse": exclusive},
            name=f"long_{exclusive}")
      for exclusive in (0, 1)),
    *(Case(op="CumProd", inputs=[Of([*[1.0] * 1100, *[factor] * count, *[1 / factor] * count, *tail]), Of(0, "int64")],
           expected=_product, dtypes=("float32", "float64"), tolerance=_PRODUCT, magnitude=_walk,
           name=f"{name}_in_the_middle")
      for name, factor, count, tail in (("infinite", 4.0, 600, [2.0] * 1100), ("tiny", 0.25, 600, [2.0] * 1100),
                                        ("large", 4.0, 60, [-1.5, *[1.0] * 1100, 0.0, *[5.0] * 900]),
                                        ("small", 0.25, 60, [2.0, np.nan, *[2.0] * 1100]))),
    # a zero, or a tiny factor, before what would be infinite without it
    *(
        Case(op="CumProd", inputs=[Of([first, *[3.0] * 700]), Of(0, "int64")], expected=_product, dtypes=("float32",),
             tolerance=_PRODUCT, magnitude=_walk, name=f"after_{first}")
        for first in (0.0, 1e-30, np.inf)
    ),
    Case(op="CumSum", inputs=[Rand((3,)), Of(1, "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 1 is outside [-1, 1)")),
    Case(op="CumSum", inputs=[Rand((3,)), Of([0, 0], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis has shape [2]")),
]  # fmt: skip
