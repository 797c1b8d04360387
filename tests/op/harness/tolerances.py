"""How exact results must be: the one table, by type and operator.

The error of an element is |got - wanted| / max(floor, |wanted|), where `wanted` comes from the same (rounded) inputs in
float64. Integers and bool are compared for equality. A result that equals the rounded reference always passes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Largest error, and the magnitude below which it counts as absolute."""

    relative: float
    floor: float = 1.0


# A little more than half a unit in the last place for 16 bits (2^-11, 2^-8), since one rounding is all there should be;
# a few units for the wider types, whose functions are not correctly rounded.
DEFAULT = {
    "float64": Tolerance(1e-13),
    "float32": Tolerance(1e-6),
    "float16": Tolerance(6e-4),
    "bfloat16": Tolerance(4.5e-3),
    "complex64": Tolerance(1e-6),
    "complex128": Tolerance(1e-13),
}

# Sums of products: the error grows with the length of the sum, and 16-bit inputs are summed in float32.
_SUMS = {
    "float64": Tolerance(1e-11),
    "float32": Tolerance(2e-5),
    "float16": Tolerance(2e-3),
    "bfloat16": Tolerance(1e-2),
}
# One rounding of an exact result: the error is relative all the way down to the smallest normal number.
_ROUNDED = {
    "float64": Tolerance(3e-16, floor=1e-300),
    "float32": Tolerance(2e-7, floor=1e-37),
    "float16": Tolerance(6e-4, floor=6.2e-5),
    "bfloat16": Tolerance(4.5e-3, floor=1e-37),
}

BY_OPERATOR: dict[str, dict[str, Tolerance]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _ROUNDED),
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "Conv"), _SUMS),
    # cuDNN fuses no bias into this direction: it is added to a sum that was rounded to 16 bits once before.
    "ConvTranspose": _SUMS | {"float16": Tolerance(4e-3), "bfloat16": Tolerance(2e-2)},
}

_EXACT = Tolerance(0.0)


def tolerance_of(op: str, dtype: str) -> Tolerance:
    """The tolerance for results of type `dtype`; exact for types without an entry."""
    return BY_OPERATOR.get(op, {}).get(dtype) or DEFAULT.get(dtype, _EXACT)
