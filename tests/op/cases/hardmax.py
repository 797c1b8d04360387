"""Hardmax, and LRN, Det and Dropout."""

import functools
import math
from typing import Any

import numpy as np

from ..harness import Case, Rand, T
from ..harness.dtypes import FLOAT8, FLOATS


def _hardmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return y


def _flat_hardmax(x: np.ndarray, axis: int = 1) -> np.ndarray:
    return _hardmax(x.reshape(math.prod(x.shape[:axis]), -1)).reshape(x.shape)


def _lrn(x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> np.ndarray:
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        squares[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    return x / (bias + float(np.float32(alpha)) / size * squares) ** beta


def _det(x: np.ndarray, terms: bool = False) -> np.ndarray:
    """With `terms` what Hadamard's inequality allows."""
    return np.linalg.norm(x, axis=-1).prod(-1) if terms else np.linalg.det(x)


_LRN: dict[str, Any] = {"op": "LRN", "expected": _lrn}
_DET: dict[str, Any] = {"op": "Det", "expected": _det, "magnitude": functools.partial(_det, terms=True)}
_DROPOUT: dict[str, Any] = {"op": "Dropout"}

CASES = [
    *(
        Case(op="Hardmax", inputs=[Rand(shape)], attrs={"axis": axis}, expected=_hardmax, dtypes=("float32", "float16"))
        for shape, axis in [((3, 7), -1), ((2, 5, 8), 1), ((2, 5, 3), 0), ((1, 4099), 1), ((5,), 0), ((300, 8), 1)]
    ),
    Case(op="Hardmax", inputs=[Rand((3, 40), specials=True)], expected=_hardmax, dtypes=FLOATS),
    Case(op="Hardmax", inputs=[Rand((3, 4, 5))], expected=_flat_hardmax, dtypes=FLOATS, opset=(1, 11)),
    *(
        Case(op="Hardmax", inputs=[Rand((3, 4, 5))], attrs={"axis": axis}, expected=_flat_hardmax, dtypes=("float32",),
             opset=11)
        for axis in (0, 2)
    ),
    # the first of equals
    Case(op="Hardmax", inputs=[np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32)], expected=_hardmax),
    Case(op="Hardmax", inputs=[Rand((0, 4), "float32")], expected=_hardmax),
    Case(op="Hardmax", inputs=[Rand((2, 3), "float32")], attrs={"axis": 2}, error=("INVALID_ARGUMENT", "axis 2")),
    # windows that reach beyond the channels, odd and even; positions in packs and not
    *(
        Case(**_LRN, inputs=[Rand(shape, low=-3, high=3)], attrs={"size": size, **more}, dtypes=("float32", "float16"))
        for shape, size, more in [
            ((2, 7, 4, 6), 3, {}),
            ((2, 7, 5, 5), 4, {"alpha": 0.5}),
            ((1, 3, 8, 8), 9, {"alpha": 2.0, "beta": 0.5, "bias": 2.0}),
            ((1, 5, 3, 3), 1, {"alpha": 1.0}),
            ((3, 6, 8), 5, {"alpha": 1.0, "beta": 1.5}),
            ((2, 9), 3, {"alpha": 1.0}),
        ]
    ),
    Case(**_LRN, inputs=[Rand((2, 5, 4, 4), low=-3, high=3)], attrs={"size": 3, "alpha": 0.1}, dtypes=FLOATS,
         opset="1+"),
    Case(op="LRN", inputs=[Rand((2, 0, 4, 4), "float32")], attrs={"size": 3}, expected=lambda x, **_: x),
    Case(op="LRN", inputs=[Rand((2,), "float32")], attrs={"size": 3}, error=("INVALID_ARGUMENT", "batch and channels")),
    Case(op="LRN", inputs=[Rand((2, 3), "float32")], attrs={"size": 0}, error=("INVALID_ARGUMENT", "size is 0")),
    *(
        Case(**_DET, inputs=[Rand(shape, low=-2, high=2)], dtypes=("float32", "float64"))
        for shape in [(1, 1), (2, 2), (3, 3), (4, 8, 8), (2, 3, 5, 5), (2, 20, 20)]
    ),
    # computed in fp64, so nothing is lost but the rounding
    Case(op="Det", inputs=[Rand((2, 70, 70), low=-2, high=2)], expected=_det, dtypes=("float32",)),
    Case(**_DET, inputs=[Rand((2, 4, 4), low=-2, high=2)], dtypes=FLOATS, opset="11+"),
    Case(op="Det", inputs=[Rand((0, 3, 3), "float32")], expected=lambda x: np.zeros(0)),
    Case(op="Det", inputs=[Rand((3, 0, 0), "float32")], expected=lambda x: np.ones(3)),
    # rows that must change places, a singular matrix, NaN
    Case(
        **_DET,
        inputs=[np.array([[[0, 2, 1], [3, 0, 0], [0, 1, 4]], [[1, 2, 3], [2, 4, 6], [0, 0, 1]],
                          [[5, 1, 2], [0, np.nan, 1], [0, 3, 4]]], np.float64)],
        name="pivots",
    ),
    *(
        Case(op="Det", inputs=[Rand(shape, "float32")], error=("INVALID_ARGUMENT", "square"),
             skip={"session": "the host's shape inference refuses it"})
        for shape in [(3,), (2, 3)]
    ),
    # the mask says that nothing was dropped; before version 12 it is what the host gives
    Case(op="Dropout", inputs=[Rand((3, 5))], expected=lambda x, *_: (x, np.ones_like(x, bool)), outputs=(T, "bool"),
         dtypes=(*FLOATS, *FLOAT8), opset="12+"),
    *(
        Case(op="Dropout", inputs=[Rand((3, 5)), Rand((), ratio)],
             expected=lambda x, *_: (x, np.ones_like(x, bool)), outputs=(T, "bool"), dtypes=("float32",), opset="12+")
        for ratio in (*FLOATS, *FLOAT8)
    ),
    Case(op="Dropout", inputs=[Rand((3, 5))], attrs={"ratio": 0.9}, dtypes=FLOATS, opset=10, outputs=(T, "bool"),
         expected=lambda x, **_: (x, np.zeros_like(x, bool))),
    Case(op="Dropout", inputs=[Rand((3, 5))], dtypes=FLOATS, opset=7, outputs=(T, T),
         expected=lambda x: (x, np.zeros_like(x))),
    *(
        Case(op="Dropout", inputs=[Rand(shape, "float32")], expected=lambda x: x, opset="7+")
        for shape in [(3, 5), (), (0, 3)]
    ),
    Case(op="Dropout", inputs=[Rand((3,), "float32"), None, np.array(True)], error=("NOT_SUPPORTED", "training_mode")),
]  # fmt: skip
