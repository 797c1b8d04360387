"""com.microsoft activations: Gelu and its forms with a bias."""

import math
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.case import MICROSOFT
from ..harness.dtypes import FLOATS
from ..harness.magnitudes import of_argument

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _gelu(x: np.ndarray, bias: np.ndarray | float = 0.0) -> Any:
    return 0.5 * (x + bias) * _erfc(-(x + bias) / math.sqrt(2))


def _fast_gelu(x: np.ndarray, bias: np.ndarray | float = 0.0) -> Any:
    """With 1 + tanh(u) = 2 / (1 + exp(-2u)), which loses nothing in the tail."""
    z = x + bias
    return z / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def _quick_gelu(x: np.ndarray, alpha: float = 1.702) -> Any:
    return x / (1 + np.exp(-np.float32(alpha) * x))


_SHAPES = ((7,), (3, 8), (2, 3, 64), (5, 33), (0, 4), (2, 0), (61, 131))

CASES = [
    *(
        Case(
            op="BiasGelu",
            domain=MICROSOFT,
            inputs=[Rand(shape), Rand(shape[-1:])],
            expected=_gelu,
            magnitude=of_argument(_gelu),
            dtypes=FLOATS,
            opset=1,
        )
        for shape in _SHAPES
    ),
    *(
        Case(
            op="FastGelu",
            domain=MICROSOFT,
            inputs=[Rand(shape), Rand(shape[-1:])],
            expected=_fast_gelu,
            magnitude=of_argument(_fast_gelu),
            dtypes=FLOATS,
            opset=1,
        )
        for shape in _SHAPES
    ),
    *(
        Case(
            op=op,
            domain=MICROSOFT,
            inputs=[Rand(shape, low=-6, high=6)],
            expected=f,
            magnitude=of_argument(f),
            dtypes=FLOATS,
            opset=1,
        )
        for op, f in (("FastGelu", _fast_gelu), ("Gelu", _gelu), ("QuickGelu", _quick_gelu))
        for shape in (*_SHAPES, ())
    ),
    Case(
        op="QuickGelu",
        domain=MICROSOFT,
        inputs=[Rand((50,))],
        attrs={"alpha": -0.5},
        expected=_quick_gelu,
        magnitude=of_argument(_quick_gelu),
        dtypes=FLOATS,
        opset=1,
    ),
    *(
        Case(
            op=op,
            domain=MICROSOFT,
            inputs=[Rand((2, 3)), Rand((2,))],
            dtypes=("float32",),
            opset=1,
            error=("INVALID_ARGUMENT", "[2]"),
        )
        for op in ("BiasGelu", "FastGelu")
    ),
]
