"""Concat."""

from collections.abc import Sequence

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

_SHAPES: list[tuple[list[tuple[int, ...]], int]] = [
    ([(5,)], 0),
    ([(5,), (3,)], 0),
    ([(2, 3), (4, 3), (1, 3)], 0),
    ([(2, 3), (2, 5), (2, 1)], 1),
    ([(2, 3), (2, 5), (2, 1)], -1),
    ([(2, 3, 4), (2, 2, 4)], 1),
    ([(2, 3, 4), (2, 3, 4)], -3),
    ([(0, 3), (2, 3)], 0),
    ([(2, 0), (2, 3), (2, 0), (2, 2), (2, 0)], 1),
    ([(0, 3), (0, 3)], 1),
    ([(0,), (0,)], 0),
    ([(6, 64), (6, 192), (6, 32)], 1),  # rows of whole packs
    ([(2, 1024), (2, 1025), (2, 4099)], 1),  # several blocks for each input, units of one element
    ([(4096,), (8192,), (5,)], 0),
]


def _case(shapes: Sequence[tuple[int, ...]], axis: int, dtypes: tuple[str, ...], name: str = "") -> Case:
    return Case(op="Concat", inputs=[Rand(shape) for shape in shapes], attrs={"axis": axis}, dtypes=dtypes, name=name,
                expected=lambda *xs, axis: np.concatenate(xs, axis), tolerance=EXACT)  # fmt: skip


CASES = [
    *(_case(shapes, axis, _WIDTHS) for shapes, axis in _SHAPES),
    # One launch holds 64 inputs.
    *(_case([(2, 1 + i % 3) for i in range(count)], 1, ("float16",), f"{count}_inputs") for count in (63, 64, 65, 200)),
    Case(op="Concat", inputs=[Rand((2, 3)), Rand((2, 3))], attrs={"axis": 1}, dtypes=FIXED_SIZE, opset="4+",
         expected=lambda a, b, axis: np.concatenate([a, b], axis), tolerance=EXACT, name="types"),
    Case(op="Concat", inputs=[Rand((2, 3)), Rand((3, 3))], attrs={"axis": 1}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 1 of shape [3,3] does not fit [2,3] along axis 1")),
    Case(op="Concat", inputs=[Rand((2, 3)), Rand((6,))], attrs={"axis": 0}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 1 of shape [6]")),
    Case(op="Concat", inputs=[Rand((2, 3)), Rand((2, 3))], attrs={"axis": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)")),
    Case(op="Concat", inputs=[Rand(()), Rand(())], attrs={"axis": 0}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 0 is outside")),
]  # fmt: skip
