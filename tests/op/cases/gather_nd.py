"""GatherND, ReverseSequence and CenterCropPad: rows that are picked, turned round, cut off and added."""

from collections.abc import Sequence

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")


def _gather_nd(data: np.ndarray, indices: np.ndarray, batch_dims: int = 0) -> np.ndarray:
    outer = indices.shape[:-1]
    used = batch_dims + indices.shape[-1]
    out = np.zeros((*outer, *data.shape[used:]), data.dtype)
    for at in np.ndindex(*outer):
        where = (*at[:batch_dims], *(int(i) for i in indices[at]))
        if all(-size <= i < size for i, size in zip(where, data.shape, strict=False)):
            out[at] = data[where]
    return out


# data, indices, batch_dims
_GATHERS: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((5,), (3, 1), 0),
    ((5, 4), (3, 2), 0),
    ((5, 4), (3, 1), 0),
    ((4, 4), (2, 3, 2), 0),
    ((4, 4, 3), (2, 3, 2), 0),
    ((2, 4, 5), (2, 3, 1), 1),
    ((2, 4, 5), (2, 3, 2), 1),
    ((2, 3, 4, 5), (2, 3, 1), 2),
    ((2, 3, 4, 5), (2, 3, 6, 2), 2),
    ((4, 5), (1,), 0),
    ((4, 5), (2, 0), 0),
    ((4, 5), (0, 1), 0),
    ((4, 0), (3, 1), 0),
    ((9, 64), (7, 1), 0),  # rows of whole packs
    ((9, 67), (7, 1), 0),
    ((4, 2, 2, 2, 2, 2, 2, 2, 3), (3, 8), 0),
]


def _gather(row: tuple[tuple[int, ...], tuple[int, ...], int], dtypes: Sequence[str]) -> Case:
    data, indices, batch_dims = row
    named = data[batch_dims : batch_dims + indices[-1]]
    low, high = (-min(named), min(named) - 1) if named else (0, 0)
    return Case(op="GatherND", inputs=[Rand(data, full=True), Rand(indices, "int64", low=low, high=high)],
                attrs={"batch_dims": batch_dims} if batch_dims else {}, expected=_gather_nd, dtypes=dtypes,
                tolerance=EXACT)  # fmt: skip


def _reverse(x: np.ndarray, lengths: np.ndarray, time_axis: int = 0, batch_axis: int = 1) -> np.ndarray:
    moved = np.moveaxis(x, (time_axis, batch_axis), (0, 1))
    out = moved.copy()
    for batch, length in enumerate(lengths):
        count = int(np.clip(length, 0, moved.shape[0]))
        out[:count, batch] = moved[:count, batch][::-1]
    return np.moveaxis(out, (0, 1), (time_axis, batch_axis))


