"""How exact results must be: the one table, by operator and type.

An element may be off from the reference (of the same, rounded inputs, in float64) by

    ulps   units in the last place of the result's type at the reference's magnitude, below the normal numbers at the
           smallest of them
    terms  epsilons of the type that sums are formed in (float32 for narrower ones), times the case's `magnitude`: what
           its terms add up to without their signs, which says how much a sum can lose where its terms cancel
    abs    an amount that a case gives a reason for

Integers, bool and complex numbers are compared for equality. A result that is the rounded reference always passes.
`python -m tests.op.harness.errors` lists what each operator needs.
"""

from dataclasses import dataclass

from .dtypes import FLOAT8


@dataclass(frozen=True)
class Tolerance:
    """The largest error of an element, in the parts that this module's text explains."""

    ulps: float = 0.0
    terms: float = 4.0  # without effect in a case without `magnitude`
    abs: float = 0.0
    reason: str = ""  # why results may be off by `abs`, however small they are

    def __post_init__(self) -> None:
        if self.abs and not self.reason:
            raise ValueError("an absolute tolerance needs a reason")


EXACT = Tolerance(0.0, terms=0.0)
# One correct rounding; the rest is for references that were rounded to float64 before.
ROUNDED = Tolerance(0.501, terms=0.0)

# What functions of the math libraries give: the worst of CUDA's in float32 are off by 4 ulps. 16 bits are computed in
# float32 and rounded once; fast functions are off by some 1e-5 before.
DEFAULT = {
    "float64": Tolerance(4),
    "float32": Tolerance(4),
    "float16": Tolerance(0.6),
    "bfloat16": Tolerance(0.6),
    **dict.fromkeys(FLOAT8, EXACT),
}


_SOFTMAX = {"float64": Tolerance(32), "float32": Tolerance(8)}
# The sum with the bias, up to 9, is rounded before its exponential is taken.
_BIASED_SOFTMAX = {"float64": Tolerance(32), "float32": Tolerance(24)}
# The libraries choose the order of their sums.
_PRODUCTS = {"float16": Tolerance(1), "bfloat16": Tolerance(1)}

_ATTENTION = {"float16": Tolerance(1, terms=2.0**11), "bfloat16": Tolerance(1, terms=2.0**14)}


def _each(tolerance: Tolerance) -> dict[str, Tolerance]:
    return dict.fromkeys(DEFAULT, tolerance)


BY_OPERATOR: dict[str, dict[str, Tolerance]] = {
    # One operation of the type, or none.
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "PRelu", "LeakyRelu", "Reciprocal", "Sqrt"), _each(ROUNDED)),
    **dict.fromkeys(("Abs", "Ceil", "Clip", "Floor", "Max", "Min", "Neg", "Relu", "Round", "Sign"), _each(EXACT)),
    **dict.fromkeys(("GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "ThresholdedRelu"), _each(EXACT)),
    # A rounding for each of up to 60 factors.
    "ReduceProd": {"float64": Tolerance(10), "float32": Tolerance(10)},
    "BiasSoftmax": _BIASED_SOFTMAX,
    "Softmax": _SOFTMAX,
    "Conv": _PRODUCTS,
    "FusedMatMul": _PRODUCTS,
    "Gemm": _PRODUCTS,
    "MatMul": _PRODUCTS,
    "TransposeMatMul": _PRODUCTS,
    # Weights of attention are rounded to 16 bits before they meet the values, as the operator is defined.
    **dict.fromkeys(("Attention", "GroupQueryAttention", "MultiHeadAttention"), _ATTENTION),
    # cuDNN fuses no bias into this direction: it is added to a sum that was rounded to 16 bits once before.
    "ConvTranspose": {"float16": Tolerance(1, terms=2.0**12), "bfloat16": Tolerance(1, terms=2.0**15)},
}


def tolerance_of(op: str, dtype: str) -> Tolerance:
    """The tolerance for results of type `dtype`; exact for types without an entry."""
    return BY_OPERATOR.get(op, {}).get(dtype) or DEFAULT.get(dtype, EXACT)
