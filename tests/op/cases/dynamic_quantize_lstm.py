"""com.microsoft's DynamicQuantizeLSTM: the input is quantized as a whole, the state of a direction at each step."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance
from ..harness.inputs import Input
from . import rnn
from .matmul_integer import _quantize


def _rounded(values: Any) -> Any:
    """What is left of floats when uint8 has stood for them."""
    codes, scale, zero = _quantize(values)
    return (codes.astype(np.float64) - float(zero)) * np.float64(scale)


def _weights(codes: Any, scale: Any, zero: Any) -> Any:
    wide = codes.astype(np.float64) - zero.astype(np.float64).reshape(len(codes), 1, -1)
    return (wide * scale.reshape(len(codes), 1, -1)).transpose(0, 2, 1)


def _reference(x: Any, w: Any, r: Any, b: Any, lens: Any, h0: Any, c0: Any, p: Any, w_scale: Any, w_zero: Any,
               r_scale: Any, r_zero: Any, **attrs: Any) -> Any:  # fmt: skip
    w, r, x = _weights(w, w_scale, w_zero), _weights(r, r_scale, r_zero), _rounded(x)
    (steps, batch, _), (count, _, size) = x.shape, r.shape
    made = rnn._functions(attrs.get("activations", ["Sigmoid", "Tanh", "Tanh"] * count),
                          attrs.get("activation_alpha", []), attrs.get("activation_beta", []))  # fmt: skip
    b = np.zeros((count, 8 * size)) if b is None else b
    p = np.zeros((count, 3 * size)) if p is None else p
    lengths = np.full(batch, steps) if lens is None else lens
    y = np.zeros((steps, count, batch, size))
    hs, cs = (np.zeros((count, batch, size)) if s is None else s * (lengths[:, None] > 0) for s in (h0, c0))
    for d in range(count):
        back = attrs.get("direction", "forward") == "reverse" or d == 1
        for step in range(steps):
            before = _rounded(hs[d])
            for row in np.flatnonzero(lengths > step):
                at = lengths[row] - 1 - step if back else step
                hs[d, row], cs[d, row] = rnn._cell("LSTM", made[3 * d :], x[at, row], w[d], r[d], b[d], p[d],
                                                   before[row], cs[d, row], attrs)  # fmt: skip
                y[at, d, row] = hs[d, row]
    return y, hs, cs


def _case(inputs: str = "", steps: int = 4, batch: int = 3, features: int = 5, hidden: int = 6, weights: str = "int8",
          columns: bool = False, lens: list[int] | None = None, zeros: bool = True,
          **more: Any) -> Case:  # fmt: skip
    attrs = {"hidden_size": hidden, **more.pop("attrs", {})}
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    of_scale = (count, 4 * hidden) if columns else (count,)
    state = Rand((count, batch, hidden), "float32", low=-1, high=1)
    scale = 2 / 128 / max(hidden, features, 1) ** 0.5
    point = Rand(of_scale, weights, full=True) if zeros else Of(np.zeros(of_scale), weights)
    # Processors without dot products of bytes saturate sums of two products of the CPU provider in 16 bits.
    values: dict[str, Any] = {"low": -64, "high": 63} if "expected" in more and weights == "int8" else {"full": True}
    given: list[Input] = [
        Rand((steps, batch, features), "float32", low=-2, high=1),
        Rand((count, features, 4 * hidden), weights, **values), Rand((count, hidden, 4 * hidden), weights, **values),
        Rand((count, 8 * hidden), "float32", low=-1, high=1) if "b" in inputs else None,
        None if lens is None else Of(lens, "int32"),
        state if "h" in inputs else None, state if "c" in inputs else None,
        Rand((count, 3 * hidden), "float32", low=-1, high=1) if "p" in inputs else None,
        *([Rand(of_scale, "float32", low=0.2 * scale, high=scale), point] * 2),
    ]  # fmt: skip
    name = f"{steps}x{batch}x{features}x{hidden}_{inputs}_{weights}_{columns}_{lens}".replace(", ", ".") + "".join(
        f",{key}={value}" for key, value in attrs.items() if key != "hidden_size"
    )
    more.setdefault("expected", _reference)
    more.setdefault("outputs", 3)
    more.setdefault("tolerance", rnn._ERRORS)
    return Case(op="DynamicQuantizeLSTM", domain=MICROSOFT, opset=1, inputs=given, attrs=attrs, magnitude=rnn._size,
                name=more.pop("name", name), **more)  # fmt: skip


def _refusal(text: str, change: tuple[int, Input] | None = None, **attrs: Any) -> Case:
    inputs: list[Input] = [
        Rand((4, 3, 5), "float32"), Rand((1, 5, 24), "int8"), Rand((1, 6, 24), "int8"), *[None] * 5,
        *([Rand((1,), "float32"), Rand((1,), "int8")] * 2),
    ]  # fmt: skip
    if change is not None:
        inputs[change[0]] = change[1]
    return Case(op="DynamicQuantizeLSTM", domain=MICROSOFT, opset=1, inputs=inputs, outputs=3, name=f"refused_{text}",
                attrs={"hidden_size": 6, **attrs}, error=("INVALID_ARGUMENT", text))  # fmt: skip


_A_STEP = Tolerance(16, abs=4e-3, reason="of so many states one may lie at a tie, and round to another step")
_DIRECTIONS = ("forward", "reverse", "bidirectional")

CASES = [
    *(_case("bhcp", weights=weights, columns=columns, lens=lens, attrs={"direction": direction})
      for weights in ("int8", "uint8") for columns in (False, True) for direction in _DIRECTIONS
      for lens in (None, [4, 0, 2])),
    # the CPU provider quantizes parts of a batch, and has no zero points for each column
    *(_case("bhcp", batch=1, weights=weights, columns=columns, zeros=not columns, attrs={"direction": direction},
            expected="ort_cpu", constants=(1, 2, 8, 9, 10, 11), name=f"as_cpu_{weights}_{columns}_{direction}")
      for weights, columns in (("int8", True), ("uint8", False)) for direction in ("forward", "bidirectional")),
    _case(attrs={"clip": 0.4}), _case("bc", attrs={"input_forget": 1}),
    _case("b", attrs={"activations": ["HardSigmoid", "ScaledTanh", "Softsign"], "activation_alpha": [0.3, 0.7],
                      "activation_beta": [0.4, 0.6]}, name="activations"),
    # packed weights: both, one
    _case("b", features=16, hidden=32, columns=True, constants=(1, 2), attrs={"direction": "bidirectional"}),
    _case("b", features=16, hidden=9, constants=(1, 2)),
    _case("b", steps=2, batch=67, features=70, hidden=66, tolerance=_A_STEP),
    _case("b", steps=1, batch=1, features=1, hidden=1),
    _case("hc", steps=0), _case(batch=0), _case("bh", features=0),
    _case("b", outputs=("", "float32", ""), name="h_alone"), _case("b", outputs=1, name="y_alone"),
    _refusal("input W has shape [1,24,5], expected [1,5,24]", (1, Rand((1, 24, 5), "int8"))),
    _refusal("input W_scale has shape [4], expected [1] or [1,24]", (8, Rand((4,), "float32"))),
    _refusal("input R_zero_point has shape [1,6]", (11, Rand((1, 6), "int8"))),
    _refusal("direction is 'both'", direction="both"),
]  # fmt: skip
