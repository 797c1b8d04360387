"""ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum,
ReduceLogSumExp."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS

_TYPES = (*FLOATS, "int32", "int64", "uint32", "uint64")
_EXTREMA_TYPES = (*_TYPES, "int8", "uint8", "bool")
_EXTREMA = ("ReduceMax", "ReduceMin")


def _log_sum_exp(x: np.ndarray, **kw: Any) -> np.ndarray:
    if x.size == 0:
        return np.log(np.sum(np.exp(x), **kw))
    top = np.max(x, **(kw | {"keepdims": True}))
    top = np.where(np.isfinite(top), top, 0.0)
    sums = np.log(np.sum(np.exp(x - top), **(kw | {"keepdims": True}))) + top
    return sums.reshape(np.sum(x, **kw).shape)


def _extremum(f: Any, empty: float) -> Any:
    """Of nothing: minus or plus infinity, or the end of the type's range."""

    def reduce(x: np.ndarray, **kw: Any) -> np.ndarray:
        if x.dtype.kind == "b":
            return f(x, initial=empty > 0, **kw)
        ends = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        return f(x, initial=empty if x.dtype.kind == "f" else ends.max if empty > 0 else ends.min, **kw)

    return reduce


def _integral(f: Any) -> Any:
    """Truncates what numpy computes in float64 from integers."""
    return lambda x, **kw: np.trunc(f(x, **kw)).astype(x.dtype) if x.dtype.kind in "iu" else f(x, **kw)


_REFERENCES: dict[str, Any] = {
    "ReduceSum": lambda x, **kw: np.sum(x, dtype=x.dtype, **kw),
    "ReduceMean": _integral(np.mean),
    "ReduceMax": _extremum(np.max, -np.inf),
    "ReduceMin": _extremum(np.min, np.inf),
    "ReduceProd": lambda x, **kw: np.prod(x, dtype=x.dtype, **kw),
    "ReduceSumSquare": lambda x, **kw: np.sum(x * x, dtype=x.dtype, **kw),
    "ReduceL1": lambda x, **kw: np.sum(np.abs(x), dtype=x.dtype, **kw),
    "ReduceL2": _integral(lambda x, **kw: np.sqrt(np.sum(x * x, **kw))),
    "ReduceLogSum": _integral(lambda x, **kw: np.log(np.sum(x, **kw))),
    "ReduceLogSumExp": _integral(lambda x, **kw: _log_sum_exp(x.astype(np.float64), **kw)),
}


def _log_terms(x: np.ndarray, **kw: Any) -> np.ndarray:
    """What the logarithm of a sum of exponentials adds up; the sum's relative error is an absolute one of it."""
    return np.max(np.abs(x), initial=0, **kw) + np.abs(_log_sum_exp(x, **kw)) + 1


_INPUT_SINCE = {op: 13 if op == "ReduceSum" else 18 for op in _REFERENCES}
_OLD = {"ReduceSum": (1, 11), "ReduceMax": (1, 11, 12, 13), "ReduceMin": (1, 11, 12, 13)}


def _reference(op: str, fixed: Sequence[int] | None = None) -> Any:
    return _over_axes(_REFERENCES[op], fixed)


def _over_axes(f: Any, fixed: Sequence[int] | None = None) -> Any:
    """The axes come as an attribute, as an input, or (`fixed`) as what they mean."""

    def reference(x: np.ndarray, given: Any = None, axes: Any = None, keepdims: int = 1, **_: Any) -> np.ndarray:
        chosen = fixed if fixed is not None else given if given is not None and given.size else axes
        axis = None if chosen is None or (fixed is None and not len(chosen)) else tuple(int(a) for a in chosen)
        return np.asarray(f(x, axis=axis, keepdims=bool(keepdims)))

    return reference


# Sums lose what cancels.
_MAGNITUDES: dict[str, Any] = {
    "ReduceSum": "absolute",
    "ReduceMean": "absolute",
    "ReduceLogSumExp": _over_axes(_log_terms),
}


def _values(op: str, shape: Sequence[int]) -> Rand:
    """Positive under a logarithm; small under a product."""
    if op == "ReduceLogSum":
        return Rand(shape, low=1, high=6)
    return Rand(shape, low=1, high=3) if op == "ReduceProd" else Rand(shape)


def _case(op: str, shape: Sequence[int], axes: Sequence[int] | None, dtypes: Sequence[str], **more: Any) -> Case:
    """With the axes as an input."""
    inputs = [_values(op, shape)] + ([] if axes is None else [np.array(axes, dtype=np.int64)])
    label = "all" if axes is None else "x".join(map(str, axes)) or "none"
    more.setdefault("name", f"{'x'.join(map(str, shape)) or 'scalar'}_axes_{label}")
    more.setdefault("expected", _reference(op))
    more.setdefault("magnitude", _MAGNITUDES.get(op))
    more.setdefault("opset", f"{_INPUT_SINCE[op]}+")
    return Case(op=op, inputs=inputs, dtypes=dtypes, **more)


