"""ArgMax and ArgMin: positions along one axis, NaN as the extremum, first or last of equal ones."""

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, NUMERIC
from ..harness.tolerances import EXACT


def _position(op: str):  # type: ignore[no-untyped-def]
    pick = np.argmax if op == "ArgMax" else np.argmin

    def expected(x: np.ndarray, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> np.ndarray:
        found = x.shape[axis] - 1 - pick(np.flip(x, axis), axis=axis) if select_last_index else pick(x, axis=axis)
        return (np.expand_dims(found, axis) if keepdims else found).astype(np.int64)

    return expected


CASES = [
    case
    for op in ("ArgMax", "ArgMin")
    for case in [
        *(Case(op=op, inputs=[Rand(shape)], attrs=attrs, expected=_position(op), dtypes=("float32", "int8"),
               tolerance=EXACT)
          for shape, attrs in [
              ((7,), {}),
              ((5, 33), {"axis": 1}),
              ((5, 33), {"axis": 0, "keepdims": 0}),
              ((5, 33), {"axis": -1, "select_last_index": 1}),
              ((3, 40, 5), {"axis": 1, "select_last_index": 1, "keepdims": 0}),
              ((2, 3, 1, 5), {"axis": 2}),
              ((1, 4099), {"axis": 1}),
              ((2, 70001), {"axis": 1}),
              ((300, 257), {"axis": 0}),
              ((0, 5), {"axis": 1}),
          ]),
        Case(op=op, inputs=[Rand((6, 50))], attrs={"axis": 1}, expected=_position(op), dtypes=NUMERIC, opset="1+",
             tolerance=EXACT, name="types"),
        Case(op=op, inputs=[Rand((9, 60), specials=True)], attrs={"axis": 1}, expected=_position(op), dtypes=FLOATS,
             tolerance=EXACT, name="specials"),
        Case(op=op, inputs=[Rand((9, 60), specials=True)], attrs={"axis": 1, "select_last_index": 1},
             expected=_position(op), dtypes=FLOATS, tolerance=EXACT, name="specials_last"),
        Case(op=op, inputs=[Of(np.array([[1, 3, 3, 1]]))], attrs={"axis": 1, "select_last_index": 1},
             expected=_position(op), dtypes=("int32",), tolerance=EXACT, name="equal"),
        Case(op=op, inputs=[Rand((0, 5))], attrs={"axis": 0}, dtypes=("float32",), error=("INVALID_ARGUMENT", "empty")),
        Case(op=op, inputs=[Rand((4, 5))], attrs={"axis": 2}, dtypes=("float32",),
             error=("INVALID_ARGUMENT", "axis 2")),
    ]
]  # fmt: skip
