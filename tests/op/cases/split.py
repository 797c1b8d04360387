"""Split."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Rand, T
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

_SHAPES: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((6,), 0, (2, 4)),
    ((6, 3), 0, (1, 2, 3)),
    ((2, 9), 1, (4, 5)),
    ((2, 9), -1, (0, 9, 0)),
    ((2, 6, 4), 1, (1, 5)),
    ((0, 6), 1, (2, 4)),
    ((3, 0), 1, (0, 0)),
    ((6, 288), 1, (64, 192, 32)),  # rows of whole packs
    ((2, 6148), 1, (1024, 1025, 4099)),  # several blocks for each output, units of one element
]


def _cut(sizes: Sequence[int]) -> Any:
    """A reference that cuts pieces of these sizes."""
    return lambda x, *_, axis=0, **__: tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _given(shape: Sequence[int], axis: int, sizes: Sequence[int]) -> list[Case]:
    """The sizes as an input, and as an attribute for opset 11."""
    common: dict[str, Any] = {"op": "Split", "dtypes": _WIDTHS, "expected": _cut(sizes), "tolerance": EXACT,
                              "outputs": len(sizes)}  # fmt: skip
    name = f"{'x'.join(map(str, shape))}_into_{'_'.join(map(str, sizes))}_axis{axis}"
    return [
        Case(**common, inputs=[Rand(shape), np.array(sizes, dtype=np.int64)], attrs={"axis": axis}, name=name),
        Case(**common, inputs=[Rand(shape)], attrs={"axis": axis, "split": sizes}, opset=11, name=name),
    ]


def _equal(dim: int, sizes: Sequence[int], **more: Any) -> Case:
    return Case(op="Split", inputs=[Rand((dim, 5))], dtypes=("float32",), expected=_cut(sizes), outputs=len(sizes),
                tolerance=EXACT, **more)  # fmt: skip


def _refused(text: str, dim: int, split: Sequence[int] | None = None, outputs: int = 2, **more: Any) -> Case:
    inputs: list[Rand | np.ndarray] = [Rand((dim, 2)), *([] if split is None else [np.array(split, dtype=np.int64)])]
    return Case(op="Split", inputs=inputs, dtypes=("float32",), outputs=[T] * outputs,
                error=("INVALID_ARGUMENT", text), **more)  # fmt: skip


CASES = [
    *(case for row in _SHAPES for case in _given(*row)),
    _equal(6, (2, 2, 2), opset=(2, 11, 13)),
    _equal(6, (2, 2, 2), attrs={"num_outputs": 3}),
    _equal(7, (3, 3, 1), attrs={"num_outputs": 3}),
    _equal(6, (2, 2, 2, 0), attrs={"num_outputs": 4}),
    _equal(0, (0, 0), attrs={"num_outputs": 2}),
    _equal(5, (5,), attrs={"num_outputs": 1}),
    Case(op="Split", inputs=[Rand((4, 6))], attrs={"axis": 1}, outputs=2, dtypes=FIXED_SIZE, opset=(2, 11, 13),
         expected=_cut((3, 3)), tolerance=EXACT, name="types"),
    Case(op="Split", inputs=[Rand((4, 6))], attrs={"axis": 1, "num_outputs": 2}, outputs=2, dtypes=FIXED_SIZE,
         expected=_cut((3, 3)), tolerance=EXACT, name="types"),
    Case(op="Split", inputs=[Rand((3, 200))], attrs={"axis": 1, "num_outputs": 100}, outputs=100, dtypes=("float16",),
         expected=_cut((2,) * 100), tolerance=EXACT, name="100_outputs"),
    Case(op="Split", inputs=[Rand((6, 3))], attrs={"num_outputs": 3}, outputs=(T, "", T), dtypes=("float32",),
         expected=_cut((2, 2, 2)), tolerance=EXACT, name="unused_output"),
    _refused("does not divide 6 along axis 0", 6, (2, 3)),
    _refused("does not divide 6 along axis 0", 6, (2, 2, 2)),
    _refused("does not divide 6 along axis 0", 6, (7, -1)),
    _refused("5 cannot be split into 2 equal parts", 5, opset=13),
    _refused("5 cannot be split into 4 equal parts", 5, outputs=4, attrs={"num_outputs": 4}),
    _refused("num_outputs is 3, the node has 2 outputs", 6, attrs={"num_outputs": 3}),
    _refused("both num_outputs and the input split", 6, (3, 3), attrs={"num_outputs": 2}),
    _refused("axis 2 is outside [-2, 2)", 6, (3, 3), attrs={"axis": 2}),
]  # fmt: skip
