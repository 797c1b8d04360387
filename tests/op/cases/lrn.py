"""LRN."""

from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS


def _lrn(x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> np.ndarray:
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        squares[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    return x / (bias + float(np.float32(alpha)) / size * squares) ** beta


_LRN: dict[str, Any] = {"op": "LRN", "expected": _lrn}

CASES = [
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
            ((2, 37, 4, 6), 5, {"alpha": 0.5}),
            ((1, 16, 16), 5, {"alpha": 2.0, "bias": 0.5}),
            ((2, 2, 8), 5, {"alpha": 1.0}),
            # the usual window and exponent: channels shared out or not, fewer than are on their way, one
            ((1, 70, 16), 5, {"alpha": 0.5}),
            ((2, 33, 8), 5, {"alpha": 3.0}),
            ((1, 1, 16), 5, {"alpha": 2.0}),
            # and the same where each pixel has its channels, in packs and not
            ((5, 48), 5, {"alpha": 0.5}),
            ((3, 8), 5, {"alpha": 2.0}),
            ((3, 21), 5, {"alpha": 2.0}),
            # which no kernel of its own takes
            ((2, 9, 16), 5, {"alpha": 2.0, "bias": 0.0}),
            ((2, 9, 16), 3, {"alpha": 2.0}),
        ]
    ),
    Case(**_LRN, inputs=[Rand((2, 5, 4, 4), low=-3, high=3)], attrs={"size": 3, "alpha": 0.1}, dtypes=FLOATS,
         opset="1+"),
    Case(**_LRN, inputs=[Rand((2, 11, 4, 4), low=-3, high=3)], attrs={"size": 5, "alpha": 0.5}, dtypes=FLOATS),
    # beyond the range of squares
    Case(op="LRN", inputs=[np.array([[[1e18] * 4], [[2.0] * 4], [[1e30] * 4]], np.float32).reshape(1, 3, 4)],
         attrs={"size": 5, "alpha": 1.0}, expected=lambda x, **_: np.zeros_like(x), name="large"),
    Case(op="LRN", inputs=[Rand((2, 0, 4, 4), "float32")], attrs={"size": 3}, expected=lambda x, **_: x),
    Case(op="LRN", inputs=[Rand((2,), "float32")], attrs={"size": 3}, error=("INVALID_ARGUMENT", "batch and channels")),
    Case(op="LRN", inputs=[Rand((2, 3), "float32")], attrs={"size": 0}, error=("INVALID_ARGUMENT", "size is 0")),
]  # fmt: skip
