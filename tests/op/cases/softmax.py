"""Softmax, LogSoftmax, BiasSoftmax."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.case import MICROSOFT
from ..harness.dtypes import FLOATS

# Row lengths around the planner's choices: part of a warp, a warp, a block, and rows that are streamed; each with and
# without whole 16-byte packs.
_LENGTHS = (1, 2, 5, 8, 16, 31, 32, 33, 100, 128, 257, 1000, 1024, 4096, 4099)
_STREAMED = {"float32": (8193, 32772), "float16": (8200, 8201, 32776), "float64": (8197,)}


def _softmax(x: np.ndarray, axis: tuple[int, ...] | int) -> np.ndarray:
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: tuple[int, ...] | int) -> np.ndarray:
    if x.size == 0:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


_REFERENCES = {"Softmax": _softmax, "LogSoftmax": _log_softmax}


def _log_terms(x: np.ndarray, axis: tuple[int, ...] | int) -> np.ndarray:
    """The logarithm of a softmax is a difference; a relative error of the sum is an absolute one of its logarithm."""
    if x.size == 0:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return np.abs(shifted) + np.log(np.exp(shifted).sum(axis=axis, keepdims=True)) + 1


def _values(op: str, form: Any) -> dict[str, Any]:
    """Reference and magnitude of an operator in one of the forms below."""
    return {"expected": form(_REFERENCES[op]), "magnitude": form(_log_terms) if op == "LogSoftmax" else None}


def _single(f: Any) -> Any:
    """Of opset 13: along one axis."""
    return lambda x, axis=-1: f(x, axis)


def _flattened(f: Any) -> Any:
    """Of older opsets: the input is a matrix, flattened at the axis."""

    def reference(x: np.ndarray, axis: int = 1) -> np.ndarray:
        rows = int(np.prod(x.shape[:axis])) if axis >= 0 else int(np.prod(x.shape[: x.ndim + axis]))
        return f(x.reshape(rows, x.size // max(rows, 1)), 1).reshape(x.shape)

    return reference


def _bias(inner: bool) -> Any:
    def reference(x: np.ndarray, bias: np.ndarray, axis: int = 1, is_inner_broadcast: int = 0) -> np.ndarray:
        assert bool(is_inner_broadcast) == inner
        rows = int(np.prod(x.shape[:axis]))
        if x.size == 0:
            return x
        matrix = x.reshape(rows, -1)
        shift = bias.reshape(-1, matrix.shape[1])
        repeats = rows // shift.shape[0]
        shift = np.repeat(shift, repeats, 0) if inner else np.tile(shift, (repeats, 1))
        return _softmax(matrix + shift, 1).reshape(x.shape)

    return reference


_BIAS_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], int, int]] = [
    ((2, 3, 4, 8), (2, 1, 1, 8), 3, 1),
    ((2, 3, 4, 8), (1, 1, 4, 8), 3, 0),
    ((2, 3, 4, 8), (2, 3, 4, 8), 3, 0),
    ((2, 3, 5, 7), (1, 1, 5, 7), 2, 0),
    ((6, 130), (1, 130), 1, 1),
    ((4, 2, 9000), (4, 1, 9000), 2, 1),
    ((10, 20488), (1, 20488), 1, 1),
    ((6, 90008), (3, 90008), 1, 0),
    ((0, 4), (1, 4), 1, 0),
]

_SPECIALS = np.array([[0, 1, 2, 3], [np.nan, 1, 2, 3], [np.inf, 1, 2, 3], [-np.inf, 1, 2, 3],
                      [-np.inf, -np.inf, -np.inf, -np.inf], [np.inf, -np.inf, 1, 2]])  # fmt: skip

CASES = [
    *(
        Case(op=op, inputs=[Rand((3, 4, 6))], **_values(op, _single), dtypes=FLOATS, opset="13+", attrs={"axis": axis})
        for op in _REFERENCES
        for axis in (-1, 0, 1, -3)
    ),
    *(
        Case(op=op, inputs=[Rand((2, 3, 4))], **_values(op, _flattened), dtypes=FLOATS, opset=(1, 11),
             attrs={"axis": axis})
        for op in _REFERENCES
        for axis in (0, 1, 2)
    ),
    Case(op="Softmax", inputs=[Rand((2, 3, 4))], **_values("Softmax", _flattened), dtypes=("float32",), opset=11,
         attrs={"axis": -2}),
    *(  # many short columns
        Case(op=op, inputs=[Rand((2, n, columns))], **_values(op, _single), dtypes=("float32", "float16", "bfloat16"),
             attrs={"axis": 1})
        for op, n, columns in (("Softmax", 5, 65538), ("Softmax", 17, 65538), ("LogSoftmax", 16, 65538))
    ),
    *(
        Case(op=op, inputs=[Of(np.tile(_SPECIALS.T[None], (2, 1, 11000)))], **_values(op, _single),
             dtypes=("float32", "float16", "bfloat16"), attrs={"axis": 1}, name="short_columns_specials")
        for op in _REFERENCES
    ),
    Case(op="Softmax", inputs=[Rand((5, 7))], **_values("Softmax", _single), dtypes=("float32",), name="default_axis"),
    Case(op="LogSoftmax", inputs=[Rand((5, 7))], **_values("LogSoftmax", _flattened), dtypes=("float32",), opset=11,
         name="default_axis"),
    *(
        Case(op="Softmax", inputs=[Rand((3, n))], **_values("Softmax", _single),
             dtypes=("float32", "float16", "bfloat16"))
        for n in _LENGTHS
    ),
    *(
        Case(op=op, inputs=[Rand((2, n), low=-9, high=9)], **_values(op, _single), dtypes=(dtype,),
             name=f"streamed_{n}")
        for op in _REFERENCES
        for dtype, lengths in _STREAMED.items()
        for n in lengths
    ),
    # More long rows than the simulated device's multiprocessors take at a time; the longest exceed a block's memory.
    *(
        Case(op=op, inputs=[Rand(shape, low=-9, high=9)], **_values(op, _single),
             dtypes=("float32", "float16", "bfloat16"), name=f"long_{shape[1]}")
        for op in _REFERENCES
        for shape in ((19, 20488), (9, 66560), (9, 90008))
    ),
    # Many rows: several packs for each thread; few threads for each row.
    Case(op="Softmax", inputs=[Rand((300, 512))], **_values("Softmax", _single), dtypes=("float32", "float16")),
    Case(op="Softmax", inputs=[Rand((9000, 24))], **_values("Softmax", _single), dtypes=("float32", "float16")),
    *(
        Case(op=op, inputs=[Rand(shape)], **_values(op, _single), dtypes=("float32", "float16"), attrs={"axis": axis})
        for op in _REFERENCES
        for shape, axis in (((2, 70, 3), 1), ((300, 1, 5), 0), ((3, 5, 300), 1), ((1000, 2), 0), ((2, 9, 1), 1))
    ),
    *(
        Case(op="Softmax", inputs=[Rand(shape)], **_values("Softmax", _single), dtypes=("float32",),
             attrs={"axis": axis})
        for shape, axis in (((0, 3), 1), ((0, 40000), 1), ((3, 0), 1), ((3, 0), 0), ((2, 0, 4), 0))
    ),
    Case(op="Softmax", inputs=[Of(3.0)], expected=lambda x: np.ones_like(x), dtypes=("float32",), name="scalar",
         skip={"session": "the host's shape inference refuses it"}),
    *(
        Case(op=op, inputs=[Of(_SPECIALS)],
             **_values(op, _single), dtypes=FLOATS, attrs={"axis": axis}, name=f"specials_axis{axis}")
        for op in _REFERENCES
        for axis in (0, 1)
    ),
    Case(op="Softmax", inputs=[Of(np.where(np.arange(2 * 9001) % 9001 < 9000, -np.inf, 1.0).reshape(2, 9001))],
         **_values("Softmax", _single), dtypes=("float32",), name="streamed_infinities"),
    # Long rows of 16-bit numbers far from zero, where the maximum must be subtracted before it is scaled; a masked row.
    *(
        Case(op="Softmax", inputs=[Of(np.full((2, 20488), low) + np.arange(20488) % 7 * step)],
             **_values("Softmax", _single), dtypes=dtypes, name=f"long_offset_{low:g}")
        for low, step, dtypes in ((1020.0, 1.0, ("float16", "float32")), (-60000.0, 32.0, ("float16",)),
                                  (-3e38, 0.0, ("bfloat16", "float32")), (65000.0, 0.0, ("bfloat16", "float32")))
    ),
    Case(op="Softmax", inputs=[Of([[1000.0, 1001.0, -1000.0]])], **_values("Softmax", _single), dtypes=FLOATS,
         name="large"),
    *(
        Case(op="BiasSoftmax", domain=MICROSOFT, inputs=[Rand(x), Rand(bias)], expected=_bias(bool(inner)),
             dtypes=("float32", "float16", "float64"), attrs={"axis": axis, "is_inner_broadcast": inner})
        for x, bias, axis, inner in _BIAS_SHAPES
    ),
    Case(op="Softmax", inputs=[Rand((2, 3))], error=("INVALID_ARGUMENT", "axis 2 is outside [-2, 2)"),
         dtypes=("float32",), attrs={"axis": 2}),
    Case(op="BiasSoftmax", domain=MICROSOFT, inputs=[Rand((2, 3)), Rand((2, 4))], dtypes=("float32",),
         attrs={"axis": 1, "is_inner_broadcast": 1}, error=("INVALID_ARGUMENT", "bias [2,4] does not repeat")),
    Case(op="BiasSoftmax", domain=MICROSOFT, inputs=[Rand((4, 3)), Rand((3, 3))], dtypes=("float32",),
         attrs={"axis": 1, "is_inner_broadcast": 1}, error=("INVALID_ARGUMENT", "bias [3,3] does not repeat")),
]  # fmt: skip
