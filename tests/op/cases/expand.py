"""Expand."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

_SHAPES = [
    ((3, 1), (3, 4)),
    ((3, 1), (2, 1, 6)),
    ((3, 4), (1,)),  # the shape may be the smaller side
    ((), (2, 3)),
    ((), ()),
    ((2, 3), ()),
    ((1,), (0,)),
    ((0, 3), (2, 1, 3)),
    ((1, 3, 1, 5), (2, 1, 4, 1)),
    ((1, 64), (33, 64)),  # rows of whole packs
    ((1, 67), (33, 67)),
    ((65, 1), (65, 130)),
    ((1, 1, 1, 1, 1, 1, 1, 1, 1, 2), (2, 1, 3, 1, 2, 1, 3, 1, 2, 1)),
]


def _ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _expand(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))


def _name(before: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return "_to_".join("x".join(map(str, dims)) or "scalar" for dims in (before, shape))


CASES = [
    *(Case(op="Expand", inputs=[Rand(before), _ints(*shape)], dtypes=_WIDTHS, expected=_expand, tolerance=EXACT,
           name=_name(before, shape)) for before, shape in _SHAPES),
    Case(op="Expand", inputs=[Rand((3, 1)), _ints(2, 1, 5)], dtypes=FIXED_SIZE, opset="8+", expected=_expand,
         tolerance=EXACT, name="types"),
    Case(op="Expand", inputs=[Rand((3, 1)), _ints(3, 5)], dtypes=("float32",), expected=_expand, constants=(1,),
         tolerance=EXACT, name="constant"),
    Case(op="Expand", inputs=[Rand((3, 2)), _ints(3, 4)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[3,2] and [3,4] do not broadcast")),
    Case(op="Expand", inputs=[Rand((3, 1)), _ints(3, -1)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "negative dimension in shape [3,-1]")),
    Case(op="Expand", inputs=[Rand((1,)), _ints(2**40, 2**40)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "exceeds 64 bits")),
]  # fmt: skip
