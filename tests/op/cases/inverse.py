"""com.microsoft's Inverse."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand

TYPES = ("float32", "float64", "float16")


def inverse(x: np.ndarray) -> np.ndarray:
    known = np.isfinite(x).all(axis=(-1, -2), keepdims=True)
    return np.where(known, np.linalg.inv(np.where(known, x, np.eye(x.shape[-1]))), np.nan)


def _terms(x: np.ndarray) -> np.ndarray:
    """What rounding of the matrix, or of steps, may move: |inverse| |matrix| |inverse|."""
    size = np.abs(inverse(x))
    return size @ np.abs(x) @ size


_CASE: dict[str, Any] = {"op": "Inverse", "domain": MICROSOFT, "opset": 1, "expected": inverse, "magnitude": _terms}
_PIVOTS = [[[0, 2, 1], [3, 0, 0], [0, 1, 4]], [[1e-3, 1, 0], [1, 1, 0], [0, 0, 5]], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]]

# Numbers in another order would be matrices without an inverse.
_FIXED: dict[str, Any] = {"constants": (0,), "skip": {"session": "the host would compute the constant itself"}}

CASES = [
    *(Case(**_CASE, inputs=[Rand(shape, low=-2, high=2)], dtypes=TYPES)
      for shape in [(1, 1), (2, 2), (4, 3, 3), (2, 3, 5, 5), (3, 9, 9), (2, 30, 30)]),
    Case(**_CASE, inputs=[Rand((2, 70, 70), low=-2, high=2)], dtypes=("float32",)),
    Case(**_CASE, inputs=[Of(_PIVOTS)], dtypes=TYPES, name="pivots", **_FIXED),
    # an unknown number stays in its matrix
    Case(**_CASE, inputs=[Of([[[2, 1], [1, 1]], [[np.nan, np.nan], [np.nan, np.nan]], [[4, 0], [1, 2]]])],
         dtypes=("float32",), name="unknown", **_FIXED),
    *(Case(**_CASE, inputs=[Rand(shape)], dtypes=("float32",)) for shape in [(0, 3, 3), (3, 0, 0)]),
    *(Case(op="Inverse", domain=MICROSOFT, opset=1, inputs=[Rand(shape, "float32")],
           error=("INVALID_ARGUMENT", "square"), skip={"session": "the host's shape inference refuses it"})
      for shape in [(3,), (2, 3)]),
]  # fmt: skip
