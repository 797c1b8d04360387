"""What the functions of an Elementwise chain give, by NumPy."""

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _rounded(dtype: Any) -> Any:
    return lambda x: np.float64(x).astype(np.float32).astype(dtype).astype(np.float64)


def _softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def _elu(x: Any, a: float) -> Any:
    return np.where(x < 0, a * np.expm1(x), x)


def _bfloat16(x: Any) -> Any:
    return _rounded(ml_dtypes.bfloat16)(x)


def _quantize(x: Any, a: float, b: float) -> Any:
    return np.rint(np.fmin(np.fmax(np.float32(x) / np.float32(a), b), b + 255))


# Of operands, then of the numbers that are none. Clamps, Where and comparisons are numpy's.
ONE: dict[str, tuple[Any, tuple[float, ...]]] = {
    "Affine": (lambda x, a, b: a * x + b, (1.5, -0.25)),
    "Float32": (lambda x, a, b: a * x + b, (1.0, -0.0)),
    "Clamp": (lambda x, a, b: np.clip(x, a, b), (-1.0, 2.0)),
    "Relu": (lambda x: np.maximum(x, 0), ()),
    "LeakyRelu": (lambda x, a: np.where(x < 0, a * x, x), (0.125,)),
    "ThresholdedRelu": (lambda x, a: np.where(x > a, x, 0), (0.5,)),
    "Abs": (np.abs, ()),
    "Floor": (np.floor, ()),
    "Ceil": (np.ceil, ()),
    "Round": (np.round, ()),
    "Sign": (np.sign, ()),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), ()),
    "Float16": (_rounded(np.float16), ()),
    "BFloat16": (_bfloat16, ()),
    "Reciprocal": (lambda x: 1 / x, ()),
    "Sqrt": (np.sqrt, ()),
    "Exp": (np.exp, ()),
    "Log": (np.log, ()),
    "Erf": (_erf, ()),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ()),
    "Tanh": (np.tanh, ()),
    "Gelu": (lambda x: x * 0.5 * _erfc(-x * math.sqrt(0.5)), ()),
    "GeluTanh": (lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), ()),
    "Swish": (lambda x, a: x / (1 + np.exp(-a * x)), (1.702,)),
    "Softplus": (_softplus, ()),
    "Quantize": (_quantize, (0.0173, -131.0)),
    "Softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), ()),
    "Elu": (_elu, (0.75,)),
    "Selu": (lambda x, a, b: b * _elu(x, a), (1.6732632, 1.050701)),
    "Celu": (lambda x, a: np.maximum(0, x) + np.minimum(0, a * np.expm1(x / a)), (0.5,)),
}
TO_BOOL = {"Truth": lambda x: x != 0, "IsNaN": np.isnan}
TWO = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Max": np.maximum,
    "Min": np.minimum,
}
COMPARED = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
_FUNCTIONS: dict[str, Any] = {
    **{name: f for name, (f, _) in ONE.items()},
    **TO_BOOL,
    **TWO,
    **COMPARED,
    **LOGIC,
    "Not": np.logical_not,
    "Where": lambda c, a, b: np.where(c, a, b),
    "LookUp": lambda x, table, a: table[(x - a).astype(np.int64)],
}
_EXTRA = {**{name: len(numbers) for name, (_, numbers) in ONE.items()}, "LookUp": 1}  # numbers that are no operands
_OPERANDS = {
    **dict.fromkeys(_FUNCTIONS, 1),
    **dict.fromkeys({**TWO, **COMPARED, **LOGIC, "LookUp": 0}, 2),
    "Where": 3,
}
NUMBER = -1  # a number as an operand


def chain(
    *inputs: Any, functions: Sequence[str], operands: Sequence[int], numbers: Sequence[float], results: Sequence[int]
) -> tuple[np.ndarray, ...]:
    values = [np.asarray(value) for value in inputs]
    values = [value.astype(np.float64) if value.dtype.kind in "iu" else value for value in values]
    tables = [operands[3 * i + 1] for i, function in enumerate(functions) if function == "LookUp"]
    shape = np.broadcast_shapes(*(value.shape for i, value in enumerate(values) if i not in tables))
    for i, function in enumerate(functions):
        own = list(numbers[2 * i : 2 * i + 2])
        mine = operands[3 * i : 3 * i + _OPERANDS[function]]
        taken = [own.pop(0) if operand == NUMBER else values[operand] for operand in mine]
        extra = own[: _EXTRA.get(function, 0)]
        with np.errstate(all="ignore"):
            values.append(np.broadcast_to(_FUNCTIONS[function](*taken, *extra), shape))
    return tuple(values[result] for result in results)
