"""GlobalAveragePool, GlobalMaxPool, GlobalLpPool."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS


def _spatial(f: Any) -> Any:
    return lambda x, **kw: f(x, axis=tuple(range(2, x.ndim)), keepdims=True)


# Sums lose what cancels.
_MAGNITUDES: dict[str, Any] = {"GlobalAveragePool": "absolute"}
_REFERENCES = {"GlobalAveragePool": _spatial(np.mean), "GlobalMaxPool": _spatial(np.max)}
_SHAPES = ((1, 1, 1), (2, 3, 5), (2, 3, 4, 4), (2, 5, 7, 7), (3, 2, 2, 3, 4), (0, 3, 4), (1, 64, 56, 56), (600, 2, 49))


def _norm(x: np.ndarray, p: float = 2) -> np.ndarray:
    return np.sum(np.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)


CASES = [
    *(Case(op=op, inputs=[Rand((2, 3, 6, 5))], expected=f, dtypes=FLOATS, opset="1+",
           magnitude=_MAGNITUDES.get(op)) for op, f in _REFERENCES.items()),
    *(
        Case(op=op, inputs=[Rand(shape)], expected=f, dtypes=("float32", "float16"), magnitude=_MAGNITUDES.get(op))
        for op, f in _REFERENCES.items()
        for shape in _SHAPES
    ),
    *(
        Case(op=op, inputs=[Of([[[1, np.nan, 3], [np.inf, 1, 2], [-np.inf, -np.inf, -np.inf]]])], expected=f,
             dtypes=FLOATS, name="specials")
        for op, f in _REFERENCES.items()
    ),
    *(
        Case(op="GlobalLpPool", inputs=[Rand((2, 3, 4, 5), low=-1, high=1)], expected=_norm, dtypes=FLOATS,
             attrs={"p": p}, opset="1+", skip={"session": "the host's schema has another type for p of version 1"})
        for p in (1, 2)
    ),
    Case(op="GlobalLpPool", inputs=[Rand((2, 3, 4))], dtypes=("float32",), attrs={"p": 3},
         skip={"session": "the host has no kernel of its own to report"},
         error=("NOT_SUPPORTED", "p 3; norms 1 and 2")),
    Case(op="GlobalMaxPool", inputs=[Rand((2, 3))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input [2,3] must have")),
]  # fmt: skip
