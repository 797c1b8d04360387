"""NonZero and Compress: outputs whose shape depends on the values."""

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE, NUMERIC
from ..harness.tolerances import EXACT


def _nonzero(x: np.ndarray) -> np.ndarray:
    """ONNX gives a scalar no coordinates: shape [0, 1] or [0, 0]."""
    return np.argwhere(x).T.astype(np.int64).reshape(x.ndim, -1)


def _scalar_nonzero(x: np.ndarray) -> np.ndarray:
    return np.zeros((0, int(np.count_nonzero(x))), np.int64)


def _compress(x: np.ndarray, condition: np.ndarray, axis: int | None = None) -> np.ndarray:
    kept = condition[: x.size if axis is None else x.shape[axis]]
    return np.compress(kept, x, axis=axis)


_SPARSE = np.where(np.arange(9001) % 997 == 0, 1.5, 0.0)

CASES = [
    *(Case(op="NonZero", inputs=[Rand(shape, low=0, high=1)], expected=_nonzero, dtypes=("int32", "bool"),
           tolerance=EXACT)
      for shape in [(7,), (1,), (0,), (3, 0), (4096,), (4097,), (5, 33), (3, 5, 7, 2), (2, 1, 3, 1, 2, 1, 2, 1, 2)]),
    Case(op="NonZero", inputs=[Rand((3, 50), low=0, high=1)], expected=_nonzero, dtypes=("bool", *NUMERIC),
         opset="9+", tolerance=EXACT, name="types"),
    Case(op="NonZero", inputs=[Rand((2, 33), specials=True)], expected=_nonzero,
         dtypes=("float16", "bfloat16", "float32", "float64"), tolerance=EXACT, name="signed_zero_and_nan"),
    Case(op="NonZero", inputs=[Of(_SPARSE)], expected=_nonzero, dtypes=("float32",), tolerance=EXACT, name="sparse"),
    Case(op="NonZero", inputs=[Of(np.zeros((3, 4)))], expected=_nonzero, dtypes=("int64",), tolerance=EXACT,
         name="none"),
    Case(op="NonZero", inputs=[Rand((300, 300), "bool")], expected=_nonzero, tolerance=EXACT, name="many_chunks"),
    Case(op="NonZero", inputs=[Of(np.float32(2.0))], expected=_scalar_nonzero, dtypes=("float32",), tolerance=EXACT,
         name="scalar"),
    *(Case(op="Compress", inputs=[Rand(x, full=True), Rand(condition, "bool")], attrs=attrs, expected=_compress,
           dtypes=("int8", "float32"), tolerance=EXACT)
      for x, condition, attrs in [
          ((7,), (7,), {"axis": 0}),
          ((7, 5), (7,), {"axis": 0}),
          ((7, 5), (5,), {"axis": 1}),
          ((3, 7, 5), (7,), {"axis": -2}),
          ((3, 7, 5), (4,), {"axis": 1}),
          ((3, 7, 5), (9,), {"axis": 1}),
          ((3, 7, 5), (105,), {}),
          ((3, 7, 5), (50,), {}),
          ((3, 7, 5), (130,), {}),
          ((0, 5), (5,), {"axis": 1}),
          ((4, 5), (0,), {"axis": 0}),
          ((2, 5000), (5000,), {"axis": 1}),
      ]),
    Case(op="Compress", inputs=[Rand((4, 9)), Rand((9,), "bool")], attrs={"axis": 1}, expected=_compress,
         dtypes=FIXED_SIZE, opset="9+", tolerance=EXACT, name="types"),
    Case(op="Compress", inputs=[Rand((4, 9)), Of(np.zeros(9), "bool")], attrs={"axis": 1}, expected=_compress,
         dtypes=("float32",), tolerance=EXACT, name="none"),
    Case(op="Compress", inputs=[Rand((4, 9)), Rand((9,), "bool")], attrs={"axis": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "axis 2")),
    Case(op="Compress", inputs=[Rand((4, 9)), Rand((3, 3), "bool")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[3,3]")),
]  # fmt: skip
