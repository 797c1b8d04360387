"""Operators on each element of one tensor or of several that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op.cases import bias_dropout, contrib_pointwise
from tests.op.harness.dtypes import is_float, numpy_dtype

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"
_Spec = Callable[[Draw], Node]


# The CPU provider and the reference compute these in float32, and lose the digits of a tail.
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))


def _gelu(x: np.ndarray, bias: np.ndarray | float = 0.0, approximate: str = "none") -> np.ndarray:
    z = x + (0.0 if bias is None else bias)
    if approximate == "tanh":
        return z / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    return 0.5 * z * np.vectorize(math.erfc, otypes=[np.float64])(-z / math.sqrt(2))


def _fast_gelu_formula(x: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    return _gelu(x, bias, "tanh")


def _quick_gelu(x: np.ndarray, alpha: float = float(np.float32(1.702))) -> np.ndarray:
    return x / (1 + np.exp(-alpha * x))


def _unary(low: float | None = None, high: float | None = None, formula: Any = None, **attrs: Any) -> _Spec:
    """Values in a range that the function is defined in; attributes from a range, a list, or left out."""

    def draw(d: Draw) -> Node:
        constraint = d.schema.inputs[0].type
        dtype = d.type(constraint) if constraint in d.schema.types else "bool"
        given = {
            name: d.real(*choice) if isinstance(choice, tuple) else d.pick(choice)
            for name, choice in attrs.items()
            if name in d.schema.attributes and d.chance(0.7)
        }
        return Node([d.values(dtype, d.elements(), low, high)], given, formula=formula)

    return draw


# Beyond these ranges results are NaN or infinite throughout; specials are among the values in any case.
_UNARY: dict[str, _Spec] = {
    **dict.fromkeys(("Abs", "Neg", "Sign", "Ceil", "Floor", "Relu", "Reciprocal"), _unary()),
    **dict.fromkeys(("Sin", "Cos", "Atan", "Asinh", "Tanh", "Sigmoid"), _unary(-6, 6)),
    **dict.fromkeys(("Exp", "Sinh", "Cosh", "Softplus", "Softsign", "Mish", "Selu"), _unary(-9, 9)),
    **dict.fromkeys(("Acos", "Asin"), _unary(-1.1, 1.1)),
    **dict.fromkeys(("Not", "BitwiseNot", "IsNaN"), _unary()),
    "HardSwish": _unary(-5, 5, _hard_swish),
    "Erf": _unary(-4, 4, _erf),
    "Acosh": _unary(0.9, 6),
    "Atanh": _unary(-1, 1),
    "Log": _unary(0, 9),
    "Sqrt": _unary(0, 9),
    "Tan": _unary(-1.5, 1.5),
    "Round": _unary(-20, 20),
    "Gelu": _unary(formula=_gelu, approximate=["none", "tanh"]),
    "Swish": _unary(alpha=(-2, 2)),
    "LeakyRelu": _unary(alpha=(-1, 2)),
    "Elu": _unary(alpha=(-2, 2)),
    "Celu": _unary(alpha=(0.2, 2)),
    "HardSigmoid": _unary(alpha=(-1, 1), beta=(-1, 1)),
    "ThresholdedRelu": _unary(alpha=(-2, 2)),
    "IsInf": _unary(detect_negative=[0, 1], detect_positive=[0, 1]),
}


def _shrink(d: Draw) -> Node:
    dtype = d.type()
    # Integers that stay in range: what others become is open.
    x = d.values(dtype, d.elements(), -4, 4) if is_float(dtype) else d.values(dtype, d.elements(), 3, 100)
    choices = {"lambd": (0.0, 2.0), "bias": (-2.0, 2.0)}
    return Node([x], {name: d.real(*limits) for name, limits in choices.items() if d.chance(0.7)})


def _complex_mul(d: Draw) -> Node:
    shape, dtype = d.shape(0, 4), d.type()
    other = shape if d.chance(0.3) else d.partner(shape, grow=True)
    a, b = [*shape, 2], [*other, 2]
    conjugate = d.row.op == "ComplexMulConj"
    # The CPU provider takes the smaller one for the second.
    return Node([d.small(dtype, a), d.small(dtype, b)], scale=2.0,
                formula=lambda a, b: contrib_pointwise._product(a, b, conjugate))  # fmt: skip


def _bias_split_gelu(d: Draw) -> Node:
    dtype, shape = d.type(), [d.dim(), d.dim(), 2 * d.dim(1)]
    return Node([d.values(dtype, shape, -4, 4), d.values(dtype, shape[-1:], -2, 2)], scale=2.0,
                formula=contrib_pointwise._split_gelu)  # fmt: skip


def _gated_add(d: Draw) -> Node:
    dtype, shape = d.type(), d.shape(1, 4)
    return Node([d.small(dtype, shape), d.small(dtype, shape), d.small(dtype, [*shape[:-1], 1])], scale=2.0,
                tolerance=contrib_pointwise._ROUNDED_PRODUCT[dtype], formula=contrib_pointwise._gated)  # fmt: skip


def _bias_dropout(d: Draw) -> Node:
    dtype, shape = d.type(), d.shape(1, 4)
    residual = d.small(dtype, shape) if d.chance(0.5) else None
    ratio = d.values(d.type("T1"), [], 0, 1, specials=False) if d.chance(0.4) else None
    return Node([d.small(dtype, shape), d.small(dtype, shape[-1:]), residual, ratio], {}, (True, True), scale=3.0,
                formula=bias_dropout._dropped)  # fmt: skip


def _bias_add(d: Draw) -> Node:
    dtype, shape = d.type(), [d.dim(), d.dim(), d.pick([320, 640, 1280])]
    return Node([d.small(dtype, shape), d.small(dtype, shape[-1:]), d.small(dtype, shape)], scale=3.0,
                formula=lambda x, bias, skip: x + bias + skip)  # fmt: skip


def _selu(d: Draw) -> Node:
    attrs = {"alpha": d.real(0.5, 2), "gamma": d.real(0.5, 2)} if d.chance(0.5) else {}
    return Node([d.values(d.type(), d.elements(), -6, 6)], attrs)


def _two_shapes(d: Draw) -> tuple[list[int], list[int]]:
    shape = d.elements()
    other = shape if d.chance(0.3) else d.partner(shape, grow=True)
    return (shape, other) if d.chance(0.5) else (other, shape)


def _binary(low: float | None = None, high: float | None = None, **more: Any) -> _Spec:
    def draw(d: Draw) -> Node:
        constraint = d.schema.inputs[0].type
        dtype = d.type(constraint) if constraint in d.schema.types else "bool"
        a, b = _two_shapes(d)
        return Node([d.values(dtype, a, low, high), d.values(dtype, b, low, high, **more)])

    return draw


def _div(d: Draw) -> Node:
    dtype = d.type()
    a, b = _two_shapes(d)
    top, bottom = d.values(dtype, a), d.values(dtype, b, nonzero=not is_float(dtype))
    if dtype.startswith("int"):  # the smallest number has no quotient by -1
        top = np.where(top == np.iinfo(dtype).min, np.ones((), dtype), top)
    return Node([top, bottom])


def _mod(d: Draw) -> Node:
    dtype = d.type()
    node = _div(d)
    fmod = 1 if is_float(dtype) else d.pick([0, 1])
    return Node(node.inputs, {"fmod": fmod} if fmod else d.attrs(fmod=[0, None]))


def _pow(d: Draw) -> Node:
    a, b = _two_shapes(d)
    base = d.type("T")
    exponent = d.type("T1") if "T1" in d.schema.types else base
    if is_float(base):
        whole = not is_float(exponent) or d.chance(0.3)
        low = -3 if whole else 0.1  # a negative base has no power to a fraction
        powers = d.values(exponent, b, -3 if not exponent.startswith("u") else 0, 3)
        powers = np.round(powers.astype(np.float64)).astype(powers.dtype) if whole else powers
        return Node([d.values(base, a, low, 3), powers])
    # Small numbers and no negative powers: what overflows or is divided by zero is left open.
    powers = d.values(exponent, b, 0, 2, specials=False)
    powers = np.round(powers.astype(np.float64)).astype(powers.dtype)
    return Node([d.values(base, a, 0 if base.startswith("u") else -5, 5), powers], widen=False)


def _prelu(d: Draw) -> Node:
    shape = d.elements()
    dtype = d.type()
    return Node([d.values(dtype, shape), d.values(dtype, d.partner(shape))], formula=_prelu_formula)


def _prelu_formula(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The reference multiplies zeros by infinite slopes."""
    return np.where(x < 0, x * slope, x)


