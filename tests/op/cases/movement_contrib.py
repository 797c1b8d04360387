"""What com.microsoft has of the movement family: Trilu, Pad, Range, GatherND, Unique and UnfoldTensor."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.case import MICROSOFT
from ..harness.dtypes import FIXED_SIZE, NUMERIC
from ..harness.tolerances import EXACT


def _case(op: str, inputs: Any, expected: Any, dtypes: tuple[str, ...], **more: Any) -> Case:
    return Case(domain=MICROSOFT, op=op, opset=1, inputs=inputs, expected=expected, dtypes=dtypes, tolerance=EXACT,
                **more)  # fmt: skip


def _refused(op: str, inputs: Any, text: str, **more: Any) -> Case:
    return Case(domain=MICROSOFT, op=op, opset=1, inputs=inputs, dtypes=("float32",), error=("INVALID_ARGUMENT", text),
                **more)  # fmt: skip


def _pad(x: np.ndarray, pads: np.ndarray, value: np.ndarray | None = None, mode: str = "constant") -> np.ndarray:
    widths = pads.reshape(2, -1).T.tolist()
    more = {"constant_values": 0 if value is None else value.reshape(())} if mode == "constant" else {}
    return np.pad(x, widths, mode=mode, **more)  # type: ignore[call-overload,no-any-return]


def _unique(x: np.ndarray) -> tuple[np.ndarray, ...]:
    values = list(dict.fromkeys(x.tolist()))
    inverse = np.array([values.index(value) for value in x.tolist()], np.int64)
    return np.array(values, x.dtype), inverse, np.bincount(inverse, minlength=len(values)).astype(np.int64)


def _unfold(x: np.ndarray, size: int, dim: int = -1, step: int = 1) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
    return np.take(windows, range(0, windows.shape[dim if dim >= 0 else dim - 1], step), axis=dim % x.ndim)


CASES = [
    _case("Trilu", [Rand((2, 5, 7), nonzero=True), Of(1, "int64")], lambda x, k, upper=1: np.triu(x, int(k)),
          (*NUMERIC, "bool")),
    _case("Trilu", [Rand((5, 4), nonzero=True)], lambda x, upper: np.tril(x), ("float32",), attrs={"upper": 0}),

    *(_case("Pad", [Rand((3, 4)), np.array(pads)], _pad, ("float32", "float16", "float64"), attrs={"mode": mode},
            name=f"{mode}_rank_{np.ndim(pads)}")
      for mode in ("constant", "reflect", "edge") for pads in ([1, 0, 2, 3], [[1, 0, 2, 3]])),
    _case("Pad", [Rand((3, 4)), np.array([1, 0, 2, 3]), Of(2)], _pad, ("float32", "float16", "float64")),
    _refused("Pad", [Rand((3, 4)), np.array([1, 0, 2, 3])], "mode 'wrap' is not one of version 1",
             attrs={"mode": "wrap"}),

    _case("Range", [Of(3), Of(11), Of(2)], lambda *_: np.arange(3, 11, 2),
          ("float32", "float64", "int16", "int32", "int64")),
    _case("Range", [Of(3), Of(11)], lambda *_: np.arange(3, 11), ("float32", "int64")),
    _refused("Range", [Of(3), Of([11, 12])], "limit has shape [2]"),

    *(_case("GatherND", [Rand((5, 4, 3)), Rand((6, 2), index, low=-4, high=3)], lambda x, i: x[i[:, 0], i[:, 1]],
            tuple(t for t in FIXED_SIZE if t != "bfloat16") if index == "int64" else ("float32",), name=f"by_{index}")
      for index in ("int64", "int32")),

    _case("Unique", [Rand((40,), low=0, high=6)], _unique, (*(t for t in NUMERIC if t != "bfloat16"), "bool"),
          outputs=("T", "int64", "int64")),
    _case("Unique", [Rand((1500,), low=0, high=900)], _unique, ("int32",), outputs=("T", "int64", "int64")),

    *(_case("UnfoldTensor", [Rand(shape, full=True)], _unfold, ("float32", "int8"), attrs=attrs)
      for shape, attrs in [((7,), {"size": 3}), ((4, 9), {"size": 4, "step": 2}), ((6, 5), {"size": 2, "dim": 0}),
                           ((3, 8, 5), {"size": 3, "step": 3, "dim": -2}), ((5,), {"size": 5})]),
    _case("UnfoldTensor", [Rand((4, 9))], _unfold, FIXED_SIZE, attrs={"size": 4, "step": 2}, name="types"),
    _refused("UnfoldTensor", [Rand((4,))], "windows of 5 do not fit dimension 0 of [4]", attrs={"size": 5}),
    _refused("UnfoldTensor", [Rand((4,))], "size 2 and step 0 must be positive", attrs={"size": 2, "step": 0}),
    _refused("UnfoldTensor", [Rand((4,))], "dim 1 is outside [-1, 1)", attrs={"size": 2, "dim": 1}),
]  # fmt: skip
