"""Element-wise functions of one tensor, with and without parameters."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOAT8, FLOATS, NUMERIC, SIGNED, numpy_dtype
from ..harness.magnitudes import of_argument

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])

# Both sides of pack (16 bytes) and block boundaries, several blocks, rank 0, empty.
_SHAPES = ((), (1,), (7,), (8,), (9,), (257,), (4095,), (4097,), (3, 5, 7), (0,), (2, 0, 3), (100_003,))


def _sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: np.ndarray) -> Any:
    return np.logaddexp(0, x)


def _clamp(x: np.ndarray) -> Any:
    return np.minimum(np.maximum(x, 0), 1)


def _gelu(x: np.ndarray) -> Any:
    return 0.5 * x * _erfc(-x / math.sqrt(2))


def _tanh_gelu(x: np.ndarray) -> Any:
    """With 1 + tanh(u) = 2 / (1 + exp(-2u)), which loses nothing in the tail."""
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _shrink(x: np.ndarray, lambd: float = 0.5, bias: float = 0.0) -> np.ndarray:
    y = x.astype(np.float64)
    return np.where(y < -lambd, y + bias, np.where(y > lambd, y - bias, 0)).astype(x.dtype)


# op -> reference for defaults of attributes, range of the arguments
_FUNCTIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "Abs": (np.abs, -4, 4),
    "Acos": (np.arccos, -1, 1),
    "Acosh": (np.arccosh, 1, 9),
    "Asin": (np.arcsin, -1, 1),
    "Asinh": (np.arcsinh, -9, 9),
    "Atan": (np.arctan, -9, 9),
    "Atanh": (np.arctanh, -0.9, 0.9),
    "Ceil": (np.ceil, -4, 4),
    "Celu": (lambda x: np.maximum(0, x) + np.minimum(0, np.expm1(x)), -4, 4),
    "Cos": (np.cos, -50, 50),
    "Cosh": (np.cosh, -4, 4),
    "Elu": (lambda x: np.where(x < 0, np.expm1(x), x), -4, 4),
    "Erf": (_erf, -4, 4),
    "Exp": (np.exp, -8, 8),
    "Floor": (np.floor, -4, 4),
    "HardSigmoid": (lambda x: _clamp(np.float32(0.2) * x + 0.5), -4, 4),
    "HardSwish": (lambda x: x * _clamp(x / 6 + 0.5), -8, 8),
    "LeakyRelu": (lambda x: np.where(x < 0, np.float32(0.01) * x, x), -4, 4),
    "Log": (np.log, 1e-3, 50),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), -20, 20),
    "Neg": (np.negative, -4, 4),
    "Reciprocal": (lambda x: 1 / x, 0.01, 9),
    "Relu": (lambda x: np.maximum(x, 0), -4, 4),
    "Round": (np.rint, -4, 4),
    "Selu": (lambda x: np.float32(1.0507010) * np.where(x < 0, np.float32(1.6732632) * np.expm1(x), x), -4, 4),
    "Sigmoid": (_sigmoid, -20, 20),
    "Sign": (np.sign, -4, 4),
    "Sin": (np.sin, -50, 50),
    "Sinh": (np.sinh, -4, 4),
    "Softplus": (_softplus, -20, 20),
    "Softsign": (lambda x: x / (1 + np.abs(x)), -4, 4),
    "Sqrt": (np.sqrt, 0, 50),
    "Swish": (lambda x: x * _sigmoid(x), -20, 20),
    "Tan": (np.tan, -1.4, 1.4),
    "Tanh": (np.tanh, -6, 6),
    "ThresholdedRelu": (lambda x: np.where(x > 1, x, 0), -4, 4),
}
# The first version; those before 6 have another attribute, which no host produces.
_FIRST = {**dict.fromkeys(("Acos", "Asin", "Atan", "Cos", "Sin", "Tan"), 7),
          **dict.fromkeys(("Acosh", "Asinh", "Atanh", "Cosh", "Sinh", "Erf", "Sign"), 9),
          "Celu": 12, "Selu": 6, "HardSwish": 14, "Mish": 18, "Round": 11, "Swish": 24,
          "ThresholdedRelu": 10}  # fmt: skip
_INTEGERS = {"Abs": NUMERIC, "Neg": FLOATS + SIGNED, "Relu": FLOATS + SIGNED, "Sign": NUMERIC}

# What cancels: the sums inside.
_MAGNITUDES: dict[str, Callable[..., Any]] = {
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.abs(alpha * x) + beta,
    "HardSwish": lambda x: np.abs(x) * (np.abs(x) / 6 + 0.5),
}

CASES = [
    *(
        Case(op=op, inputs=[Rand((5, 33), low=low, high=high)], expected=f, dtypes=FLOATS,
             opset=f"{_FIRST.get(op, 1)}+", magnitude=_MAGNITUDES.get(op))
        for op, (f, low, high) in _FUNCTIONS.items()
    ),
    *(
        Case(op=op, inputs=[Rand((301,), specials=True)], expected=_FUNCTIONS[op][0], dtypes=FLOATS, name="specials",
             magnitude=_MAGNITUDES.get(op))
        for op in _FUNCTIONS
    ),
    *(
        Case(op=op, inputs=[Rand((77,))], expected=_FUNCTIONS[op][0], dtypes=types[4:], opset=f"{_FIRST.get(op, 1)}+")
        for op, types in _INTEGERS.items()
    ),
    *(
        Case(op=op, inputs=[Rand((77,), full=True)], expected=_FUNCTIONS[op][0], dtypes=SIGNED, name="full_range")
        for op in _INTEGERS
    ),
    Case(op="Abs", inputs=[Of([-128])], expected=np.abs, dtypes=("int8",), name="lowest_is_its_own"),
    *(
        Case(op="Sigmoid", inputs=[Rand(shape)], expected=_sigmoid, dtypes=("float32", "float16", "float64"))
        for shape in _SHAPES
    ),
    Case(op="Round", inputs=[Of([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49])], expected=np.rint, dtypes=FLOATS,
         name="halves"),
    *(
        Case(op=op, inputs=[Of([1e-7, -1e-5, 1e-3, 0.03, 0.05, -0.05, 12, -80, 200])], expected=_FUNCTIONS[op][0],
             dtypes=FLOATS, name="small_and_large")
        for op in ("Tanh", "Sigmoid", "Softplus", "Erf", "Elu")
    ),
    Case(op="Elu", inputs=[Rand((50,))], attrs={"alpha": 0.25}, dtypes=FLOATS,
         expected=lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x)),
    *(
        Case(op="Celu", inputs=[Rand((50,))], attrs={"alpha": alpha}, dtypes=FLOATS, opset="12+",
             expected=lambda x, alpha: np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha)))
        for alpha in (0.5, 2.0)
    ),
    Case(op="HardSigmoid", inputs=[Rand((50,))], attrs={"alpha": 0.5, "beta": 0.25}, dtypes=FLOATS,
         expected=lambda x, alpha, beta: _clamp(alpha * x + beta), magnitude=_MAGNITUDES["HardSigmoid"]),
    Case(op="LeakyRelu", inputs=[Rand((50,))], attrs={"alpha": -0.5}, dtypes=FLOATS,
         expected=lambda x, alpha: np.where(x < 0, alpha * x, x)),
    Case(op="Selu", inputs=[Rand((50,))], attrs={"alpha": 2.0, "gamma": 3.0}, dtypes=FLOATS,
         expected=lambda x, alpha, gamma: gamma * np.where(x < 0, alpha * np.expm1(x), x)),
    Case(op="Swish", inputs=[Rand((50,))], attrs={"alpha": 0.5}, dtypes=FLOATS,
         expected=lambda x, alpha: x * _sigmoid(alpha * x)),
    Case(op="ThresholdedRelu", inputs=[Rand((50,))], attrs={"alpha": 0.5}, dtypes=FLOATS,
         expected=lambda x, alpha: np.where(x > alpha, x, 0)),
    Case(op="Gelu", inputs=[Rand((5, 33), low=-6, high=6)], expected=_gelu, dtypes=FLOATS, opset="20+",
         magnitude=of_argument(_gelu)),
    Case(op="Gelu", inputs=[Rand((301,), specials=True)], attrs={"approximate": "none"},
         expected=lambda x, approximate: _gelu(x), magnitude=lambda x, approximate: of_argument(_gelu)(x),
         dtypes=FLOATS, name="specials"),
    Case(op="Gelu", inputs=[Rand((5, 33), low=-6, high=6)], attrs={"approximate": "tanh"}, dtypes=FLOATS,
         expected=lambda x, approximate: _tanh_gelu(x),
         magnitude=lambda x, approximate: of_argument(_tanh_gelu)(x)),
    Case(op="Gelu", inputs=[Rand((5,))], attrs={"approximate": "sinh"}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "'sinh'")),
    Case(op="IsNaN", inputs=[Rand((301,), specials=True)], expected=np.isnan, dtypes=FLOATS, opset="9+"),
    Case(op="IsInf", inputs=[Rand((301,), specials=True)], expected=np.isinf, dtypes=FLOATS, opset="10+"),
    Case(op="IsInf", inputs=[Rand((301,), specials=True)], attrs={"detect_negative": 0}, dtypes=FLOATS,
         expected=lambda x, detect_negative: np.isposinf(x)),
    Case(op="IsInf", inputs=[Rand((301,), specials=True)], attrs={"detect_positive": 0}, dtypes=FLOATS,
         expected=lambda x, detect_positive: np.isneginf(x)),
    *(Case(op=op, inputs=[np.arange(256, dtype=np.uint8).view(numpy_dtype(kind))], expected=test, opset=20, attrs=attrs,
           name="_".join([kind, *attrs]))
      for kind in FLOAT8 for op, test, attrs in (
          ("IsNaN", np.isnan, {}), ("IsInf", np.isinf, {}),
          ("IsInf", lambda x, detect_negative: np.isposinf(x), {"detect_negative": 0}),
          ("IsInf", lambda x, detect_positive: np.isneginf(x), {"detect_positive": 0}))),
    *(Case(op="Not", inputs=[Rand(shape, "bool")], expected=np.logical_not, opset=1) for shape in _SHAPES),
    Case(op="Shrink", inputs=[Rand((257,))], attrs={"lambd": 1.5, "bias": 0.75}, expected=_shrink,
         dtypes=NUMERIC, opset="9+", magnitude=lambda x, **_: np.abs(x) + 1),
    *(
        Case(op="Shrink", inputs=[Rand(shape, low=-4, high=4, specials=True)], expected=_shrink, dtypes=FLOATS)
        for shape in [(33,), (), (0,), (3, 5, 7)]
    ),
]  # fmt: skip
