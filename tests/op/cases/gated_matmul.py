"""The gated product that compiled regions make, GatedMatMul: activation(a) * b of the halves of A B + bias."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.schemas import FUSED_DOMAIN
from .contrib_pointwise import _GATES, _gated_halves
from .matmul import _fused as _product

_SIXTEEN = ("float16", "bfloat16")
# Both factors are rounded to the type where a kernel of its own multiplies them.
_TOLERANCE = {"float16": Tolerance(2, terms=2.0**12), "bfloat16": Tolerance(2, terms=2.0**15)}


def _gated(a: np.ndarray, b: np.ndarray, bias: Any = None, gate: str = "silu", activated: int = 0, own_weights: int = 0,
           **attrs: Any) -> np.ndarray:  # fmt: skip
    y = _product(a, b, **attrs) + (0 if bias is None else bias)
    return _gated_halves(y, gate, activated)


def _magnitude(a: np.ndarray, b: np.ndarray, bias: Any = None, **attrs: Any) -> np.ndarray:
    """What an error of either sum does, of which the other and the gate's slope are factors."""
    plain = {name: value for name, value in attrs.items() if name in ("transA", "transB", "alpha")}
    sums = _product(np.abs(a), np.abs(b), **plain) + (0 if bias is None else np.abs(bias))
    halves = np.split(sums, 2, -1)
    size: np.ndarray = halves[0] * halves[1]
    return size


def _case(a: tuple[int, ...], b: tuple[int, ...], *, bias: bool = True, gate: str = "silu", name: str = "",
          **attrs: Any) -> Case:  # fmt: skip
    turned = attrs.get("transB", 0)
    columns, inner = (b[0], b[1]) if turned else (b[1], b[0])
    return Case(
        op="GatedMatMul",
        domain=FUSED_DOMAIN,
        # Sums of about 2, of which little cancels.
        inputs=[
            Rand(a, low=0.5, high=1.5),
            Rand(b, low=-2 / inner, high=6 / inner),
            *([Rand((columns,), low=0, high=1)] if bias else []),
        ],
        attrs={"own_weights": 1, "gate": gate} | attrs,
        constants={1, 2} if bias else {1},
        expected=_gated,
        magnitude=_magnitude,
        dtypes=_SIXTEEN,
        tolerance=_TOLERANCE,
        name=name,
    )


def _refused(message: str, code: str = "INVALID_ARGUMENT", *, b: tuple[int, ...] = (8, 16), name: str,
             constants: set[int] | None = None, **attrs: Any) -> Case:  # fmt: skip
    return Case(op="GatedMatMul", domain=FUSED_DOMAIN, inputs=[Rand((2, 8), "float16"), Rand(b, "float16")],
                attrs={"gate": "silu"} | attrs, constants={1} if constants is None else constants, name=name,
                error=(code, message))  # fmt: skip


CASES = [
    # A row, few and those of every tiling; columns and inner elements of whole blocks, of parts, and of no kernel's
    *(
        _case(a, b, bias=bias)
        for bias in (False, True)
        for a, b in (
            ((1, 40), (40, 64)),
            ((2, 5, 64), (64, 272)),
            ((16, 264), (264, 144)),
            ((3, 1032), (1032, 9216)),  # staged blocks on every device
            ((17, 40), (40, 64)),
            ((2, 64, 40), (40, 192)),
            ((3, 128, 16), (16, 1152)),
            ((300, 72), (72, 448)),
            ((0, 40), (40, 64)),
            ((17, 40), (40, 48)),
            ((17, 36), (36, 24)),
            ((5, 7), (7, 6)),
        )
    ),
    *(_case(a, (40, 128), gate=gate, activated=1) for gate in _GATES for a in ((4, 40), (33, 40))),
    *(_case((*rows, 40), (128, 40), transB=1) for rows in ((4,), (33,), (3, 128))),
    *(_case((*rows, 40), (40, 128), own_weights=0, name="shared") for rows in ((4,), (33,))),
    _refused("the columns of [2,15] must be even", b=(8, 15), name="odd"),
    _refused("a constant matrix of weights", name="computed", constants=set()),
    _refused("nor a scale", name="scaled", alpha=0.5),
    _refused("activation 'clip' of a gate", "NOT_SUPPORTED", name="clip", gate="clip"),
]
