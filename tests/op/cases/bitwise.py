"""BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift, and Shrink."""

from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS, INTS, NUMERIC, UNSIGNED

_PAIRS: dict[str, Any] = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


def _shift(x: np.ndarray, bits: np.ndarray, direction: str) -> np.ndarray:
    width = 8 * x.itemsize
    shifted = (np.left_shift if direction == "LEFT" else np.right_shift)(x, np.minimum(bits, width - 1))
    return np.where(bits < width, shifted, 0).astype(x.dtype)


def _shrink(x: np.ndarray, lambd: float = 0.5, bias: float = 0.0) -> np.ndarray:
    y = x.astype(np.float64)
    return np.where(y < -lambd, y + bias, np.where(y > lambd, y - bias, 0)).astype(x.dtype)


CASES = [
    *(Case(op=op, inputs=[Rand((65,), full=True)] * 2, expected=f, dtypes=INTS) for op, f in _PAIRS.items()),
    *(
        Case(op=op, inputs=[Rand(a, full=True), Rand(b, full=True)], expected=f, dtypes=("int32", "uint8"))
        for op, f in _PAIRS.items()
        for a, b in [((3, 5, 7), (5, 1)), ((), (4,)), ((0, 3), (3,)), ((3, 16), (3, 16))]
    ),
    Case(op="BitwiseNot", inputs=[Rand((65,), full=True)], expected=np.bitwise_not, dtypes=INTS),
    *(
        Case(op="BitwiseNot", inputs=[Rand(shape, full=True)], expected=np.bitwise_not, dtypes=("int16",))
        for shape in [(), (0,), (3, 5, 7)]
    ),
    *(
        Case(op="BitShift", inputs=[Rand(a, full=True), Rand(b, low=0, high=70)], attrs={"direction": direction},
             expected=_shift, dtypes=UNSIGNED)
        for direction in ("LEFT", "RIGHT")
        for a, b in [((65,), (65,)), ((3, 5, 7), (5, 1)), ((0,), (1,))]
    ),
    *(
        Case(op="BitShift", inputs=[Rand((65,), full=True), Rand((65,), low=0, high=9)],
             attrs={"direction": direction}, expected=_shift, dtypes=UNSIGNED, name=f"near-{direction}")
        for direction in ("LEFT", "RIGHT")
    ),
    Case(op="BitShift", inputs=[Rand((3,), "uint8")] * 2, attrs={"direction": "UP"},
         error=("INVALID_ARGUMENT", "direction 'UP'")),
    Case(op="BitwiseAnd", inputs=[Rand((2, 3), "int32"), Rand((4,), "int32")], error=("INVALID_ARGUMENT", "[2,3]"),
         skip={"session": "the host's shape inference refuses it"}),
    Case(op="Shrink", inputs=[Rand((257,))], attrs={"lambd": 1.5, "bias": 0.75}, expected=_shrink,
         dtypes=NUMERIC, opset="9+", magnitude=lambda x, **_: np.abs(x) + 1),
    *(
        Case(op="Shrink", inputs=[Rand(shape, low=-4, high=4, specials=True)], expected=_shrink, dtypes=FLOATS)
        for shape in [(33,), (), (0,), (3, 5, 7)]
    ),
]  # fmt: skip
