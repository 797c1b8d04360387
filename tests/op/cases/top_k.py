"""TopK: every axis, both directions, ties, NaN, rows longer than a block and results longer than its shared memory."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, NUMERIC
from ..harness.tolerances import EXACT


def _order(x: np.ndarray, axis: int, largest: int) -> np.ndarray:
    """Positions of a stable sort, the best first; NaN is above all numbers."""
    flipped = np.flip(x, axis)
    if not largest:
        return np.argsort(x, axis=axis, kind="stable")
    ascending = np.argsort(flipped, axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(ascending, axis)


def _expected(x: np.ndarray, k: Any = None, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    count = int(np.reshape(k, -1)[0])
    order = np.take(_order(x, axis, largest), np.arange(count), axis=axis)
    if not sorted:
        order = np.sort(order, axis=axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


def _old(x: np.ndarray, k: int = 0, axis: int = -1) -> Any:
    return _expected(x, k, axis)


def _case(shape: tuple[int, ...], k: int, dtypes: tuple[str, ...] = ("float32", "int8"), **attrs: int) -> Case:
    return Case(op="TopK", inputs=[Rand(shape), Of([k], "int64")], outputs=2, attrs=attrs, expected=_expected,
                dtypes=dtypes, tolerance=EXACT,
                name=f"{'x'.join(map(str, shape))}-k{k}" + "".join(f"-{n}{v}" for n, v in attrs.items()))  # fmt: skip


CASES = [
    *(_case(shape, k, **attrs)
      for shape, k, attrs in [
          ((7,), 3, {}),
          ((7,), 7, {}),
          ((7,), 0, {}),
          ((5, 33), 4, {}),
          ((5, 33), 4, {"largest": 0}),
          ((5, 33), 2, {"axis": 0}),
          ((3, 40, 5), 9, {"axis": 1}),
          ((3, 40, 5), 9, {"axis": -2, "largest": 0}),
          ((3, 40, 5), 9, {"axis": 1, "sorted": 0}),
          ((0, 5), 2, {}),
          ((1,), 1, {}),
          ((2, 1025), 257, {}),
          ((2, 3000), 3000, {}),
          ((2, 5000), 40, {"largest": 0, "sorted": 0}),
      ]),
    Case(op="TopK", inputs=[Rand((4, 90)), Of([11], "int64")], outputs=2, expected=_expected, dtypes=NUMERIC,
         opset="10+", tolerance=EXACT, name="types"),
    Case(op="TopK", inputs=[Rand((4, 90), specials=True), Of([60], "int64")], outputs=2, expected=_expected,
         dtypes=FLOATS, tolerance=EXACT, name="specials"),
    Case(op="TopK", inputs=[Rand((4, 90), specials=True), Of([60], "int64")], outputs=2, expected=_expected,
         dtypes=FLOATS, attrs={"largest": 0}, tolerance=EXACT, name="specials_smallest"),
    Case(op="TopK", inputs=[Rand((4, 90))], outputs=2, attrs={"k": 5}, expected=_old, dtypes=FLOATS, opset=1,
         tolerance=EXACT, skip={"session": "no host runs opset 1"}, name="attribute"),
    Case(op="TopK", inputs=[Rand((4, 9)), Of([10], "int64")], outputs=2, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "K 10"), name="too_many"),
    Case(op="TopK", inputs=[Rand((4, 9)), Of([1, 2], "int64")], outputs=2, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "one element"), name="two_numbers"),
]  # fmt: skip
