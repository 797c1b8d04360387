"""Tile."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_REPEATS = [
    ((5,), (3,)),
    ((2, 3), (1, 1)),
    ((2, 3), (2, 4)),
    ((2, 3), (0, 2)),
    ((0, 3), (5, 2)),
    ((), ()),
    ((2, 1, 3), (2, 3, 1)),
    ((1, 64), (33, 2)),  # rows of whole packs
    ((3, 67), (5, 3)),
    ((2, 3, 1, 2, 3, 1, 2, 3), (2, 2, 2, 1, 2, 2, 2, 2)),
]


def _case(shape: tuple[int, ...], repeats: tuple[int, ...]) -> Case:
    name = f"{'x'.join(map(str, shape)) or 'scalar'}_times_{'x'.join(map(str, repeats))}"
    return Case(op="Tile", inputs=[Rand(shape), np.array(repeats, dtype=np.int64)], expected=np.tile, name=name,
                dtypes=("int8", "float16", "float32", "float64", "complex128"), tolerance=EXACT)  # fmt: skip


CASES = [
    *(_case(shape, repeats) for shape, repeats in _REPEATS),
    Case(op="Tile", inputs=[Rand((2, 3)), np.array([2, 2])], expected=np.tile, dtypes=FIXED_SIZE, opset="6+",
         tolerance=EXACT, name="types"),
    Case(op="Tile", inputs=[Rand((2, 3)), np.array([2])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "repeats [2] must have one number for each dimension of [2,3]")),
    Case(op="Tile", inputs=[Rand((2, 3)), np.array([2, -1])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "negative dimension in shape [2,-1]")),
    Case(op="Tile", inputs=[Rand((2, 3)), np.array([2**62, 2])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "exceeds 64 bits")),
]  # fmt: skip
