"""Pad: attributes before opset 11, inputs since."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")


def _pad(
    x: np.ndarray,
    pads: np.ndarray,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
    mode: str = "constant",
) -> np.ndarray:
    """What is negative is cut off first."""
    amounts = [(0, 0)] * x.ndim
    count = len(pads) // 2
    for i, axis in enumerate(range(x.ndim) if axes is None else axes):
        amounts[int(axis)] = (int(pads[i]), int(pads[i + count]))
    cut = x[tuple(slice(max(-b, 0), max(n + min(e, 0), 0)) for n, (b, e) in zip(x.shape, amounts, strict=True))]
    more = {"constant_values": 0 if value is None else value.reshape(())} if mode == "constant" else {}
    widths = [(max(b, 0), max(e, 0)) for b, e in amounts]
    return np.pad(cut, widths, mode=mode, **more) if x.ndim else cut  # type: ignore[call-overload,no-any-return]


# shape, pads
_PADS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((5,), (2, 3)),
    ((5,), (0, 0)),
    ((), ()),
    ((1,), (3, 2)),
    ((7,), (-2, 3)),
    ((7,), (4, -5)),
    ((3, 4), (1, 0, 0, 2)),
    ((3, 4), (-1, 2, 1, -2)),
    ((3, 4), (1, -2, 0, -1)),  # one column
    ((5, 3), (2, 0, 1, 0)),  # whole rows
    ((2, 3, 5), (0, 1, 0, 0, 1, 0)),
    ((2, 3, 4, 5), (0, 0, 1, 2, 0, 0, 2, 1)),
    ((2, 3, 4, 5), (1, 1, 0, 0, 0, 2, 0, 0)),
    ((3, 64), (1, 16, 1, 32)),  # rows of whole packs
    ((3, 67), (0, 1, 2, 2)),
    ((6, 126), (1, 1, 1, 1)),  # rows of whole packs, each of the input's at another place in its own
    ((5, 61), (0, 2, -1, 1)),
    ((2, 5, 30), (0, 1, 1, 1, 0, 1)),
    ((2, 4, 3, 2, 3, 2, 3, 2, 2), (1, 0) * 9),
]
# Beyond the length of the axis, which only a periodic continuation serves.
_LONG: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((3,), (9, 7)), ((2, 3), (3, 4, 1, 8))]


def _name(shape: Sequence[int], pads: Sequence[int]) -> str:
    return f"{'x'.join(map(str, shape)) or 'scalar'}_by_{'_'.join(map(str, pads))}"


def _case(shape: Sequence[int], pads: Sequence[int], mode: str, dtypes: Sequence[str], **more: Any) -> Case:
    inputs: list[Any] = [Rand(shape, full=True), np.array(pads, np.int64)]
    if mode == "constant":
        inputs.append(Of(3))
    return Case(op="Pad", inputs=inputs, attrs={"mode": mode}, dtypes=dtypes, expected=_pad, tolerance=EXACT,
                **({"name": f"{_name(shape, pads)}_{mode}"} | more))  # fmt: skip


def _axes(axes: Sequence[int], dtype: str) -> Case:
    return Case(op="Pad", inputs=[Rand((2, 3, 4)), np.array([1, 0, 2, -1]), Of(-2), np.array(axes, dtype)],
                dtypes=("int32", "float32"), opset="18+", expected=_pad, tolerance=EXACT,
                name=f"axes_{axes[0]}_{axes[1]}_{dtype}")  # fmt: skip


def _refused(text: str, shape: Sequence[int], pads: Sequence[int], *more: Any, **attrs: str) -> Case:
    return Case(op="Pad", inputs=[Rand(shape), np.array(pads, np.int64), *more], attrs=attrs, dtypes=("float32",),
                error=("INVALID_ARGUMENT", text))  # fmt: skip


CASES = [
    *(_case(*row, "constant", _WIDTHS if len(row[0]) == 2 else ("float32", "float16")) for row in _PADS),
    *(_case(*row, mode, ("int8", "complex128") if len(row[0]) == 2 else ("float32",))
      for row in _PADS for mode in ("reflect", "edge", "wrap")),
    *(_case(*row, mode, ("float32",)) for row in _LONG for mode in ("constant", "reflect", "edge", "wrap")),
    # rows by warps: the first and last packs of a row partly or wholly outside, rows that are
    *(_case(*row, mode, ("int8", "float16", "float32", "float64"))
      for row in [((2, 5, 382), (0, 2, 1, 1, 0, 1)), ((3, 350), (1, 14, 1, 20)), ((2, 390), (0, -2, 1, -4))]
      for mode in ("constant", "reflect", "edge", "wrap")),
    _case((5, 3, 100), (1, 0, 250, 0, 1, 34), "wrap", ("uint8",)),
    *(_case((12_300, 190), (1, 1, 1, 1), mode, ("float16",)) for mode in ("constant", "reflect")),  # many of each warp
    # every type and version
    _case((4, 5), (1, -1, 0, 2), "constant", (*FIXED_SIZE, "float8_e8m0fnu"), opset="11+", name="types"),
    _case((3, 5), (2, 2, 1, 3), "wrap", ("float32",), opset="19+", name="versions_wrap"),
    *(Case(op="Pad", inputs=[Rand((3, 4))], opset=2, attrs={"pads": (1, -1, 0, 2), **attrs},
           expected=lambda x, pads, value=0.0, mode="constant": _pad(x, np.array(pads), np.array(value), mode=mode),
           dtypes=("float16", "float32", "float64"), tolerance=EXACT)
      for attrs in ({"value": 1.5}, {}, {"mode": "reflect"}, {"mode": "edge"})),
    # the value: none, of rank 1, constant, infinite
    Case(op="Pad", inputs=[Rand((3, 4), full=True), np.array([1, 1, 1, 1])], dtypes=_WIDTHS, expected=_pad,
         tolerance=EXACT, name="zeros"),
    Case(op="Pad", inputs=[Rand((3, 4)), np.array([1, 1, 1, 1]), Of([7])], dtypes=_WIDTHS, expected=_pad,
         tolerance=EXACT, constants=(1, 2), name="constant"),
    Case(op="Pad", inputs=[Rand((3, 4)), np.array([1, 1, 1, 1]), Of(-np.inf)], expected=_pad,
         dtypes=("float16", "bfloat16", "float32", "float64"), tolerance=EXACT, name="infinite"),
    *(_axes(axes, dtype) for axes, dtype in [((0, 2), "int64"), ((2, 0), "int32"), ((-1, -2), "int64")]),
    # empty: nothing to read, nothing to write, and where an element would be needed
    _case((0, 3), (2, 1, 1, 0), "constant", ("float32",)),
    _case((2, 3), (-2, 1, 0, 1), "edge", ("float32",)),
    _case((0, 3), (0, 1, 0, 2), "wrap", ("float32",)),
    Case(op="Pad", inputs=[Rand((3,)), np.array([-5, 4]), Of(2)], dtypes=("float32",), tolerance=EXACT,
         expected=lambda x, pads, value: np.full(2, value), name="cut_behind_the_end"),
    _refused("dimension 0 of [0,3] has no element to pad with", (0, 3), (1, 0, 0, 0), mode="reflect"),
    _refused("dimension 3 with pads -2 and -2 is no size", (3,), (-2, -2)),
    _refused("pads [1,1] must have two numbers for each of 2 dimensions", (2, 3), (1, 1)),
    _refused("axis 2 is outside [-2, 2)", (2, 3), (1, 1), None, np.array([2])),
    _refused("axis -2 is named twice", (2, 3), (1, 1, 1, 1), None, np.array([0, -2])),
    _refused("constant_value has shape [2]", (2, 3), (1, 1, 1, 1), Of([1, 2])),
    _refused("mode 'mirror' is not one of version 25", (2, 3), (1, 1, 1, 1), mode="mirror"),
    Case(op="Pad", inputs=[Rand((3,)), np.array([1, 1])], attrs={"mode": "wrap"}, opset=18, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "mode 'wrap' is not one of version 18")),
]  # fmt: skip
