"""com.microsoft's GatedRMSNorm and LinearAttentionGate."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance

TYPES = ("float32", "float16", "bfloat16")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def norm(
    x: np.ndarray, scale: np.ndarray, gate: np.ndarray, epsilon: float = 1e-5, activation: str = "silu"
) -> np.ndarray:
    rows = x.reshape(*x.shape[:-1], x.shape[-1] // scale.size, scale.size)
    normal = rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + epsilon) * scale
    y: np.ndarray = normal.reshape(x.shape) * _sigmoid(gate) * (1 if activation == "sigmoid" else gate)
    return y


def gates(a: np.ndarray, bias: np.ndarray, scale: np.ndarray, b: np.ndarray | None = None) -> tuple[Any, ...]:
    return scale * np.logaddexp(0, a + bias), 0 if b is None else _sigmoid(b)


def _gates_magnitude(a: np.ndarray, bias: np.ndarray, scale: np.ndarray, _: Any = None) -> tuple[Any, ...]:
    """The sum with the bias may cancel; softplus passes its error on."""
    return np.abs(scale) * (np.abs(a) + np.abs(bias)), 0.0


_NORM: dict[str, Any] = {"op": "GatedRMSNorm", "domain": MICROSOFT, "opset": 1, "expected": norm,
                         "tolerance": {"float32": Tolerance(8)}}  # fmt: skip
_GATE: dict[str, Any] = {"op": "LinearAttentionGate", "domain": MICROSOFT, "opset": 1, "expected": gates,
                         "magnitude": _gates_magnitude, "tolerance": {"float32": Tolerance(6)}}  # fmt: skip
_REFUSED: dict[str, Any] = {"skip": {"session": "the host's shape inference may refuse first"}, "dtypes": ("float32",)}


def _norms() -> list[Case]:
    shapes = [((2, 3, 64), 64), ((2, 3, 64), 16), ((3, 40), 8), ((5,), 5), ((2, 7), 7), ((4, 128), 128),
              ((3, 1000), 1000), ((2, 6000), 6000), ((2, 6000), 3000), ((2, 3, 4, 6), 2), ((70, 3), 3), ((0, 8), 8),
              ((2, 0), 3)]  # fmt: skip
    return [
        *(Case(**_NORM, inputs=[Rand(shape), Rand((columns,)), Rand(shape)], dtypes=TYPES, name=f"{shape}_{columns}")
          for shape, columns in shapes),
        *(Case(**_NORM, inputs=[Rand((4, 32)), Rand((32,)), Rand((4, 32))], dtypes=TYPES, attrs=attrs)
          for attrs in ({"activation": "sigmoid"}, {"activation": "swish"}, {"activation": "silu", "epsilon": 0.5},
                        {"epsilon": 0.1})),
        Case(**_NORM, inputs=[Rand((9, 24), specials=True), Rand((24,)), Rand((9, 24), specials=True)],
             dtypes=("float32",), name="specials"),
        Case(op="GatedRMSNorm", domain=MICROSOFT, opset=1, inputs=[Rand((2, 6)), Rand((6,)), Rand((2, 6))], **_REFUSED,
             attrs={"activation": "relu"}, error=("INVALID_ARGUMENT", "activation 'relu'")),
        Case(op="GatedRMSNorm", domain=MICROSOFT, opset=1, inputs=[Rand((2, 6)), Rand((4,)), Rand((2, 6))], **_REFUSED,
             error=("INVALID_ARGUMENT", "does not divide")),
        Case(op="GatedRMSNorm", domain=MICROSOFT, opset=1, inputs=[Rand((2, 6)), Rand((6,)), Rand((2, 3))], **_REFUSED,
             error=("INVALID_ARGUMENT", "must have one shape")),
    ]  # fmt: skip


def _attention_gates() -> list[Case]:
    def inputs(shape: tuple[int, ...], with_b: bool) -> list[Any]:
        heads = shape[-1:]
        return [Rand(shape), Rand(heads, "float32"), Rand(heads, "float32"), *([Rand(shape)] if with_b else [])]

    shapes = [(2, 3, 4), (1, 1, 32), (2, 300, 7), (5, 3), (2, 0, 4)]
    return [
        *(Case(**_GATE, inputs=inputs(shape, b), dtypes=TYPES, outputs=1 + b, name=f"{shape}_{b}")
          for shape in shapes for b in (False, True)),
        Case(**_GATE, inputs=inputs((2, 3, 4), True), dtypes=TYPES, outputs=1, name="unused"),
        Case(**_GATE, inputs=[Of([[[-100.0, -20, 0, 20, 100, np.nan, np.inf, -np.inf]]]), Of([0.0] * 8, "float32"),
                              Of([1.0, 1, 1, 2, 1, 1, 1, 1], "float32"),
                              Of([[[-80.0, -20, 0, 20, 100, np.nan, np.inf, -np.inf]]])],
             dtypes=("float32",), outputs=2, name="tails"),
        Case(op="LinearAttentionGate", domain=MICROSOFT, opset=1, inputs=inputs((2, 3, 4), False), **_REFUSED,
             outputs=2, error=("INVALID_ARGUMENT", "needs the input b")),
        Case(op="LinearAttentionGate", domain=MICROSOFT, opset=1, **_REFUSED,
             inputs=[Rand((2, 3, 4)), Rand((3,), "float32"), Rand((4,), "float32")],
             error=("INVALID_ARGUMENT", "must be the last dimension")),
        Case(op="LinearAttentionGate", domain=MICROSOFT, opset=1, **_REFUSED,
             inputs=[Rand((2, 3, 4)), Rand((4,), "float32"), Rand((4,), "float32"), Rand((2, 3, 1))], outputs=2,
             error=("INVALID_ARGUMENT", "b [2,3,1] must be")),
    ]  # fmt: skip


CASES = [*_norms(), *_attention_gates()]
