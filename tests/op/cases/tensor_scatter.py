"""TensorScatter: rows written into a cache, in its own buffer or in a new one."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT


def _scatter(
    past: np.ndarray, update: np.ndarray, indices: np.ndarray | None = None, axis: int = -2, mode: str = "linear"
) -> np.ndarray:
    present = past.copy()
    axis %= past.ndim
    for batch in range(past.shape[0]):
        start = 0 if indices is None else int(indices[batch])
        for step in range(update.shape[axis]):
            at = (start + step) % past.shape[axis] if mode == "circular" else start + step
            if not 0 <= at < past.shape[axis]:
                continue  # rows outside are left out
            target: list[Any] = [batch, *[slice(None)] * (past.ndim - 1)]
            source = list(target)
            target[axis], source[axis] = at, step
            present[tuple(target)] = update[tuple(source)]
    return present


_CASES: list[tuple[tuple[int, ...], tuple[int, ...], list[int] | None, dict[str, Any]]] = [
    ((2, 3, 8, 5), (2, 3, 2, 5), [1, 4], {}),
    ((2, 3, 8, 5), (2, 3, 2, 5), None, {}),
    ((2, 3, 8, 64), (2, 3, 1, 64), [7, 0], {}),
    ((2, 8, 16), (2, 3, 16), [6, 7], {"mode": "circular"}),
    ((2, 8, 16), (2, 8, 16), [3, 11], {"mode": "circular"}),
    ((3, 9), (3, 4), [0, 5, 2], {"axis": 1}),
    ((5, 8, 4), (5, 3, 4), [-1, 7, 8, -(2**62), 2**62], {}),
    ((3, 8, 4), (3, 3, 4), [-1, -9, 8 * 2**40 + 6], {"mode": "circular"}),
    ((2, 5, 3, 4), (2, 2, 3, 4), [3, 0], {"axis": 1}),
    ((1, 2, 6, 3), (1, 2, 0, 3), [2], {}),
    ((0, 2, 6, 3), (0, 2, 1, 3), [], {}),
]

CASES = [
    *(Case(op="TensorScatter", opset=24, attrs=attrs, expected=_scatter, dtypes=("int8", "float16", "float32"),
           tolerance=EXACT,
           inputs=[Rand(past, full=True), Rand(update, full=True),
                   None if indices is None else Of(np.array(indices, np.int64), "int64")])
      for past, update, indices, attrs in _CASES),
    Case(op="TensorScatter", opset=24, inputs=[Rand((2, 6, 7)), Rand((2, 2, 7)), Of([1, 3], "int64")],
         expected=_scatter, dtypes=(*FIXED_SIZE, "float8_e8m0fnu"), tolerance=EXACT, name="types"),
    Case(op="TensorScatter", opset=24, inputs=[Rand((2, 6, 7)), Rand((2, 7, 7))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[2,7,7]")),
    Case(op="TensorScatter", opset=24, inputs=[Rand((2, 6, 7)), Rand((1, 6, 7))], attrs={"axis": 0},
         dtypes=("float32",), error=("INVALID_ARGUMENT", "is the batch")),
    Case(op="TensorScatter", opset=24, inputs=[Rand((2, 6, 7)), Rand((2, 1, 7)), Of([1], "int64")],
         dtypes=("float32",), error=("INVALID_ARGUMENT", "write indices [1]")),
]  # fmt: skip
