"""Range, EyeLike, OneHot and the windows: outputs that are made rather than computed."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE, FLOATS, INTS, NUMERIC, code_of
from ..harness.tolerances import EXACT, Tolerance

_RANGE_TYPES = (*FLOATS, "int16", "int32", "int64")


def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    if start.dtype.kind == "f":
        count = int(np.ceil((limit - start) / delta))
        return start + np.arange(max(count, 0)) * delta
    return np.array(range(int(start), int(limit), int(delta)), start.dtype)


def _ranges(start: float, limit: float, delta: float, dtypes: tuple[str, ...] = _RANGE_TYPES) -> Case:
    return Case(op="Range", inputs=[Of(start), Of(limit), Of(delta)], expected=_range, dtypes=dtypes,
                tolerance=Tolerance(1), name=f"{start}_{limit}_{delta}")  # fmt: skip


def _eye(x: np.ndarray, k: int = 0, dtype: int = 0) -> np.ndarray:
    return np.eye(*x.shape, k=max(min(k, x.shape[1]), -x.shape[0]))


def _one_hot(indices: np.ndarray, depth: np.ndarray, values: np.ndarray, axis: int = -1) -> np.ndarray:
    size = int(depth.reshape(()))
    whole = np.trunc(indices)
    inside = (whole >= -size) & (whole < size)
    whole = np.where(inside, whole, 0).astype(np.int64)  # before a negative number meets unsigned ones
    hot = np.where(inside, np.where(whole < 0, whole + size, whole), -1)
    out = np.where(np.arange(size) == hot[..., None], values[1], values[0])
    return np.moveaxis(out, -1, axis)


def _hot(shape: tuple[int, ...], depth: int, axis: int, dtypes: tuple[str, ...], **more: Any) -> Case:
    return Case(op="OneHot", inputs=[Rand(shape, "int64", low=-depth - 1, high=depth), Of(depth, "int64"), Of([2, 5])],
                attrs={"axis": axis}, expected=_one_hot, dtypes=dtypes, tolerance=EXACT,
                name=f"{'x'.join(map(str, shape)) or 'scalar'}_{depth}_axis_{axis}", **more)  # fmt: skip


_COSINES = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _window(op: str, integers: bool = False) -> Any:
    a, b, c = _COSINES[op]

    def window(size: np.ndarray, periodic: int = 1, output_datatype: int = 1) -> np.ndarray:
        count = int(size.reshape(()))
        angle = 2 * np.pi * np.arange(count) / (count - (0 if periodic else 1))
        values = a - b * np.cos(angle) + c * np.cos(2 * angle)
        values = np.where(np.abs(values) < 1e-15, 0, values)  # what is left of terms that cancel
        return np.trunc(values) if integers else values

    return window


def _windows(op: str, size: int, dtype: str = "float32", index: str = "int64", **attrs: int) -> Case:
    # Terms of the size of 1 cancel at the ends.
    tolerance = Tolerance(2, abs=1e-15, reason="cosines in double") if dtype in FLOATS else EXACT
    return Case(op=op, inputs=[Of(size, index)], attrs={"output_datatype": code_of(dtype), **attrs}, outputs=(dtype,),
                expected=_window(op, dtype in INTS), tolerance=tolerance,
                name=f"{size}_{dtype}_{'_'.join(attrs) or 'default'}")  # fmt: skip


CASES = [
    *(_ranges(*row) for row in [(0, 7, 1), (3, 40, 5), (9, -8, -4), (1, 2, 3), (2, 2, 1), (5, 2, 1), (2, 5, -1)]),
    *(_ranges(*row, ("float32", "float64")) for row in [(0, 1, 0.1), (-0.7, 3.2, 0.33), (5.5, -5.5, -0.25)]),
    _ranges(-30000, 32767, 17, ("int16",)),
    _ranges(-(2**63), 2**63 - 1, 2**56, ("int64",)),
    _ranges(2**63 - 1, -(2**63), -(2**56 + 3), ("int64",)),
    _ranges(0, 5000, 1, ("int64", "float32")),
    Case(op="Range", inputs=[Of([1]), Of([6]), Of([2])], dtypes=("int64",), tolerance=EXACT,
         expected=lambda *_: np.array([1, 3, 5]), name="lists_of_one"),
    Case(op="Range", inputs=[Of(-3), Of(12), Of(4)], dtypes=_RANGE_TYPES, opset="11+", expected=_range,
         tolerance=EXACT, name="versions"),
    Case(op="Range", inputs=[Of(0.25), Of(9), Of(0.75)], attrs={"stash_type": 1}, dtypes=FLOATS, tolerance=EXACT,
         expected=lambda start, limit, delta, stash_type: _range(start, limit, delta), name="stash_type"),
    Case(op="Range", inputs=[Of(0), Of(3000), Of(1)], dtypes=("float16", "bfloat16"), expected=_range,
         tolerance=EXACT, name="past_the_integers_of_16_bits"),
    Case(op="Range", inputs=[Of(0), Of(3), Of(1)], attrs={"stash_type": 10}, dtypes=("float16",),
         error=("NOT_SUPPORTED", "stash_type float16"), skip={"session": "such a node goes to the CPU provider"}),
    Case(op="Range", inputs=[Of(1), Of(5), Of(0)], dtypes=_RANGE_TYPES, error=("INVALID_ARGUMENT", "delta is 0"),
         skip={"session": "the host's shape inference divides by it"}),
    Case(op="Range", inputs=[Of(0), Of(np.nan), Of(1)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "in steps of 1"), skip={"session": "the host's shape inference counts it"}),
    Case(op="Range", inputs=[Of([1, 2]), Of(5), Of(1)], dtypes=("int64",), name="two_starts",
         error=("INVALID_ARGUMENT", "start has shape [2]")),

    *(Case(op="EyeLike", inputs=[Rand(shape)], attrs={"k": k} if k else {}, outputs=("T",), expected=_eye,
           dtypes=("float32",), tolerance=EXACT)
      for shape, k in [((3, 4), 0), ((4, 3), 1), ((5, 5), -2), ((1, 1), 0), ((3, 4), 4), ((3, 4), -(2**62)),
                       ((0, 4), 0), ((33, 67), 31), ((1, 7), -1)]),
    *(Case(op="EyeLike", inputs=[Rand((3, 5))], attrs={"dtype": code_of(dtype)}, outputs=(dtype,), expected=_eye,
           dtypes=("float32",), tolerance=EXACT, opset="9+", name=f"to_{dtype}")
      for dtype in (*(t for t in NUMERIC if t != "bfloat16"), "bool")),
    Case(op="EyeLike", inputs=[Rand((3, 5))], attrs={"dtype": code_of("bfloat16")}, outputs=("bfloat16",),
         expected=_eye, dtypes=("float32",), tolerance=EXACT, name="to_bfloat16"),
    Case(op="EyeLike", inputs=[Rand((4, 5))], attrs={"k": 1}, expected=_eye, dtypes=(*NUMERIC, "bool"), opset="9+",
         outputs=("T",), tolerance=EXACT, name="types"),
    Case(op="EyeLike", inputs=[Rand((4,))], dtypes=("float32",), error=("INVALID_ARGUMENT", "expected a matrix"),
         outputs=("T",)),

    *(_hot(shape, depth, axis, ("float32", "int64"))
      for shape, depth, axis in [((7,), 5, -1), ((7,), 5, 0), ((3, 4), 6, 1), ((3, 4), 6, -3), ((3, 4), 6, 2),
                                 ((0, 2), 3, 1), ((5,), 1, -1), ((33,), 67, -1), ((33,), 67, 0), ((2, 3, 65), 4, 1)]),
    _hot((), 3, 0, ("float32",), skip={"session": "the host's shape inference refuses a scalar"}),
    # rows of whole packs, from 2 MiB on
    _hot((1030,), 512, -1, ("float32",)),
    Case(op="OneHot", inputs=[Rand((132, 2), "float32", low=-1100, high=1100), Of(1024, "int64"), Of([2, 5])],
         expected=_one_hot, dtypes=("int64",), tolerance=EXACT, name="many_rows"),
    Case(op="OneHot", inputs=[Rand((3, 5), "int32", low=-4, high=3), Of([4], "int32"), Of([0, 1])], opset="9+",
         expected=_one_hot, dtypes=FIXED_SIZE, tolerance=EXACT, name="types"),
    *(Case(op="OneHot", inputs=[Rand((3, 5), dtype, low=low, high=4), Of(4, dtype), Of([3, 1])], expected=_one_hot,
           dtypes=("float32",), tolerance=EXACT, name=f"indices_{dtype}", opset="9+")
      for dtypes, low in [(("float32", "float16", "float64", "int8", "int16", "int32", "int64"), -5),
                          (("uint8", "uint16", "uint32", "uint64"), 0)]
      for dtype in dtypes),
    Case(op="OneHot", inputs=[Of([np.nan, np.inf, -np.inf, -0.5, 3.99, 2.5, 1e30], "float32"), Of(4, "int64"),
                              Of([3, 1])],
         expected=_one_hot, dtypes=("float32",), tolerance=EXACT, name="fractions_and_nan"),
    Case(op="OneHot", inputs=[np.array([0, 2**63, 2**64 - 1, 3], np.uint64), Of(4, "int64"), Of([3, 1])],
         expected=_one_hot, dtypes=("float32",), tolerance=EXACT, name="beyond_int64"),
    Case(op="OneHot", inputs=[Rand((3,), "int64"), Of(0, "int64"), Of([0, 1])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "depth 0 is not positive")),
    Case(op="OneHot", inputs=[Rand((3,), "int64"), Of([4, 4], "int64"), Of([0, 1])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "depth has shape [2]")),
    Case(op="OneHot", inputs=[Rand((3,), "int64"), Of(4, "int64"), Of([0, 1, 2])], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "values have shape [3]")),
    Case(op="OneHot", inputs=[Rand((3,), "int64"), Of(4, "int64"), Of([0, 1])], attrs={"axis": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)")),

    *(_windows(op, size, periodic=periodic) for op in _COSINES for size in (10, 301) for periodic in (0, 1)),
    *(_windows(op, 8, dtype, periodic=1) for op in _COSINES for dtype in (*FLOATS, *INTS)),
    *(_windows(op, 6, index="int32") for op in _COSINES),
    _windows("HannWindow", 0),
    _windows("HannWindow", 1, periodic=1),
    _windows("HannWindow", 1, periodic=0),
    Case(op="HannWindow", inputs=[Of(-1, "int64")], outputs=("float32",), error=("INVALID_ARGUMENT", "[-1] is no size"),
         skip={"session": "the host computes constants itself"}),
    Case(op="HannWindow", inputs=[Of(4, "int64")], outputs=("float32",), attrs={"output_datatype": code_of("bool")},
         error=("INVALID_ARGUMENT", "output_datatype 9 is no number's type"),
         skip={"session": "the host refuses the model"}),
]  # fmt: skip
