"""Det."""

import functools
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS


def _det(x: np.ndarray, terms: bool = False) -> np.ndarray:
    """With `terms` what Hadamard's inequality allows."""
    return np.linalg.norm(x, axis=-1).prod(-1) if terms else np.linalg.det(x)


_DET: dict[str, Any] = {"op": "Det", "expected": _det, "magnitude": functools.partial(_det, terms=True)}

CASES = [
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
]  # fmt: skip
