"""Slice: as attributes before opset 10, as inputs since."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

# shape, starts, ends, axes, steps
_STEPS: list[tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int] | None, Sequence[int] | None]] = [
    ((10,), (2,), (7,), None, None),
    ((10,), (-3,), (_HIGHEST,), None, None),
    ((10,), (-99,), (-2,), None, (1,)),
    ((10,), (1,), (9,), None, (3,)),
    ((10,), (9,), (_LOWEST,), (0,), (-1,)),
    ((10,), (_HIGHEST,), (0,), (0,), (-3,)),
    ((10,), (7,), (2,), (0,), (-2,)),
    ((10,), (7,), (2,), (0,), (1,)),
    ((10,), (7,), (_HIGHEST,), (0,), (-2,)),
    ((4, 6), (5,), (2**31 - 1,), (1,), (-1,)),
    ((10,), (2,), (7,), (0,), (-1,)),
    ((10,), (3,), (9,), (0,), (_HIGHEST,)),
    ((10,), (3,), (_LOWEST,), (0,), (_LOWEST,)),
    ((0, 4), (0, 1), (5, 3), None, None),
    ((0, 4), (-1,), (_LOWEST,), (0,), (-1,)),
    ((4, 6), (1, 2), (3, 5), None, None),
    ((4, 6), (2,), (5,), (1,), None),
    ((4, 6), (-1,), (-7,), (-1,), (-1,)),
    ((3, 5, 7), (0, 1, 6), (3, 5, 0), (0, 1, 2), (2, 3, -2)),
    ((3, 5, 7), (1,), (4,), (1,), (1,)),
    ((3, 5, 7), (2, 1), (0, 4), (2, 0), (-1, 1)),
    ((), (), (), (), ()),
    ((4, 64), (16,), (48,), (1,), (1,)),  # rows of whole packs
    ((3, 1027), (1,), (1026,), (1,), None),  # rows that no pack divides
    ((33, 130), (32,), (_LOWEST,), (0,), (-1,)),
]


def _index(
    rank: int, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> tuple[slice, ...]:
    """The same as numpy's slices, which clamp as ONNX does; the largest number is no end backwards too."""
    where = [slice(None)] * rank
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = steps[i] if steps else 1
        no_end = step < 0 and end in (_HIGHEST, 2**31 - 1)
        where[axes[i] if axes else i] = slice(start, None if no_end else end, step)
    return tuple(where)


def _ints(values: Sequence[int] | None, dtype: str) -> np.ndarray | None:
    if values is None:
        return None
    limits = np.iinfo(dtype)
    return np.array(np.clip(np.array(values, dtype=np.int64), limits.min, limits.max), dtype=dtype)


def _case(row: tuple[Any, ...], dtypes: Sequence[str], index_dtype: str = "int64", **more: Any) -> Case:
    shape, starts, ends, axes, steps = row
    where = _index(len(shape), starts, ends, axes, steps)
    inputs = [Rand(shape), *(_ints(values, index_dtype) for values in (starts, ends, axes, steps))]
    while inputs[-1] is None:
        inputs.pop()
    text = "_".join(str(part).replace(" ", "") for part in row[1:])
    return Case(op="Slice", inputs=inputs, dtypes=dtypes, expected=lambda x, *_: x[where], tolerance=EXACT,
                **({"name": f"{'x'.join(map(str, shape)) or 'scalar'}_{text}_{index_dtype}"} | more))  # fmt: skip


def _refused(text: str, shape: Sequence[int], *indices: Sequence[int]) -> Case:
    return Case(op="Slice", inputs=[Rand(shape), *(_ints(values, "int64") for values in indices)],
                dtypes=("float32",), error=("INVALID_ARGUMENT", text))  # fmt: skip


_PLAIN = ((4, 5, 6), (1, -4), (3, 6), (0, 2), None)

CASES = [
    *(_case(row, _WIDTHS if len(row[0]) == 2 else ("float32", "float16")) for row in _STEPS),
    *(_case(row, ("float32",), "int32") for row in _STEPS),
    _case(_PLAIN, FIXED_SIZE, opset="10+", name="types"),
    _case(_PLAIN, ("float32",), constants=(1, 2, 3), name="constant"),
    Case(op="Slice", inputs=[Rand((4, 5, 6))], attrs={"starts": (1, -4), "ends": (3, 99), "axes": (0, 2)}, opset=9,
         dtypes=FIXED_SIZE, expected=lambda x, **_: x[1:3, :, -4:], tolerance=EXACT),
    Case(op="Slice", inputs=[Rand((4, 5))], attrs={"starts": (1, 0), "ends": (3, -1)}, opset=1,
         dtypes=("float32",), expected=lambda x, **_: x[1:3, :-1], tolerance=EXACT),
    _refused("differ in length", (4, 5), (0, 0), (1,)),
    _refused("differ in length", (4, 5), (0,), (1,), (0, 1)),
    _refused("is sliced twice", (4, 5), (0, 0), (1, 1), (0, -2)),
    _refused("step along axis 1 is 0", (4, 5), (0,), (1,), (1,), (0,)),
    _refused("axis 2 is outside [-2, 2)", (4, 5), (0,), (1,), (2,)),
    _refused("axis 2 is outside [-2, 2)", (4, 5), (0, 0, 0), (1, 1, 1)),
]  # fmt: skip
