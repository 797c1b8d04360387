"""The MatMul that compiled regions make: activation(alpha * A B + bias + residual)."""

import math

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.dtypes import FLOATS
from ..harness.schemas import FUSED_DOMAIN
from .matmul import _fused as _product

_erf = np.vectorize(math.erf, otypes=[np.float64])

_ACTIVATIONS = {
    "none": lambda y: y,
    "relu": lambda y: np.maximum(y, 0),
    "gelu": lambda y: y * 0.5 * (1 + _erf(y * math.sqrt(0.5))),
    "gelu_tanh": lambda y: y * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "tanh": np.tanh,
    "hard_swish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
    "clip": np.clip,
    "leaky_relu": lambda y, a: np.where(y < 0, a * y, y),
    "hard_sigmoid": lambda y, a, b: np.clip(a * y + b, 0, 1),
}
_PARAMETERS = {"clip": [-0.5, 4.0], "leaky_relu": [0.25], "hard_sigmoid": [0.03125, 0.25]}


def _fused(a, b, bias=None, residual=None, activation="none", activation_params=(), own_weights=0, **attrs):
    y = _product(a, b, **attrs) + (0 if bias is None else bias) + (0 if residual is None else residual)
    return _ACTIVATIONS[activation](y, *np.float32(activation_params).tolist())


def _magnitude(*inputs, activation="none", activation_params=(), **attrs):
    """No activation is steeper than its argument by much, and some hide how large that was."""
    return _fused(*(None if value is None else np.abs(value) for value in inputs), **attrs)


# The sum is rounded before an activation that no library takes.
_ROUNDED = {"float16": Tolerance(1, terms=2.0**12), "bfloat16": Tolerance(1, terms=2.0**15)}
_TAKEN = ("", "none", "relu", "gelu_tanh")


def _case(a, b, y, bias, residual, activation, **more):
    attrs = dict(more.pop("attrs", {}))
    if activation:
        attrs["activation"] = activation
        attrs |= {"activation_params": _PARAMETERS[activation]} if activation in _PARAMETERS else {}
    # What is activated is below 0 now and then only: most results would be next to 0 otherwise.
    left, right, sums = ((0.5, 1.5), (-0.5, 1), (0, 1)) if activation else ((-1, 1),) * 3
    inputs = [Rand(a, low=left[0], high=left[1]), Rand(b, low=right[0], high=right[1])]
    if bias or residual:
        inputs.append(Rand(y[-1:], low=sums[0], high=sums[1]) if bias else None)
    if residual:
        inputs.append(Rand(y, low=sums[0], high=sums[1]))
    return Case(
        op="MatMul",
        domain=FUSED_DOMAIN,
        inputs=inputs,
        attrs=attrs,
        expected=_fused,
        magnitude=_magnitude,
        dtypes=more.pop("dtypes", FLOATS),
        tolerance=_ROUNDED,
        **more,
    )


_SHAPES = [
    # A, B, Y, attributes
    ((3, 8), (8, 16), (3, 16), {}),
    ((2, 5, 8), (8, 24), (2, 5, 24), {}),  # one tall product
    ((7, 9), (9, 5), (7, 5), {}),  # odd
    ((8, 3), (16, 8), (3, 16), {"transA": 1, "transB": 1, "alpha": 0.5}),
    ((2, 1, 3, 8), (1, 3, 8, 16), (2, 3, 3, 16), {}),  # several launches
    ((67, 131), (131, 70), (67, 70), {}),
    ((3, 0), (0, 8), (3, 8), {}),
    ((0, 8), (8, 16), (0, 16), {}),
]

# Products of few rows, which have ways of their own in 16 bits: packed weights, those that lie so, and what is neither.
_FEW, _MORE = ((9, 40), (40, 24), {}), ((17, 40), (40, 24), {})
_SHORT = [
    ((1, 40), (40, 24), {}),
    _FEW,
    ((16, 264), (264, 72), {}),
    ((5, 640), (640, 40), {}),  # on GPUs from 9.0 on the inner dimension is cut among 4 blocks, then 8
    ((3, 1032), (1032, 64), {}),
    ((7, 4096), (4096, 40), {}),
    ((2, 5, 64), (64, 520), {}),
    ((0, 40), (40, 24), {}),
    _MORE,
    ((2, 64, 40), (40, 24), {}),
    ((256, 40), (40, 24), {}),
    ((257, 40), (40, 24), {}),
    ((17, 40), (24, 40), {"transB": 1}),
    ((17, 36), (36, 24), {}),
    ((17, 40), (40, 20), {}),
    ((17, 40), (3, 40, 24), {}),
    ((40, 17), (40, 24), {"transA": 1}),
    ((17, 40), (40, 24), {"alpha": 0.5}),
]


def _short(a, b, attrs, bias, residual, activation, constant=True):
    y = _product(np.empty(a, "int8"), np.empty(b, "int8"), **(attrs | {"alpha": 1})).shape
    return _case(a, b, y, bias, residual, activation, attrs=attrs | {"own_weights": 1},
                 dtypes=("float16", "bfloat16"),
                 constants={1} if constant else set(), name="" if constant else "short-computed")  # fmt: skip


CASES = [
    *(_short(*form, *rest) for form in _SHORT for rest in [(True, False, "gelu"), (True, True, "")]),
    *(
        _short(*form, bias, residual, activation)
        for form in (_FEW, _MORE)
        for bias in (False, True)
        for residual in (False, True)
        for activation in ("none", "relu", "gelu", "gelu_tanh", "silu", "hard_swish", "hard_sigmoid")
    ),
    *(_short(*form, True, True, "gelu", constant=False) for form in (_FEW, _MORE)),
    # Many rows, whose tiles fill the simulated device (GPUs: tests/unit/ops/many_rows_test.cc)
    *(
        _short((3, 128, 16), b, attrs, bias, False, "gelu")
        for b, attrs, bias in [((16, 128), {}, True), ((128, 16), {"transB": 1}, False), ((16, 1152), {}, True)]
    ),
    *(
        _case(a, b, y, bias, residual, activation, attrs=attrs, constants={1} if constant else set())
        for a, b, y, attrs in _SHAPES
        for bias, residual, activation, constant in [
            (True, False, "", True),
            (True, True, "", False),
            (True, False, "gelu", True),
            (False, True, "gelu_tanh", False),
        ]
    ),
    *(_case((6, 8), (8, 16), (6, 16), True, True, activation) for activation in _ACTIVATIONS),
    _case((6, 8), (8, 16), (6, 16), False, False, "silu"),
    Case(
        op="MatMul",
        domain=FUSED_DOMAIN,
        inputs=[Rand((2, 3), "float32"), Rand((3, 4), "float32"), Rand((1, 4), "float32")],
        error=("INVALID_ARGUMENT", "the bias [1,4] must have the last dimension of the result [2,4]"),
    ),
    Case(
        op="MatMul",
        domain=FUSED_DOMAIN,
        inputs=[Rand((2, 3), "float32"), Rand((3, 4), "float32"), None, Rand((1, 4), "float32")],
        error=("INVALID_ARGUMENT", "the residual [1,4] must have the dimensions of the result [2,4]"),
    ),
    Case(
        op="MatMul",
        domain=FUSED_DOMAIN,
        inputs=[Rand((2, 3), "float32"), Rand((3, 4), "float32")],
        attrs={"activation": "Sin"},
        error=("NOT_SUPPORTED", "activation 'Sin' of MatMul"),
    ),
]
