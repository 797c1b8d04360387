"""Unique: values, first places, inverse and counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, INTS
from ..harness.tolerances import EXACT


def _unique(x: np.ndarray, axis: int | None = None, sorted: int = 1) -> tuple[np.ndarray, ...]:
    """By comparing items one by one; NaN equals NaN and comes last."""
    count = x.size if axis is None else x.shape[axis]
    items = (x if axis is None else np.moveaxis(x, axis, 0)).reshape(count, x.size // max(count, 1))
    keys = [tuple((v != v, 0 if v != v else v) for v in row.tolist()) for row in items]
    found = _in_order(set(keys)) if sorted else list(dict.fromkeys(keys))
    place = {key: i for i, key in enumerate(found)}
    inverse = np.array([place[key] for key in keys], np.int64)
    firsts = np.array([keys.index(key) for key in found], np.int64)
    counts = np.bincount(inverse, minlength=len(found)).astype(np.int64)
    values = x.reshape(-1)[firsts] if axis is None else np.take(x, firsts, axis=axis)
    return values, firsts, inverse, counts


def _in_order(keys: set[Any]) -> list[Any]:
    """`sorted` is an attribute's name in the reference."""
    return sorted(keys)


_ALL = ("T", "int64", "int64", "int64")
# shape, axis
_SHAPES: list[tuple[tuple[int, ...], int | None]] = [
    ((7,), None),
    ((1,), None),
    ((), None),
    ((0,), None),
    ((40,), 0),
    ((3, 5, 7), None),
    ((9, 2), 0),
    ((2, 9), 1),
    ((2, 8, 2), 1),
    ((30, 1, 2), -3),
    ((0, 3), 0),
    ((1500,), None),  # more than one tile of the sort
    ((3000,), None),
    ((5000,), None),
    ((1300, 1), 0),
]


def _case(shape: Sequence[int], axis: int | None, dtypes: Sequence[str], **more: Any) -> list[Case]:
    attrs = {} if axis is None else {"axis": axis}
    high = 400 if int(np.prod(shape)) > 1000 else 2
    return [
        Case(op="Unique", inputs=[Rand(shape, low=0, high=high)], attrs={**attrs, "sorted": ordered},
             expected=_unique, dtypes=dtypes, outputs=_ALL, tolerance=EXACT, **more)
        for ordered in (0, 1)
    ]  # fmt: skip


CASES = [
    *(case for row in _SHAPES for case in _case(*row, ("int32",))),
    *_case((30,), None, (*INTS, "bool")),
    *_case((29,), None, (*FLOATS, *INTS, "bool"), opset="11+"),
    # floats that are equal, of both signs of zero, and NaN
    *(Case(op="Unique", inputs=[Of([2.5, np.nan, -1.0, 0.0, 2.5, np.inf, -0.0, -np.inf, np.nan, -1.0, -7.0])],
           attrs={"sorted": ordered}, expected=_unique, dtypes=FLOATS, outputs=_ALL,
           tolerance=EXACT, name=f"of_nan_sorted_{ordered}")
      for ordered in (0, 1)),
    *(Case(op="Unique", inputs=[Rand((50,), full=True)], attrs={"sorted": ordered}, expected=_unique,
           dtypes=("int8", "uint8", "int64"), outputs=_ALL, tolerance=EXACT, name=f"whole_range_sorted_{ordered}")
      for ordered in (0, 1)),
    # outputs that nobody uses
    *(Case(op="Unique", inputs=[Rand((30,), low=0, high=5)], attrs={"sorted": 0}, expected=_unique, outputs=outputs,
           dtypes=("int32",), tolerance=EXACT, name=f"outputs_{'_'.join(o or 'none' for o in outputs)}")
      for outputs in [("T",), ("T", "int64"), ("T", "", "int64"), ("T", "", "", "int64")]),
    Case(op="Unique", inputs=[Rand((3, 4))], attrs={"axis": 2}, dtypes=("int32",),
         error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)"), outputs=_ALL),
]  # fmt: skip