# Shape and axes: rows, columns, alternating dimensions, dimensions of size 1, ranks that coalesce.
_LAYOUTS: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
    ((7,), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0,)),
    ((4, 8), (-1,)),
    ((8, 16), (-2,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (1,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 8), (0, 2)),
    ((3, 1, 5), (1,)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (0, 2, 4, 6)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (-1, -3, 1)),
    ((5, 33), None),
    ((), None),
    ((1, 1), (0, 1)),
    ((3, 0), (1,)),
    ((0, 3), (1,)),
    ((2, 0, 4), (0, 1)),
    ((3, 2, 4100), (0, 2)),  # long runs, in packs and without
    ((3, 2, 1029), (0, 2)),
]
# Several warps, blocks and splits (the workspace) in both directions.
_LARGE: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
    ((3, 1000), (1,)),
    ((1000, 3), (0,)),
    ((4096, 24), (0,)),
    ((2, 4096), (1,)),
    ((100_003,), None),
    ((131_072,), None),
    ((60_000, 2), (0,)),
    ((20_000, 8), (0,)),
    ((300, 257), (1,)),
    ((257, 300), (0,)),
    ((4, 30, 50, 16), (0, 2)),
    ((9, 7, 400), (0, 2)),
]

# The reach of their values: the sums of exponentials of a narrower one differ by less than 16 bits can tell.
_REACH = {"ReduceSum": 1, "ReduceMean": 1, "ReduceLogSumExp": 9, "ReduceMin": 1, "ReduceL2": 1}
_LARGE_TYPES = {"ReduceSum": ("float32", "float16", "int64"), "ReduceLogSumExp": ("float32", "float16")}

CASES = [
    *(
        _case(op, (4, 5, 6), (1,), _EXTREMA_TYPES if op in _EXTREMA else _TYPES)
        for op in _REFERENCES
    ),
    *(
        Case(op=op, inputs=[_values(op, (3, 4, 5))], expected=_reference(op),
             dtypes=_EXTREMA_TYPES if op in _EXTREMA else _TYPES, opset=_OLD.get(op, (1, 11, 13)), attrs=attrs,
             name=name, magnitude=_MAGNITUDES.get(op))
        for op in _REFERENCES
        for attrs, name in (({"axes": [0, 2]}, "attribute"),
                            ({"keepdims": 0}, "all_dropped"))
    ),
    Case(op="ReduceMean", inputs=[Rand((3, 4))], expected=_reference("ReduceMean"), dtypes=("float32",), opset=13,
         magnitude="absolute",
         attrs={"axes": [-1], "keepdims": 0}, name="negative_attribute"),
    *(
        _case(op, shape, axes, ("float32", "float16"))
        for op in ("ReduceSum", "ReduceMax")
        for shape, axes in _LAYOUTS
    ),
    *(_case("ReduceSum", shape, axes, ("float32",), attrs={"keepdims": 0}, name=f"dropped_{i}")
      for i, (shape, axes) in enumerate(_LAYOUTS)),
    *(
        Case(op=op, inputs=[Rand(shape, low=-_REACH[op], high=_REACH[op]),
                            *([] if axes is None else [np.array(axes, dtype=np.int64)])],
             expected=_reference(op), magnitude=_MAGNITUDES.get(op), name=f"large_{'x'.join(map(str, shape))}",
             dtypes=_LARGE_TYPES.get(op, ("float32", "bfloat16")))
        for op in _REACH
        for shape, axes in _LARGE
    ),
    # Nothing to reduce: the identity of each operation.
    *(
        _case(op, (2, 0, 3), (1,), (*FLOATS, "int32") if op not in ("ReduceMean", "ReduceLogSum", "ReduceLogSumExp")
              else FLOATS, name="nothing")
        for op in _REFERENCES
    ),
    *(_case(op, (2, 0), (1,), ("bool", "int8", "uint8"), name="nothing", opset=20) for op in _EXTREMA),
    # An empty list of axes: all of them, or none, in which case elements are still squared and so on.
    *(
        _case(op, (3, 4), (), ("float32", "int32"), name="empty_axes_all")
        for op in ("ReduceSum", "ReduceL2")
    ),
    *(
        _case(op, (3, 4), (), ("float32",), name="empty_axes_none", attrs={"noop_with_empty_axes": 1},
              expected=_reference(op, ()), skip={"session": "the host takes the node for a copy of its input"}
              if op != "ReduceSum" else {})
        for op in _REFERENCES
    ),
    *(
        _case(op, (3, 4), None, ("float32",), name="absent_axes_none", attrs={"noop_with_empty_axes": 1},
              expected=_reference(op, ()))
        for op in ("ReduceSum",)
    ),
    *(
        Case(op=op, inputs=[Of([[0, 1, np.nan, 3], [np.inf, 1, 2, 3], [-np.inf, 1, 2, 3],
                                [-np.inf, -np.inf, -np.inf, -np.inf], [np.inf, np.inf, 1, 2], [np.nan, np.inf, 1, 2]]),
                            np.array([axis], dtype=np.int64)],
             expected=_reference(op), dtypes=FLOATS, name=f"specials_axis{axis}")
        for op in ("ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceL1")
        for axis in (0, 1)
    ),
    *(
        Case(op=op, inputs=[Rand((20, 9), full=True), np.array([0], dtype=np.int64)], expected=_reference(op),
             dtypes=("int32", "int64", "uint32", "uint64"), name="overflow")
        for op in ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceMax", "ReduceMin")
    ),
    Case(op="ReduceLogSumExp", inputs=[Of([[1000.0, 1000.0], [-1000.0, -1001.0]]), np.array([1], dtype=np.int64)],
         expected=_reference("ReduceLogSumExp"), dtypes=("float32", "float64"), name="no_overflow"),
    Case(op="ReduceSum", inputs=[Rand((2, 3)), np.array([2], dtype=np.int64)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)")),
    Case(op="ReduceMax", inputs=[Rand((2, 3)), np.array([[0]], dtype=np.int64)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axes have shape [1,1]")),
]  # fmt: skip