def _center(x: np.ndarray, shape: np.ndarray, axes: Sequence[int] | None = None) -> np.ndarray:
    out = x
    for axis, size in zip(range(x.ndim) if axes is None else axes, shape.tolist(), strict=True):
        change = size - out.shape[axis]
        if change < 0:
            start = -change // 2
            out = np.take(out, range(start, start + size), axis=axis)
        else:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (change // 2, change - change // 2)
            out = np.pad(out, widths)
    return out


def _centered(shape: Sequence[int], size: Sequence[int], axes: Sequence[int] | None = None) -> Case:
    return Case(op="CenterCropPad", inputs=[Rand(shape, full=True), Of(np.array(size), "int64")],
                attrs={} if axes is None else {"axes": axes}, expected=_center, tolerance=EXACT,
                dtypes=("float32", "int8"),
                name=f"{'x'.join(map(str, shape))}_to_{'x'.join(map(str, size))}_{axes or ''}")  # fmt: skip


CASES = [
    *(_gather(row, _WIDTHS if len(row[0]) == 2 else ("float32",)) for row in _GATHERS),
    Case(op="GatherND", inputs=[Rand(()), Rand((3, 0), "int64")], expected=_gather_nd, dtypes=("float32",),
         tolerance=EXACT, skip={"session": "the host's shape inference refuses it"}),
    Case(op="GatherND", inputs=[Rand((5, 4, 3)), Rand((6, 2), "int64", low=-4, high=3)], expected=_gather_nd,
         dtypes=FIXED_SIZE, opset="11+", tolerance=EXACT, name="types"),
    Case(op="GatherND", inputs=[Rand((3, 4)), Of([[2, 4], [1, -4], [-4, 1], [2**62, 1], [0, 0]], "int64")],
         expected=_gather_nd, dtypes=_WIDTHS, tolerance=EXACT, name="outside",
         skip={"session": "the host's shape inference may refuse the values"}),
    Case(op="GatherND", inputs=[Rand((3, 4)), Rand((2, 3), "int64", low=0, high=1)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "indices of shape [2,3] do not fit data of shape [3,4]")),
    Case(op="GatherND", inputs=[Rand((3, 4)), Rand((2, 1), "int64", low=0, high=1)], attrs={"batch_dims": 1},
         dtypes=("float32",), error=("INVALID_ARGUMENT", "with 1 batch dimensions")),
    Case(op="GatherND", inputs=[Rand((3, 4)), Rand((2, 1), "int64", low=0, high=1)], attrs={"batch_dims": -1},
         dtypes=("float32",), error=("INVALID_ARGUMENT", "batch_dims is -1")),

    *(Case(op="ReverseSequence", inputs=[Rand(shape), Rand((shape[1 - time],), "int64", low=0, high=shape[time])],
           attrs={"time_axis": time, "batch_axis": 1 - time}, expected=_reverse, tolerance=EXACT,
           dtypes=_WIDTHS if len(shape) == 2 else ("float32",))
      for time in (0, 1)
      for shape in [(4, 4), (7, 5), (1, 3), (3, 1), (6, 2, 3), (5, 6, 64), (5, 3, 67), (2, 3, 2, 3), (0, 3), (33, 65)]),
    Case(op="ReverseSequence", inputs=[Rand((5, 3, 2)), Of([5, 1, 3], "int64")], expected=_reverse, opset="10+",
         dtypes=FIXED_SIZE, tolerance=EXACT, name="types"),
    Case(op="ReverseSequence", inputs=[Rand((5, 4)), Of([-2, 0, 9, 2**62], "int64")], expected=_reverse,
         dtypes=("float32",), tolerance=EXACT, name="lengths_outside"),
    Case(op="ReverseSequence", inputs=[Rand((5, 4)), Rand((5,), "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "sequence_lens has shape [5], expected [4]")),
    Case(op="ReverseSequence", inputs=[Rand((5,)), Rand((5,), "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "expected time and batch")),
    Case(op="ReverseSequence", inputs=[Rand((5, 4)), Rand((4,), "int64")], attrs={"time_axis": 2},
         dtypes=("float32",),
         error=("INVALID_ARGUMENT", "time_axis 2 and batch_axis 1 must be 0 and 1")),

    *(_centered(*row) for row in [((5,), (5,)), ((5,), (2,)), ((5,), (8,)), ((6,), (3,)), ((6,), (9,)),
                                  ((5, 6), (8, 3)),
                                  ((4, 3, 6), (5, 3, 2)), ((4, 3, 6), (9, 8), (0, 2)), ((4, 3, 6), (1, 4), (-1, -3)),
                                  ((4, 3), (0, 3)), ((0, 3), (2, 5)), ((4, 3), (), ())]),
    Case(op="CenterCropPad", inputs=[Rand((4, 5)), Of([7, 2], "int32")], expected=_center, dtypes=FIXED_SIZE,
         opset="18+", tolerance=EXACT, name="types"),
    Case(op="CenterCropPad", inputs=[Rand((4, 5)), Of([7], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "shape [7] must have one number for each of 2 axes")),
    Case(op="CenterCropPad", inputs=[Rand((4, 5)), Of([7, -2], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "negative dimension")),
    Case(op="CenterCropPad", inputs=[Rand((4, 5)), Of([7, 2], "int64")], attrs={"axes": (1, -1)}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 1 is named twice")),
]  # fmt: skip
