"""Where: selection by a bool tensor, for each element size."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

_SHAPES = [
    ((), (), ()),
    ((5, 33), (5, 33), (5, 33)),
    ((4097,), (4097,), (4097,)),
    ((4, 1), (4, 16), (16,)),
    ((3, 1, 5), (), (2, 1)),
    ((1,), (3, 7), (7,)),
    ((2, 1, 1, 3), (1, 2, 1, 3), (1, 1, 2, 1)),
    ((0, 1), (1, 3), (1,)),
    ((8, 24), (1, 24), (8, 1)),
]

CASES = [
    *(Case(op="Where", inputs=[Rand(c, "bool"), Rand(a), Rand(b)], expected=np.where, dtypes=_WIDTHS, tolerance=EXACT)
      for c, a, b in _SHAPES),
    Case(op="Where", inputs=[Rand((5, 1), "bool"), Rand((5, 9)), Rand((9,))], expected=np.where, dtypes=FIXED_SIZE,
         opset="9+", tolerance=EXACT, name="types"),
    Case(op="Where", inputs=[Rand((99,), "bool"), Rand((99,), specials=True), Rand((99,), specials=True)],
         expected=np.where, dtypes=("float32", "float16"), tolerance=EXACT, name="specials"),
    Case(op="Where", inputs=[Rand((3,), "bool"), Rand((2, 3)), Rand((4,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[2,3]")),
]  # fmt: skip
