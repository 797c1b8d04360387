"""Scatter, ScatterElements and ScatterND; an update outside the data is left out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE, FLOATS, NUMERIC
from ..harness.tolerances import EXACT, Tolerance

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")
_DETERMINISTIC = {"deterministic_compute": 1}


def _combiner(reduction: str, dtype: np.dtype) -> Callable[[Any, Any], Any]:
    if dtype == np.bool_:
        both: dict[str, Callable[[Any, Any], Any]] = {"add": np.logical_or, "mul": np.logical_and,
                                                      "max": np.logical_or, "min": np.logical_and}  # fmt: skip
        return both[reduction]
    return {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]


def _put(out: np.ndarray, at: tuple[Any, ...], value: Any, reduction: str) -> None:
    out[at] = value if reduction == "none" else _combiner(reduction, out.dtype)(out[at], value)


def _elements(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int = 0, reduction: str = "none"
) -> np.ndarray:
    out = data.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(*indices.shape):
            index = int(indices[at])
            size = data.shape[axis]
            if -size <= index < size:
                where = list(at)
                where[axis] = index
                _put(out, tuple(where), updates[at], reduction)
    return out


def _nd(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str = "none") -> np.ndarray:
    out = data.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(*indices.shape[:-1]):
            where = tuple(int(i) for i in indices[at])
            if all(-size <= i < size for i, size in zip(where, data.shape, strict=False)):
                _put(out, where, updates[at], reduction)
    return out


def _along(shape: Sequence[int], axis: int, size: int) -> np.ndarray:
    """Indices that no two updates share, some of them negative, in whatever order they are rolled."""
    places = (np.arange(shape[axis]) * 5 + 3) % size if np.gcd(5, size) == 1 else np.arange(shape[axis])
    places = np.where(np.arange(shape[axis]) % 3 == 1, places - size, places)
    each = [1] * len(shape)
    each[axis] = -1
    return np.broadcast_to(places.reshape(each), shape).astype(np.int64)


# data, axis, indices
_ELEMENTS: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (3,)),
    ((5, 3), 0, (4, 3)),
    ((5, 3), 0, (4, 2)),
    ((5, 7), 1, (5, 6)),
    ((5, 7), -1, (2, 7)),
    ((2, 6, 3), 1, (2, 4, 3)),
    ((2, 6, 3), -2, (1, 6, 2)),
    ((4, 3), 0, (0, 3)),
    ((33, 67), 1, (33, 61)),
    ((1, 2, 1, 3, 2, 1, 2, 1, 3), 3, (1, 2, 1, 2, 2, 1, 1, 1, 3)),
]
# data, indices (without their last dimension), length of a tuple
_ND: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((8,), (4,), 1),
    ((8, 3), (5,), 1),
    ((8, 64), (6,), 1),  # rows of whole packs
    ((8, 67), (6,), 1),
    ((4, 3, 5), (2, 2), 1),
    ((7, 11), (5,), 2),
    ((7, 11, 4), (5,), 2),
    ((7, 3), (0,), 1),
    ((), (), 0),
    ((2, 3), (), 0),
    ((5, 2, 2, 2, 2, 2, 2, 2, 3), (3,), 8),
]


def _tuples(data: Sequence[int], outer: Sequence[int], length: int) -> np.ndarray:
    """Tuples of distinct rows. So they are rolled by one, when the second index has the numbers of the first: which of
    two updates of one row stays is open, so the second dimension holds them all or nearly none."""
    count = int(np.prod(outer, dtype=int))
    tuples = np.zeros((count, length), np.int64)
    if length:
        tuples[:, 0] = np.arange(count) % data[0]
        tuples[1::3, 0] -= data[0]
    return tuples.reshape(*outer, length)


def _element_case(
    row: tuple[tuple[int, ...], int, tuple[int, ...]], dtypes: Sequence[str], index: str = "int64", **more: Any
) -> Case:
    data, axis, indices = row
    where = _along(indices, axis, data[axis]).astype(index)
    return Case(**({"op": "ScatterElements", "inputs": [Rand(data, full=True), where, Rand(indices, full=True)],
                    "attrs": {"axis": axis}, "expected": _elements, "dtypes": dtypes, "tolerance": EXACT,
                    "name": f"{'x'.join(map(str, data))}_axis_{axis}_{'x'.join(map(str, indices))}_{index}"}
                   | more))  # fmt: skip


def _nd_case(row: tuple[tuple[int, ...], tuple[int, ...], int], dtypes: Sequence[str], **more: Any) -> Case:
    data, outer, length = row
    inputs = [Rand(data, full=True), _tuples(data, outer, length), Rand((*outer, *data[length:]), full=True)]
    name = f"{'x'.join(map(str, data)) or 'scalar'}_{'x'.join(map(str, outer)) or 'one'}_of_{length}"
    return Case(**({"op": "ScatterND", "inputs": inputs, "expected": _nd, "dtypes": dtypes, "tolerance": EXACT,
                    "name": name} | more))  # fmt: skip


def _magnitude(reference: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def magnitude(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, **attrs: Any) -> np.ndarray:
        return reference(np.abs(data), indices, np.abs(updates), **attrs)

    return magnitude


# Each of some 5 updates of an element rounds it to its type; sums cancel.
_ROUNDS = {
    "float32": Tolerance(8),
    "float64": Tolerance(8),
    "float16": Tolerance(4, terms=2.0**14),
    "bfloat16": Tolerance(4, terms=2.0**17),
}


# The same summed in order in float32, and rounded once.
_ROUNDS_ONCE = {"float16": Tolerance(1), "bfloat16": Tolerance(1), "float32": Tolerance(8), "float64": Tolerance(8)}


def _reduced(op: str, reduction: str, dtypes: Sequence[str], **more: Any) -> Case:
    """Many updates of an element, and elements without any."""
    reference: Callable[..., np.ndarray] = _elements if op == "ScatterElements" else _nd
    data, indices, updates = ((5, 7), (13, 7), (13, 7)) if op == "ScatterElements" else ((6, 5, 7), (13, 2), (13, 7))
    rounds = reduction in ("add", "mul")
    exact = dict.fromkeys((*NUMERIC, "bool"), EXACT)
    return Case(**({"op": op, "inputs": [Rand(data), Rand(indices, "int64", low=-5, high=3), Rand(updates)],
                    "attrs": {"reduction": reduction}, "expected": reference, "dtypes": dtypes,
                    "magnitude": _magnitude(reference) if rounds else None,
                    "tolerance": exact | (_ROUNDS if rounds else {}),
                    "name": f"{reduction}_types"} | more))  # fmt: skip


def _refused(op: str, text: str, *shapes: Sequence[int], code: str = "INVALID_ARGUMENT", **more: Any) -> Case:
    data, indices, updates = shapes
    return Case(**({"op": op, "inputs": [Rand(data), Rand(indices, "int64", low=0, high=1), Rand(updates)],
                    "dtypes": ("float32",), "error": (code, text)} | more))  # fmt: skip


_REDUCED_TYPES = (*NUMERIC, "bool")
_BOTH = ("ScatterElements", "ScatterND")
_SPECIALS = [np.nan, 1.0, -np.inf, 0.0, -0.0, 3.0, np.nan, 2.0]

CASES = [
    *(_element_case(row, _WIDTHS if len(row[0]) == 2 else ("float32",)) for row in _ELEMENTS),
    *(_element_case(row, ("float32",), "int32") for row in _ELEMENTS),
    *(_nd_case(row, _WIDTHS if len(row[0]) == 2 else ("float32",)) for row in _ND),
    _element_case(_ELEMENTS[4], FIXED_SIZE, opset="11+", name="types"),
    _element_case(_ELEMENTS[4], FIXED_SIZE, op="Scatter", opset=9, name="types"),
    _element_case(_ELEMENTS[4], ("float32",), op="Scatter", opset=11, skip={"session": "deprecated in that version"}),
    _element_case(_ELEMENTS[4], ("float32",), "int32", op="Scatter", opset=10),
    _nd_case(_ND[1], FIXED_SIZE, opset="11+", name="types"),

    # every reduction of every type, in any order and in that of the updates
    *(_reduced(op, reduction, _REDUCED_TYPES, opset="16+" if reduction in ("add", "mul") else "18+")
      for op in _BOTH for reduction in ("add", "mul", "max", "min")),
    *(_reduced(op, reduction, (*FLOATS, "int32", "int8"), options=_DETERMINISTIC, tolerance=_ROUNDS_ONCE,
               name=f"{reduction}_deterministic")
      for op in _BOTH for reduction in ("add", "mul")),
    *(Case(op="ScatterElements",
           inputs=[Rand((4,)), Rand((700,), "int64", low=-5, high=4), Rand((700,), low=0, high=2)],
           attrs={"reduction": "add"}, expected=_elements, magnitude=_magnitude(_elements), options=options,
           dtypes=("float32", "int32"), tolerance={"float32": Tolerance(8), "int32": EXACT},
           name=f"many_{len(options)}")
      for options in ({}, _DETERMINISTIC)),
    *(Case(op="ScatterElements", inputs=[Rand((8,), specials=True), Rand((8,), "int64", low=0, high=7), Of(_SPECIALS)],
           attrs={"reduction": reduction}, expected=_elements, dtypes=("float32", "float16", "float64"),
           tolerance=EXACT, name=f"{reduction}_of_nan")
      for reduction in ("max", "min")),

    # in order, the last of several updates stays; more than a tile of the sort
    Case(op="ScatterElements", inputs=[Rand((9, 40)), Rand((70, 40), "int64", low=-10, high=9), Rand((70, 40))],
         expected=_elements, options=_DETERMINISTIC, dtypes=("float32",), tolerance=EXACT, name="last_one_stays"),
    Case(op="ScatterND", inputs=[Rand((5, 7)), Rand((40, 1), "int64", low=-6, high=5), Rand((40, 7))],
         expected=_nd, options=_DETERMINISTIC, dtypes=_WIDTHS, tolerance=EXACT, name="last_row_stays"),

    # outside
    Case(op="ScatterElements", inputs=[Rand((3, 2)), Of([[3, -4], [1, 2**62], [-(2**63), 0]], "int64"), Rand((3, 2))],
         expected=_elements, dtypes=_WIDTHS, tolerance=EXACT, name="outside"),
    Case(op="ScatterND", inputs=[Rand((3, 4)), Of([[2, 4], [1, -4], [-4, 1], [2**62, 1], [0, 0]], "int64"), Rand((5,))],
         expected=_nd, dtypes=_WIDTHS, tolerance=EXACT, name="outside"),

    _refused("ScatterElements", "indices of shape [3,2] and updates of shape [3,1] differ", (4, 2), (3, 2), (3, 1)),
    _refused("ScatterElements", "indices of shape [3,3] do not fit data of shape [4,2]", (4, 2), (3, 3), (3, 3)),
    _refused("ScatterElements", "axis 2 is outside [-2, 2)", (4, 2), (3, 2), (3, 2), attrs={"axis": 2}),
    _refused("ScatterND", "indices of shape [3,3] do not fit data of shape [4,2]", (4, 2), (3, 3), (3,)),
    _refused("ScatterND", "updates of shape [3,3] do not fit indices", (4, 2), (3, 1), (3, 3)),
    *(_refused(op, "reduction 'avg' is not one of version 18", (4, 2), (3, 2), (3, 2), attrs={"reduction": "avg"})
      for op in _BOTH),
    *(_refused(op, "reduction 'max' is not one of version 16", (4, 2), (3, 2), (3, 2), attrs={"reduction": "max"},
               opset=16) for op in _BOTH),
    *(_refused(op, "reduction 'add' of complex64", (4, 2), (3, 2), (3, 2), attrs={"reduction": "add"},
               dtypes=("complex64",), code="NOT_SUPPORTED") for op in _BOTH),
]  # fmt: skip
