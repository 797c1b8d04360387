"""Min, Max, Sum and Mean of one tensor or many."""

import functools
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS, INTS, NUMERIC

_PAIRS: dict[str, Any] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add, "Mean": np.add}


_MAGNITUDES: dict[str, Any] = {"Sum": "absolute", "Mean": "absolute"}  # sums lose what cancels


def _fold(op: str, *xs: np.ndarray) -> Any:
    folded = functools.reduce(_PAIRS[op], xs)
    return folded / len(xs) if op == "Mean" else folded


_SHAPES: list[list[tuple[int, ...]]] = [
    [(7,)],
    [()],
    [(), ()],
    [(5, 33), (5, 33), (5, 33)],
    [(3, 1), (1, 5)],
    [(5,), (3, 1), (2, 1, 1), ()],
    [(1, 16), (4, 1), (4, 16)],
    [(0, 3), (1, 3), (1,)],
    [(4099,), (1,)],
    [(2, 3, 4)] * 7,
    [(33,), *[(3, 33), (3, 1)] * 8],
    [(4, 8)] * 40,
]

CASES = [
    *(Case(op=op, inputs=[Rand(shape) for shape in shapes], expected=functools.partial(_fold, op),
           dtypes=("float32", "float64"), magnitude=_MAGNITUDES.get(op)) for op in _PAIRS for shapes in _SHAPES),
    *(Case(op=op, inputs=[Rand((3, 17)), Rand((17,))], expected=functools.partial(_fold, op), dtypes=NUMERIC,
           opset="8+", magnitude=_MAGNITUDES.get(op)) for op in _PAIRS),
    *(Case(op=op, inputs=[Rand((3, 17)), Rand((3, 17))], expected=functools.partial(_fold, op), dtypes=FLOATS,
           opset=(1, 6), magnitude=_MAGNITUDES.get(op)) for op in _PAIRS),
    *(Case(op=op, inputs=[Rand((300,), specials=True)] * count, expected=functools.partial(_fold, op), dtypes=FLOATS,
           name="specials", magnitude=_MAGNITUDES.get(op))
      for op, count in (("Max", 3), ("Min", 3), ("Sum", 2), ("Mean", 3))),
    # more than a launch takes: what waits for the next one is neither rounded nor infinite
    *(Case(op=op, inputs=[Rand((3, 17), low=low, high=2 * low)] * 70, expected=functools.partial(_fold, op),
           dtypes=("float16", "bfloat16"), name="seventy")
      for op, low in (("Max", 1), ("Min", 1), ("Sum", 1), ("Mean", 1000))),
    *(Case(op=op, inputs=[Rand((65,), full=True)] * 2, expected=functools.partial(_fold, op), dtypes=INTS,
           name="full_range") for op in ("Max", "Min")),
    Case(op="Max", inputs=[Rand((2, 3)), Rand((3,)), Rand((4,))], error=("INVALID_ARGUMENT", "[2,3]"),
         dtypes=("float32",)),
    *(Case(op=op, inputs=[Rand((2, 3)), None, Rand((3,))], error=("INVALID_ARGUMENT", "input 1 is left out"),
           dtypes=("float32",)) for op in _PAIRS),
]  # fmt: skip
