"""BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift."""

from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import INTS, SIGNED

_PAIRS: dict[str, Any] = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


def _shift(x: np.ndarray, bits: np.ndarray, direction: str) -> np.ndarray:
    """Beyond the type's bits, and by negative numbers, only the sign of what is shifted right is left."""
    width = 8 * x.itemsize
    within = (bits >= 0) & (bits < width)
    shifted = (np.left_shift if direction == "LEFT" else np.right_shift)(x, np.where(within, bits, np.zeros_like(bits)))
    sign = ~np.zeros_like(x) if direction == "RIGHT" else np.zeros_like(x)
    return np.where(within, shifted, np.where(x < 0, sign, np.zeros_like(x)))


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
             expected=_shift, dtypes=INTS, opset="11+")
        for direction in ("LEFT", "RIGHT")
        for a, b in [((65,), (65,)), ((3, 5, 7), (5, 1)), ((0,), (1,))]
    ),
    *(
        Case(op="BitShift", inputs=[Rand((65,), full=True), Rand((65,), low=0, high=9)],
             attrs={"direction": direction}, expected=_shift, dtypes=INTS, name=f"near-{direction}")
        for direction in ("LEFT", "RIGHT")
    ),
    *(
        Case(op="BitShift", inputs=[Rand((33,), full=True), Rand((33,), low=-3, high=3)],
             attrs={"direction": direction}, expected=_shift, dtypes=SIGNED, name=f"negative-{direction}")
        for direction in ("LEFT", "RIGHT")
    ),
    Case(op="BitShift", inputs=[Rand((3,), "uint8")] * 2, attrs={"direction": "UP"},
         error=("INVALID_ARGUMENT", "direction 'UP'")),
    Case(op="BitwiseAnd", inputs=[Rand((2, 3), "int32"), Rand((4,), "int32")], error=("INVALID_ARGUMENT", "[2,3]"),
         skip={"session": "the host's shape inference refuses it"}),
]  # fmt: skip