def _bit_shift(d: Draw) -> Node:
    dtype = d.type()
    a, b = _two_shapes(d)
    bits = np.dtype(dtype).itemsize * 8
    return Node([d.moved(dtype, a), d.values(dtype, b, 0, bits - 1)], {"direction": d.pick(["LEFT", "RIGHT"])})


def _variadic(d: Draw) -> Node:
    dtype = d.type()
    shape = d.elements()
    count = d.integer(1, 5) if d.chance(0.9) else d.integer(6, 20)
    alike = d.version < 8 or d.chance(0.3)  # the older versions do not broadcast
    return Node([d.values(dtype, shape if alike or d.chance(0.3) else d.partner(shape)) for _ in range(count)])


def _clip(d: Draw) -> Node:
    dtype = d.type()
    x = d.values(dtype, d.elements())
    bounds = sorted([d.real(0 if dtype.startswith("u") else -4, 4), d.real(0 if dtype.startswith("u") else -4, 4)])
    if d.version < 11:
        names = d.subset(["min", "max"])
        return Node([x], {name: bounds[name == "max"] for name in names})
    ends = [np.asarray(bound).astype(x.dtype) if d.chance(0.7) else None for bound in bounds]
    return Node([x, *ends])


def _where(d: Draw) -> Node:
    shape = d.elements()
    dtype = d.type()
    condition, x, y = (shape if d.chance(0.4) else d.partner(shape, grow=True) for _ in range(3))
    try:
        np.broadcast_shapes(condition, x, y)
    except ValueError:  # two of them grew
        condition = x = y = shape
    return Node([d.values("bool", condition), d.moved(dtype, x), d.moved(dtype, y)])


