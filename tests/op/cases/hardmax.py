"""Hardmax."""

import math

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS


def _hardmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return y


def _flat_hardmax(x: np.ndarray, axis: int = 1) -> np.ndarray:
    return _hardmax(x.reshape(math.prod(x.shape[:axis]), -1)).reshape(x.shape)


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
]  # fmt: skip
