"""ComplexMul, ComplexMulConj, BiasSplitGelu and GatedAdd of com.microsoft, and the Gated that compiled regions make."""

import math
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance
from ..harness.magnitudes import of_argument
from ..harness.schemas import FUSED_DOMAIN


def _complex(values: np.ndarray) -> np.ndarray:
    return values[..., 0] + 1j * values[..., 1]


def _product(a: np.ndarray, b: np.ndarray, conjugate: bool) -> np.ndarray:
    y = _complex(a) * (np.conj(_complex(b)) if conjugate else _complex(b))
    return np.stack([y.real, y.imag], -1)


def _terms(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What each part is the sum of, without signs."""
    a, b = np.abs(a), np.abs(b)
    real = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1]
    return np.stack([real, a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]], -1)


def _pairs(op: str, a: tuple[int, ...], b: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",),
           **more: Any) -> Case:  # fmt: skip
    conjugate = op == "ComplexMulConj"
    return Case(op=op, domain=MICROSOFT, opset=1, inputs=[Rand(a), Rand(b)], dtypes=dtypes, magnitude=_terms,
                expected=lambda a, b: _product(a, b, conjugate), **more)  # fmt: skip


def _split_gelu(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    left, right = np.split(x + bias, 2, -1)
    return left * right * 0.5 * np.vectorize(math.erfc, otypes=[float])(-right / math.sqrt(2))


def _split_terms(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Sums with the bias may cancel, and gelu is no steeper than 1.2."""
    left, right = np.split(np.abs(x) + np.abs(bias), 2, -1)
    return left * right * 1.2


def _split(shape: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",)) -> Case:
    return Case(op="BiasSplitGelu", domain=MICROSOFT, opset=1, inputs=[Rand(shape), Rand(shape[-1:])], dtypes=dtypes,
                expected=_split_gelu, magnitude=_split_terms,
                skip={} if len(shape) == 3 else {"session": "the host's inference wants three dimensions"})  # fmt: skip


def _swiglu(gate: np.ndarray, up: np.ndarray | None = None, activation_alpha: float = 1, activation_beta: float = 0,
            limit: float = 0, round_activation: int = 0) -> np.ndarray:  # fmt: skip
    del round_activation  # references are not rounded
    if up is None:
        gate, up = np.split(gate, 2, -1)
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate / (1 + np.exp(-activation_alpha * gate)) * (up + activation_beta)


def _swiglu_terms(gate: np.ndarray, up: np.ndarray | None = None, activation_alpha: float = 1,
                  activation_beta: float = 0, limit: float = 0, round_activation: int = 0) -> np.ndarray:  # fmt: skip
    """Up and beta may cancel."""
    if up is None:
        gate, up = np.split(gate, 2, -1)
    rest = activation_alpha, abs(activation_beta), limit, round_activation
    return np.abs(_swiglu(gate, np.abs(up), *rest))


def _swiglus() -> list[Case]:
    attributes: list[dict[str, Any]] = [
        {}, {"activation_alpha": 1.702, "activation_beta": 1.0, "limit": 1.5}, {"round_activation": 1}, {"limit": -1.0},
    ]  # fmt: skip
    forms: list[list[Any]] = [
        [Rand((2, 5, 12)), Rand((2, 5, 12))], [Rand((2, 5, 24))], [Rand((3, 66))], [Rand((1, 16))], [Rand((0, 8))],
        [Rand((7,)), Rand((7,))],
    ]  # fmt: skip
    return [
        *(Case(op="SwiGLU", domain=MICROSOFT, opset=1, inputs=form, attrs=attrs, expected=_swiglu,
               dtypes=("float32", "float16", "bfloat16"), tolerance=Tolerance(2), magnitude=_swiglu_terms,
               name=f"{i}_{j}")
          for i, form in enumerate(forms) for j, attrs in enumerate(attributes)),
        Case(op="SwiGLU", domain=MICROSOFT, opset=1, inputs=[Of([-88, -95, -100, 30, 200]), Of([1e10, 1e12, 1, 2, -3])],
             expected=_swiglu, dtypes=("float32",), tolerance=Tolerance(4), name="tails"),
        Case(op="SwiGLU", domain=MICROSOFT, opset=1, inputs=[Rand((2, 3)), Rand((3,))], dtypes=("float32",),
             error=("INVALID_ARGUMENT", "must have one shape"), skip={"session": "the host's inference refuses it"}),
        Case(op="SwiGLU", domain=MICROSOFT, opset=1, inputs=[Rand((2, 3))], dtypes=("float32",),
             error=("INVALID_ARGUMENT", "must be even"), skip={"session": "the host's inference refuses it"}),
    ]  # fmt: skip


_GATES: dict[str, Any] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def _gated_halves(x: np.ndarray, activation: str, activated: int = 0) -> np.ndarray:
    halves = np.split(x, 2, -1)
    y: np.ndarray = _GATES[activation](halves[activated]) * halves[1 - activated]
    return y


def _gated_terms(x: np.ndarray, activation: str, activated: int = 0) -> np.ndarray:
    """What an error of the gate's argument does."""
    halves = np.split(x, 2, -1)
    strain: np.ndarray = of_argument(_GATES[activation])(halves[activated]) * np.abs(halves[1 - activated])
    return strain


def _halves(shape: tuple[int, ...], activation: str = "silu", dtypes: tuple[str, ...] = ("float32",),
            **attrs: int) -> Case:  # fmt: skip
    return Case(op="Gated", domain=FUSED_DOMAIN, inputs=[Rand(shape)], attrs={"activation": activation} | attrs,
                expected=_gated_halves, magnitude=_gated_terms, dtypes=dtypes)  # fmt: skip


# The product is rounded before the sum.
_ROUNDED_PRODUCT = {"float32": Tolerance(1, terms=2), "float16": Tolerance(1, terms=2.0**13),
                    "bfloat16": Tolerance(1, terms=2.0**16)}  # fmt: skip


def _gated(x: np.ndarray, y: np.ndarray, gate: np.ndarray) -> np.ndarray:
    return x + y * gate


def _gate(shape: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",)) -> Case:
    return Case(op="GatedAdd", domain=MICROSOFT, opset=1, dtypes=dtypes, expected=_gated, magnitude="absolute",
                inputs=[Rand(shape), Rand(shape), Rand((*shape[:-1], 1))], tolerance=_ROUNDED_PRODUCT)  # fmt: skip


_OPS = ("ComplexMul", "ComplexMulConj")

CASES = [
    *_swiglus(),
    *(_pairs(op, (3, 5, 2), (3, 5, 2), ("float32", "float64", "float16")) for op in _OPS),
    *(_pairs(op, a, b) for op in _OPS for a, b in (
        ((2,), (2,)), ((4, 1, 2), (3, 2)), ((3, 2), (4, 1, 2)), ((5, 33, 2), (2,)), ((0, 2), (2,)),
        ((131, 2), (131, 2)))),
    *(Case(op=op, domain=MICROSOFT, opset=1, inputs=[Rand((3, 3), "float32"), Rand((3, 3), "float32")], name="pairs",
           error=("INVALID_ARGUMENT", "needs a last dimension of real and imaginary")) for op in _OPS),
    _split((2, 3, 16), ("float32", "float16")),
    *(_split(shape) for shape in ((2, 5, 14), (1, 1, 2), (3, 0, 8), (2, 3, 0), (7, 640), (34,))),
    Case(op="BiasSplitGelu", domain=MICROSOFT, opset=1, inputs=[Rand((2, 3, 5), "float32"), Rand((5,), "float32")],
         error=("INVALID_ARGUMENT", "the last dimension of [2,3,5] must be even"), name="odd"),
    Case(op="BiasSplitGelu", domain=MICROSOFT, opset=1, inputs=[Rand((2, 3, 6), "float32"), Rand((3,), "float32")],
         error=("INVALID_ARGUMENT", "the bias has shape [3]"), name="bias"),
    *(_halves((3, 5, 32), name, ("float32", "float16", "bfloat16")) for name in _GATES),
    _halves((3, 5, 32), dtypes=("float32", "float16", "bfloat16"), activated=1),
    *(_halves(shape) for shape in ((2, 5, 14), (1, 1, 2), (3, 0, 8), (2, 3, 0), (7, 640), (34,))),
    Case(op="Gated", domain=FUSED_DOMAIN, inputs=[Rand((2, 5), "float32")], name="odd", attrs={"activation": "silu"},
         error=("INVALID_ARGUMENT", "the last dimension of [2,5] must be even")),
    Case(op="Gated", domain=FUSED_DOMAIN, inputs=[Rand((2, 4), "float32")], name="clip", attrs={"activation": "clip"},
         error=("NOT_SUPPORTED", "activation 'clip' of a gate")),
    _gate((3, 5, 16), ("float32", "float16", "bfloat16")),
    *(_gate(shape) for shape in ((7,), (3, 33), (0, 4), (2, 0))),
    Case(op="GatedAdd", domain=MICROSOFT, opset=1, name="gate", error=("INVALID_ARGUMENT", "must be the same but for"),
         inputs=[Rand((2, 3), "float32"), Rand((2, 3), "float32"), Rand((2, 3), "float32")]),
]  # fmt: skip
