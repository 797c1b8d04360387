"""Shape and Size: written by the host, from what it knows of the input."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import STORED

_BOUNDS = [(0, 2), (1, None), (-1, None), (None, -1), (-2, -1), (2, 1), (3, None), (-9, 9), (-(2**63), 2**63 - 1)]


def _shape(x: np.ndarray, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.array(x.shape[start:end], dtype=np.int64)


CASES = [
    Case(op="Shape", inputs=[Rand((2, 3))], dtypes=STORED, opset="1+", expected=_shape),
    *(Case(op="Shape", inputs=[Rand(shape)], dtypes=("float32",), expected=_shape)
      for shape in ((), (7,), (0, 4), (2, 3, 4, 5, 6, 1, 2, 1, 3))),
    *(Case(op="Shape", inputs=[Rand((2, 3, 4))], dtypes=("float32",), opset=(15, 25), expected=_shape,
           attrs={name: value for name, value in (("start", start), ("end", end)) if value is not None})
      for start, end in _BOUNDS),
    Case(op="Size", inputs=[Rand((2, 3))], dtypes=STORED, opset="1+", expected=lambda x: np.int64(x.size)),
    *(Case(op="Size", inputs=[Rand(shape)], dtypes=("float32",), expected=lambda x: np.int64(x.size))
      for shape in ((), (7,), (0, 4), (2, 3, 4, 5))),
]  # fmt: skip
