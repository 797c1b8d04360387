"""Transpose: each way it can run (copy, rows, tiles with packs, tiles of single elements), for each element size."""

import itertools

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import STORED
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

# Below 16 KB nothing is tiled: small shapes test coalescing, the others tiles and their edges.
_SMALL = [((2, 3, 4), perm) for perm in itertools.permutations(range(3))] + [
    ((), ()),
    ((5,), (0,)),
    ((0, 3), (1, 0)),
    ((2, 0, 3), (2, 0, 1)),
    ((1, 7, 1, 5), (2, 3, 0, 1)),
    ((3, 1, 5), (1, 0, 2)),
    ((2, 3, 4, 5), (0, 2, 1, 3)),
    ((2, 3, 4, 5), (3, 2, 1, 0)),
    ((2, 2, 2, 3, 2, 2, 2, 2), (7, 5, 3, 1, 6, 4, 2, 0)),
    ((2,) * 12, (11, 9, 7, 5, 3, 1, 10, 8, 6, 4, 2, 0)),
]
_TILED = [
    ((256, 192), (1, 0)),  # whole tiles
    ((272, 176), (1, 0)),  # packs, with tiles cut at both edges
    ((131, 257), (1, 0)),  # no packs
    ((256, 193), (1, 0)),
    ((3, 112, 144), (0, 2, 1)),  # batch outside
    ((96, 5, 160), (2, 1, 0)),  # batch between
    ((4, 96, 3, 144), (2, 3, 0, 1)),  # pairs that stay together
    ((2, 3, 96, 128), (1, 3, 0, 2)),
    ((2, 5001, 3), (0, 2, 1)),  # thin: NHWC to NCHW
    ((2, 3, 5001), (0, 2, 1)),  # and back
    ((2, 9001), (1, 0)),
    ((9001, 2), (1, 0)),
    ((3000, 2, 3), (2, 1, 0)),
    ((3000, 3, 8), (2, 1, 0)),  # thin, and far from dense
    ((40, 9, 700), (0, 2, 1)),
    ((40, 700, 9), (0, 2, 1)),
    ((500, 8, 8), (0, 2, 1)),  # matrices below a tile's worth
]
_INNERMOST_STAYS = [
    ((64, 48, 2), (1, 0, 2)),  # taken as one wide element
    ((64, 48, 4), (1, 0, 2)),
    ((64, 48, 16), (1, 0, 2)),
    ((64, 48, 3), (1, 0, 2)),
    ((2, 12, 64, 64), (0, 2, 1, 3)),  # heads
    ((2, 12, 64, 33), (0, 2, 1, 3)),
]


def _case(shape: tuple[int, ...], perm: tuple[int, ...], dtypes: tuple[str, ...]) -> Case:
    return Case(op="Transpose", inputs=[Rand(shape)], attrs={"perm": perm}, dtypes=dtypes, tolerance=EXACT,
                expected=lambda x, perm: np.transpose(x, perm))  # fmt: skip


CASES = [
    *(_case(shape, perm, ("float32", "float16")) for shape, perm in _SMALL),
    *(_case(shape, perm, _WIDTHS) for shape, perm in _TILED + _INNERMOST_STAYS),
    Case(op="Transpose", inputs=[Rand((2, 3, 5))], expected=np.transpose, dtypes=STORED, opset="1+",
         tolerance=EXACT, name="reversed"),
    *(_case(shape, perm, ("int4", "uint2")) for shape, perm in (((70, 131), (1, 0)), ((3, 1, 5), (2, 0, 1)), ((), ()))),
    Case(op="Transpose", inputs=[Rand((300,), specials=True)], expected=np.transpose, dtypes=("float16", "float32"),
         tolerance=EXACT, name="specials"),
    Case(op="Transpose", inputs=[Rand((2, 3))], attrs={"perm": (0, 0)}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "perm [0,0]")),
    Case(op="Transpose", inputs=[Rand((2, 3))], attrs={"perm": (0, 1, 2)}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "perm [0,1,2]")),
    Case(op="Transpose", inputs=[Rand((2, 3))], attrs={"perm": (0, -1)}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "perm [0,-1]")),
    Case(op="Transpose", inputs=[Rand((1, 2) + (2,) * 17)], attrs={"perm": tuple(range(18, -1, -1))}, dtypes=("int8",),
         error=("NOT_SUPPORTED", "more than 16 dimensions")),
]  # fmt: skip
