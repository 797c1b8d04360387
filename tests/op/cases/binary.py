"""Add, Sub, Mul, Div, Mod, PRelu."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, T
from ..harness.dtypes import FLOATS, INTS, NUMERIC
from ..harness.tolerances import EXACT, Tolerance

# Both sides of pack (16 bytes) and block (256 threads) boundaries; the last one takes several blocks of every type.
_LENGTHS = (1, 7, 8, 9, 255, 256, 257, 1023, 4097, 100_003)
# Each way of repeating an input: a side, an axis, both at once; empty tensors; ranks that coalesce.
_BROADCASTS = [
    ((2, 3), (2, 3)),
    ((), ()),
    ((), (4, 5)),
    ((4, 5), ()),
    ((1,), (7,)),
    ((3, 1), (1, 5)),
    ((1, 5), (3, 1)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 3, 4)),
    ((2, 1, 16), (1, 3, 16)),
    ((8, 1, 1), (8, 3, 5)),
    ((3, 5, 7, 9), (1, 5, 1, 1)),
    ((0,), (1,)),
    ((2, 0, 3), (1, 1, 3)),
    ((1,), (2, 0)),
    ((2, 2, 2, 2, 2, 2, 2, 2), (2, 2, 2, 2, 1, 1, 1, 1)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (1, 2, 1, 3, 1, 2, 1, 3)),
    ((1, 1, 1, 2, 3, 1, 1, 1, 1, 5), (2, 3, 5)),
]


def _divide(a: np.ndarray, b: np.ndarray) -> Any:
    """Integers round towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    return np.where((a < 0) != (b < 0), -(np.abs(a) // np.abs(b)), np.abs(a) // np.abs(b)).astype(a.dtype)


_REFERENCES: dict[str, Callable[..., Any]] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide}

CASES = [
    *(
        Case(op=op, inputs=[Rand((5, 33)), Rand((5, 33), nonzero=True)], expected=f, dtypes=NUMERIC, opset="7+")
        for op, f in _REFERENCES.items()
    ),
    *(
        Case(op="Add", inputs=[Rand((n,)), Rand((n,))], expected=np.add, dtypes=("float32", "float16", "int8"))
        for n in _LENGTHS
    ),
    *(
        Case(op=op, inputs=[Rand(a), Rand(b, nonzero=True)], expected=_REFERENCES[op], dtypes=("float32", "bfloat16"))
        for op in ("Sub", "Div")
        for a, b in _BROADCASTS
    ),
    Case(op="Mul", inputs=[Rand((3, 1, 17)), Rand((1, 4, 17))], expected=np.multiply, dtypes=NUMERIC),
    *(
        Case(op=op, inputs=[Rand((300,), specials=True), Rand((300,), specials=True)], expected=f, dtypes=FLOATS,
             name="specials")
        for op, f in _REFERENCES.items()
    ),
    *(
        Case(op=op, inputs=[Rand((65,), full=True), Rand((65,), full=True)], expected=_REFERENCES[op], dtypes=INTS,
             name="overflow")
        for op in ("Add", "Sub", "Mul")
    ),
    Case(op="Add", inputs=[Of([60000.0, -60000.0]), Of([60000.0, -60000.0])], expected=np.add, dtypes=FLOATS,
         name="past_the_half_range"),
    Case(op="Add", inputs=[Rand((2, 3)), Rand((3,))], expected=np.add, dtypes=("float32",), constants=(1,),
         name="constant"),
    Case(op="Add", inputs=[Rand((2, 3)), Rand((4,))], error=("INVALID_ARGUMENT", "[2,3]"), dtypes=("float32",)),
    Case(op="Mul", inputs=[Rand((2, 3), T), Rand((3, 3), T)], error=("INVALID_ARGUMENT", "[3,3]"), dtypes=("int64",)),
    Case(op="Mod", inputs=[Rand((5, 33)), Rand((5, 33), nonzero=True)], expected=np.mod, dtypes=INTS, opset="10+"),
    Case(op="Mod", inputs=[Rand((5, 33)), Rand((33,), nonzero=True)], attrs={"fmod": 1}, dtypes=NUMERIC, opset="10+",
         expected=lambda a, b, fmod: np.fmod(a, b), tolerance=EXACT),
    Case(op="Mod", inputs=[Rand((99,), full=True), Rand((99,), full=True, nonzero=True)], expected=np.mod, dtypes=INTS,
         name="full_range"),
    Case(op="Mod", inputs=[Rand((300,), specials=True), Rand((300,), specials=True)], attrs={"fmod": 1}, dtypes=FLOATS,
         expected=lambda a, b, fmod: np.fmod(a, b), tolerance=EXACT, name="specials"),
    Case(op="Mod", inputs=[Rand((3,)), Rand((3,))], dtypes=("float32",), opset=13,
         error=("INVALID_ARGUMENT", "fmod=1")),
    *(Case(op="Mod", inputs=[Rand(a, **how), Rand(b, **how)], expected=np.mod, dtypes=FLOATS, name=f"floored_{name}",
           tolerance=Tolerance(1))
      for name, a, b, how in (("small", (5, 33), (33,), {}), ("specials", (300,), (300,), {"specials": True}))),
    *(
        Case(op="PRelu", inputs=[Rand(shape), Rand(slope)], expected=lambda x, s: np.where(x < 0, s * x, x),
             dtypes=(*FLOATS, "int32", "int64", "uint32", "uint64"), opset="7+")
        for shape, slope in (((5, 33), (33,)), ((2, 3, 5), (3, 1)), ((7,), (7,)), ((), ()), ((0, 3), (3,)))
    ),
    Case(op="PRelu", inputs=[Rand((3,)), Rand((2, 3))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[2,3] does not broadcast to [3]")),
]  # fmt: skip
