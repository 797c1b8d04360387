"""Gather and GatherElements; an index outside the axis gives zeros."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")

# data, axis, indices
_GATHERS: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (3,)),
    ((5,), 0, ()),
    ((5, 3), 0, (4,)),
    ((5, 3), 1, (2, 2)),
    ((5, 3), -1, ()),
    ((2, 5, 3), 1, (4,)),
    ((2, 5, 3), -3, (2, 1, 3)),
    ((2, 5, 3), 1, (0,)),
    ((0, 5), 1, (3,)),
    ((5, 0), 0, (3,)),
    ((50, 96), 0, (7, 9)),  # rows of whole packs
    ((50, 97), 0, (7, 9)),
    ((3, 40, 16), 1, (65,)),
]
_GATHER_ELEMENTS: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (7,)),
    ((3, 4), 1, (3, 6)),
    ((3, 4), 0, (5, 4)),
    ((3, 4), -1, (2, 9)),
    ((2, 5, 3), 1, (2, 7, 2)),
    ((2, 5, 3), 1, (0, 7, 2)),
    ((4, 300), 0, (33, 299)),
]


def _indices(shape: tuple[int, ...], size: int, dtype: str = "int64") -> Rand:
    return Rand(shape, dtype, low=-size, high=max(size - 1, -size))


def _take(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
    return np.take(data, indices, axis)


def _take_along(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
    """numpy wants equal shapes around the axis."""
    part = tuple(slice(None) if d == axis % data.ndim else slice(size) for d, size in enumerate(indices.shape))
    return np.take_along_axis(data[part], indices, axis)


def _case(op: str, row: tuple[Any, ...], dtypes: tuple[str, ...], index_dtype: str = "int64", **more: Any) -> Case:
    shape, axis, indices = row
    return Case(op=op, inputs=[Rand(shape), _indices(indices, shape[axis], index_dtype)], attrs={"axis": axis},
                dtypes=dtypes, expected=_take if op == "Gather" else _take_along, tolerance=EXACT, **more)  # fmt: skip


CASES = [
    *(_case("Gather", row, _WIDTHS) for row in _GATHERS),
    *(_case("Gather", row, ("float32",), "int32") for row in _GATHERS),
    _case("Gather", ((5, 3), 0, (4,)), FIXED_SIZE, opset="1+", name="types"),
    Case(op="Gather", inputs=[Rand((3, 4)), Of([0, 3, -4, -1, 2**62, -(2**63)], "int64")], dtypes=_WIDTHS,
         expected=lambda x, i: np.stack([x[k] if -3 <= k < 3 else np.zeros_like(x[0]) for k in i]), tolerance=EXACT,
         name="outside", skip={"session": "the host's shape inference may refuse the values"}),
    # more elements that are found one by one than have a thread each
    Case(op="Gather", inputs=[Rand((50,)), Of(np.arange(2**18 + 5) % 50, "int32")], dtypes=("float32", "float16"),
         expected=lambda x, i: x[i], tolerance=EXACT, name="many-single"),
    Case(op="Gather", inputs=[Rand((0, 4)), Of([0, 1], "int64")], dtypes=("float32",),
         expected=lambda x, i: np.zeros((2, 4)), tolerance=EXACT, name="of_nothing"),
    Case(op="Gather", inputs=[Rand((3, 4)), Of([0], "int64")], attrs={"axis": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)")),
    Case(op="Gather", inputs=[Rand(()), Of([0], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 0 is outside")),

    *(_case("GatherElements", row, _WIDTHS) for row in _GATHER_ELEMENTS),
    *(_case("GatherElements", row, ("float32",), "int32") for row in _GATHER_ELEMENTS),
    _case("GatherElements", ((5, 3), 0, (4, 3)), FIXED_SIZE, opset="11+", name="types"),
    Case(op="GatherElements", inputs=[Rand((3,)), Of([0, 3, -3, -4], "int64")], dtypes=("float32",),
         expected=lambda x, i: np.array([x[k] if -3 <= k < 3 else 0 for k in i]), tolerance=EXACT, name="outside"),
    Case(op="GatherElements", inputs=[Rand((3, 4)), Of([[0]] * 4, "int64")], attrs={"axis": 1}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "indices of shape [4,1] do not fit data of shape [3,4]")),
    Case(op="GatherElements", inputs=[Rand((3, 4)), Of([0], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "indices of shape [1]")),
]  # fmt: skip