def _bias_gelu(d: Draw) -> Node:
    shape = d.dims(d.integer(1, 4))
    dtype = d.type()
    return Node([d.values(dtype, shape, -4, 4), d.values(dtype, shape[-1:], -2, 2)], formula=_gelu)


def _fast_gelu(d: Draw) -> Node:
    shape = d.dims(d.integer(1, 4))
    dtype = d.type()
    bias = d.values(dtype, shape[-1:], -2, 2) if d.chance(0.5) else None
    return Node([d.values(dtype, shape, -4, 4), bias], formula=_fast_gelu_formula)


def _dropout(d: Draw) -> Node:
    """Without training: what is dropped then is drawn at random."""
    dtype = d.type("T")
    masked = (True, True) if d.version >= 10 and d.chance(0.5) else (True,)
    x = d.values(dtype, d.elements())
    if d.version < 12:
        return Node([x], {"ratio": d.real(0.1, 0.9)} if d.chance(0.5) else {}, masked)
    ratio = np.asarray(d.real(0.1, 0.9)).astype(numpy_dtype(d.type("T1"))) if d.chance(0.6) else None
    training = np.asarray(False) if d.chance(0.5) else None
    seed = {"seed": 7} if d.chance(0.3) else {}
    return Node([x, ratio, training], seed, masked, constants=frozenset({2}) if d.chance(0.5) else frozenset())


SPECS: dict[tuple[str, str], _Spec] = {
    **{("", op): spec for op, spec in _UNARY.items()},
    **{
        ("", op): _binary() for op in ("Add", "Sub", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
    },
    **{("", op): _binary(-2, 2) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{("", op): _variadic for op in ("Max", "Min", "Sum", "Mean")},
    ("", "Selu"): _selu,
    ("", "Shrink"): _shrink,
    ("", "Dropout"): _dropout,
    ("", "Div"): _div,
    ("", "Mod"): _mod,
    ("", "Pow"): _pow,
    ("", "PRelu"): _prelu,
    ("", "BitShift"): _bit_shift,
    ("", "Clip"): _clip,
    ("", "Where"): _where,
    (MICROSOFT, "Gelu"): _unary(formula=_gelu),
    (MICROSOFT, "QuickGelu"): _unary(formula=_quick_gelu, alpha=(-2, 2)),
    (MICROSOFT, "BiasGelu"): _bias_gelu,
    (MICROSOFT, "FastGelu"): _fast_gelu,
    (MICROSOFT, "BiasSplitGelu"): _bias_split_gelu,
    (MICROSOFT, "BiasDropout"): _bias_dropout,
    (MICROSOFT, "BiasAdd"): _bias_add,
    (MICROSOFT, "ComplexMul"): _complex_mul,
    (MICROSOFT, "ComplexMulConj"): _complex_mul,
    (MICROSOFT, "GatedAdd"): _gated_add,
}
