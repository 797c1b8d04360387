"""Comparisons and logic of two tensors; the result is bool."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, INTS, NUMERIC

_COMPARISONS: dict[str, tuple[Callable[..., Any], int]] = {
    "Equal": (np.equal, 7),
    "Greater": (np.greater, 7),
    "GreaterOrEqual": (np.greater_equal, 12),
    "Less": (np.less, 7),
    "LessOrEqual": (np.less_equal, 12),
}
_LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}

_BROADCASTS = [
    ((7,), (7,)),
    ((), (4, 5)),
    ((4, 5), ()),
    ((3, 1), (1, 5)),
    ((2, 3, 8), (3, 1)),
    ((1, 3, 16), (2, 1, 16)),
    ((3, 5, 7), (5, 1)),
    ((0, 3), (1, 1)),
    ((5003,), (5003,)),
]

CASES = [
    *(Case(op=op, inputs=[Rand((5, 33)), Rand((5, 33))], expected=f, dtypes=NUMERIC, opset=f"{first}+")
      for op, (f, first) in _COMPARISONS.items()),
    Case(op="Equal", inputs=[Rand((5, 33)), Rand((5, 33))], expected=np.equal, dtypes=("bool",), opset="7+"),
    *(Case(op=op, inputs=[Rand((301,), specials=True), Rand((301,), specials=True)], expected=f, dtypes=FLOATS,
           name="specials") for op, (f, _) in _COMPARISONS.items()),
    *(Case(op=op, inputs=[Rand((65,), full=True), Rand((65,), full=True)], expected=f, dtypes=INTS, name="full_range")
      for op, (f, _) in _COMPARISONS.items()),
    *(Case(op=op, inputs=[Of([-1, 0, 1]), Of([1, 0, -1])], expected=_COMPARISONS[op][0], dtypes=("int8", "int64"),
           name="signs") for op in ("Less", "GreaterOrEqual", "Equal")),
    *(Case(op=op, inputs=[Rand(a), Rand(b)], expected=_COMPARISONS[op][0], dtypes=("float32", "int8"))
      for op in ("Equal", "Greater", "LessOrEqual") for a, b in _BROADCASTS),
    *(Case(op=op, inputs=[Rand(a, "bool"), Rand(b, "bool")], expected=f, opset=7)
      for op, f in _LOGIC.items() for a, b in _BROADCASTS),
    Case(op="Less", inputs=[Rand((2, 3)), Rand((4,))], error=("INVALID_ARGUMENT", "[2,3]"), dtypes=("float32",)),
]  # fmt: skip
