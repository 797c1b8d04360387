"""Trilu."""

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_WIDTHS = ("int8", "float16", "float32", "float64", "complex128")


def _trilu(x: np.ndarray, k: np.ndarray | None = None, upper: int = 1) -> np.ndarray:
    diagonal = 0 if k is None else int(np.clip(k.reshape(()), -sum(x.shape), sum(x.shape)))
    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


# shape, k
_TRIANGLES: list[tuple[tuple[int, ...], int]] = [
    ((4, 4), 0),
    ((4, 5), 1),
    ((5, 4), -2),
    ((1, 7), 3),
    ((7, 1), -3),
    ((2, 3, 5), 2),
    ((2, 1, 3, 4), -1),
    ((3, 4), 2**63 - 1),
    ((3, 4), -(2**63)),
    ((0, 4), 0),
    ((2, 0, 4), 0),
    ((2, 33, 64), -5),  # packs of cleared elements alone
    ((3, 17, 67), 20),
    ((70, 64), 7),  # rows of whole packs, more than a block has
]

CASES = [
    *(Case(op="Trilu", inputs=[Rand(shape, full=True, nonzero=True), Of(k, "int64")], attrs={"upper": upper},
           expected=_trilu, dtypes=_WIDTHS if len(shape) == 2 and abs(k) < 9 else ("float32", "float16"),
           tolerance=EXACT, name=f"{'x'.join(map(str, shape))}_{k}_upper_{upper}")
      for shape, k in _TRIANGLES for upper in (0, 1)),
    Case(op="Trilu", inputs=[Rand((3, 5), nonzero=True)], expected=_trilu, dtypes=FIXED_SIZE, tolerance=EXACT,
         name="types"),
    Case(op="Trilu", inputs=[Rand((3, 5)), Of([1], "int64")], expected=_trilu, dtypes=("float32",), constants=(1,),
         tolerance=EXACT, name="constant"),
    Case(op="Trilu", inputs=[Rand((3, 4), specials=True)], expected=_trilu, dtypes=("float32",), tolerance=EXACT,
         name="nan_is_cleared"),
    Case(op="Trilu", inputs=[Rand((3,))], dtypes=("float32",), error=("INVALID_ARGUMENT", "expected matrices")),
    Case(op="Trilu", inputs=[Rand((3, 3)), Of([1, 2], "int64")], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "k has shape [2]")),
]  # fmt: skip
