"""Pow: base and exponent of different types."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, NUMERIC

_BASES = (*FLOATS, "int32", "int64")


def _pow(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind == "f":
        return np.power(x, y.astype(np.float64))
    if y.dtype.kind == "f":
        return np.trunc(np.power(x.astype(np.float64), y)).astype(x.dtype)
    return np.power(x, y.astype(x.dtype))


CASES = [
    *(Case(op="Pow", inputs=[Rand((5, 33), low=1, high=3), Rand((33,), exponent, low=0, high=3)], expected=_pow,
           dtypes=_BASES, opset="12+", name=f"to_{exponent}") for exponent in NUMERIC),
    Case(op="Pow", inputs=[Rand((5, 33), low=0.5, high=3), Rand((5, 33), low=-3, high=3)], expected=_pow,
         dtypes=FLOATS, opset="7+"),
    *(Case(op="Pow", inputs=[Rand((257,), low=0, high=4), Of(value)], expected=_pow,
           dtypes=FLOATS, name=f"exponent_{value}") for value in (0.0, 0.5, 1.0, 2.0, 3.0)),
    *(Case(op="Pow", inputs=[Rand((257,)), Of(value, "int64")], expected=_pow,
           dtypes=_BASES, name=f"int64_exponent_{value}") for value in (0, 1, 2, 3)),
    Case(op="Pow", inputs=[Rand((301,), specials=True), Rand((301,), specials=True)], expected=_pow, dtypes=FLOATS,
         name="specials"),
    Case(op="Pow", inputs=[Of([3, -3, 7, 2, 1, -1]), Of([40, 39, 22, 62, 99, 99], "int64")], expected=_pow,
         dtypes=("int64",), name="exact"),
    Case(op="Pow", inputs=[Of([1, -1, -1, 2, 0, -5]), Of([-3, -3, -4, -1, -1, -2])], dtypes=("int32", "int64"),
         expected=lambda x, y: np.array([1, -1, 1, 0, 0, 0], dtype=x.dtype), name="negative",
         skip={"graph": "the reference is for the first inputs"}),
    *(Case(op="Pow", inputs=[Rand(a, low=1, high=3), Rand(b, low=1, high=3)], expected=_pow,
           dtypes=("float32", "int32"))
      for a, b in (((), ()), ((3, 1), (1, 5)), ((0, 2), (1,)), ((2, 16), (16,)), ((), (7,)))),
    Case(op="Pow", inputs=[Rand((2, 3)), Rand((4,))], dtypes=("float32",), error=("INVALID_ARGUMENT", "[2,3]")),
]  # fmt: skip
