"""LSTM, GRU, RNN: activations, directions, layouts, lengths, initial states, peepholes, clip, coupled gates."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, Tolerance
from ..harness.dtypes import FLOATS

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
# name -> how many values of alpha and beta it takes, their defaults, the function
_FUNCTIONS: dict[str, tuple[int, tuple[float, float], Callable[..., Any]]] = {
    "Affine": (2, (1, 0), lambda x, a, b: a * x + b),
    "Elu": (1, (1, 0), lambda x, a, _: np.where(x < 0, a * np.expm1(x), x)),
    "HardSigmoid": (2, (float(np.float32(0.2)), 0.5), lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "LeakyRelu": (1, (float(np.float32(0.01)), 0), lambda x, a, _: np.where(x < 0, a * x, x)),
    "Relu": (0, (0, 0), lambda x, *_: np.maximum(x, 0)),
    "ScaledTanh": (2, (1, 1), lambda x, a, b: a * np.tanh(b * x)),
    "Sigmoid": (0, (0, 0), lambda x, *_: 1 / (1 + np.exp(-x))),
    "Softplus": (0, (0, 0), lambda x, *_: np.logaddexp(0, x)),
    "Softsign": (0, (0, 0), lambda x, *_: x / (1 + np.abs(x))),
    "Tanh": (0, (0, 0), lambda x, *_: np.tanh(x)),
    "ThresholdedRelu": (1, (1, 0), lambda x, a, _: np.where(x > a, x, 0)),
}
# Rounded products and states go through a few steps; where gates saturate in between, less arrives.
_ERRORS = {
    "float64": Tolerance(16, terms=64),
    "float32": Tolerance(16, terms=64),
    "float16": Tolerance(2, terms=2.0**13),
    "bfloat16": Tolerance(2, terms=2.0**16),
}
# Those of TF32: products of numbers with 11 bits, off by as much as that on average.
_TF32_ERRORS = {"float32": Tolerance(16, terms=2.0**12)}


def _functions(names: list[str], alphas: list[float], betas: list[float]) -> list[Callable[[Any], Any]]:
    alphas, betas, made = list(alphas), list(betas), []
    for name in names:
        count, (alpha, beta), function = _FUNCTIONS[name]
        alpha = alphas.pop(0) if count > 0 and alphas else alpha
        beta = betas.pop(0) if count > 1 and betas else beta
        made.append(lambda x, f=function, a=alpha, b=beta: f(x, a, b))
    return made


def _cell(op: str, f: list[Any], x: Any, w: Any, r: Any, bias: Any, p: Any, h: Any, c: Any, attrs: Any) -> Any:
    """One step of one sequence: the new h and c."""
    size = h.size
    limit = attrs.get("clip", np.inf)
    wb, rb = bias[: bias.size // 2], bias[bias.size // 2 :]

    def gate(i: int, state: Any = h) -> Any:
        part = slice(i * size, (i + 1) * size)
        return w[part] @ x + wb[part] + r[part] @ state + rb[part]

    def clip(values: Any) -> Any:
        return np.clip(values, -limit, limit)

    if op == "RNN":
        return f[0](clip(gate(0))), c
    if op == "GRU":
        z, reset = f[0](clip(gate(0))), f[0](clip(gate(1)))
        if attrs.get("linear_before_reset", 0):
            hidden = w[2 * size :] @ x + wb[2 * size :] + reset * (r[2 * size :] @ h + rb[2 * size :])
        else:
            hidden = gate(2, reset * h)
        return (1 - z) * f[1](clip(hidden)) + z * h, c
    pi, po, pf = p.reshape(3, size)
    i = f[0](clip(gate(0) + pi * c))
    forget = 1 - i if attrs.get("input_forget", 0) else f[0](clip(gate(2) + pf * c))
    c = forget * c + i * f[1](clip(gate(3)))
    return f[0](clip(gate(1) + po * c)) * f[2](c), c


def _reference(op: str) -> Any:
    def run(x: Any, w: Any, r: Any, b: Any = None, lens: Any = None, h0: Any = None, c0: Any = None, p: Any = None,
            **attrs: Any) -> Any:  # fmt: skip
        swap = attrs.get("layout", 0) == 1
        if swap:
            x = x.transpose(1, 0, 2)
            h0, c0 = (None if s is None else s.transpose(1, 0, 2) for s in (h0, c0))
        steps, batch, _ = x.shape
        count, size = r.shape[0], r.shape[2]
        names = attrs.get("activations", _DEFAULTS[op] * count)
        made = _functions(names, attrs.get("activation_alpha", []), attrs.get("activation_beta", []))
        b = np.zeros((count, 2 * _GATES[op] * size)) if b is None else b
        p = np.zeros((count, 3 * size)) if p is None else p
        y, hs, cs = np.zeros((steps, count, batch, size)), *(np.zeros((count, batch, size)) for _ in range(2))
        for d in range(count):
            functions = made[d * len(_DEFAULTS[op]) :]
            back = attrs.get("direction", "forward") == "reverse" or d == 1
            for row in range(batch):
                h = np.zeros(size) if h0 is None else h0[d, row]
                c = np.zeros(size) if c0 is None else c0[d, row]
                length = steps if lens is None else int(lens[row])
                if length == 0:
                    continue
                for step in range(length):
                    at = length - 1 - step if back else step
                    h, c = _cell(op, functions, x[at, row], w[d], r[d], b[d], p[d], h, c, attrs)
                    y[at, d, row] = h
                hs[d, row], cs[d, row] = h, c
        if swap:
            y, hs, cs = y.transpose(2, 0, 1, 3), hs.transpose(1, 0, 2), cs.transpose(1, 0, 2)
        return (y, hs, cs) if op == "LSTM" else (y, hs)

    return run


def _size(*values: Any, **_: Any) -> Any:
    """What a state may be: results of saturated gates are off by no more than their inputs."""
    return 1.0


def _products(x: np.ndarray, w: np.ndarray, r: np.ndarray, *_: Any, **__: Any) -> Any:
    """What the errors of a step's products, each on its own, may add up to, of states up to 1."""
    norms = [np.sqrt(np.square(weights.astype(np.float64)).sum(-1)).max(initial=0) for weights in (w, r)]
    return norms[0] * np.abs(x).max(initial=0) + norms[1]


def _case(
    op: str, steps: int = 4, batch: int = 3, features: int = 5, hidden: int = 6, inputs: str = "", **more: Any
) -> Case:
    """A case with the optional inputs named: b(ias), l(engths), h, c, p."""
    attrs = {"hidden_size": hidden, **more.pop("attrs", {})} if hidden else more.pop("attrs", {})
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    bound = min(1, 2 / max(hidden, features, 1) ** 0.5)  # of weights: sums of some units
    gates, swap = _GATES[op], attrs.get("layout", 0) == 1
    lens = more.pop("lens", None)
    state = Rand((batch, count, hidden) if swap else (count, batch, hidden), low=-1, high=1)
    given = [
        Rand((batch, steps, features) if swap else (steps, batch, features), low=-1, high=1),
        Rand((count, gates * hidden, features), low=-bound, high=bound),
        Rand((count, gates * hidden, hidden), low=-bound, high=bound),
        Rand((count, 2 * gates * hidden), low=-1, high=1) if "b" in inputs else None,
        Of(lens, "int32") if lens is not None else None,
        state if "h" in inputs else None,
        state if "c" in inputs else None,
        Rand((count, 3 * hidden), low=-1, high=1) if "p" in inputs else None,
    ]
    while given[-1] is None:
        given.pop()
    more.setdefault("expected", _reference(op))
    more.setdefault("dtypes", ("float32",))
    more.setdefault("outputs", 3 if op == "LSTM" else 2)
    more.setdefault("opset", 22)
    more.setdefault("tolerance", _ERRORS)
    more.setdefault("magnitude", _size)
    name = more.pop("name", "") or f"{steps}x{batch}x{features}x{hidden}_{inputs}" + (
        f"_{'.'.join(map(str, lens))}" if lens is not None else "") + "".join(
        f",{key}={'.'.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in attrs.items() if key != "hidden_size")  # fmt: skip
    return Case(op=op, inputs=given, attrs=attrs, name=name, **more)


def _both(op: str, **more: Any) -> list[Case]:
    """Against the formulas, and against the CPU provider where it says what they leave open."""
    return [_case(op, **more), _case(op, expected="ort_cpu", name=more.pop("name", "") + "_as_cpu", **more)]


def _fused(op: str, **more: Any) -> list[Case]:
    """With constant weights: 16-bit floats, and fp32 where it may be TF32."""
    name, types = more.pop("name"), more.pop("dtypes", ("float32", "float16"))
    return [
        _case(op, constants=(2,), name=f"fused_{name}", dtypes=(dtype,), options={"use_tf32": 1},
              tolerance=_TF32_ERRORS if dtype == "float32" else _ERRORS,
              magnitude=_products if dtype == "float32" else _size, **more)
        for dtype in types
    ]  # fmt: skip


_ALL = {"LSTM": "bhcp", "GRU": "bh", "RNN": "bh"}
_VALUED = {
    "LSTM": ("HardSigmoid", "ScaledTanh", "Affine"),
    "GRU": ("HardSigmoid", "ScaledTanh"),
    "RNN": ("ScaledTanh",),
}
_DIRECTIONS = ("forward", "reverse", "bidirectional")

CASES = [
    # Every type and version, with everything there is.
    *(_case(op, inputs=_ALL[op], lens=[4, 2, 3], attrs={"direction": "bidirectional"}, dtypes=FLOATS, opset="7+",
            name="everything") for op in _GATES),
    *(_case(op, inputs=_ALL[op], opset=version, skip={"session": "no host runs opsets before 7"}, name="old",
            dtypes=("float32", "float16", "float64"))
      for op, versions in (("LSTM", (1,)), ("GRU", (1, 3)), ("RNN", (1,))) for version in versions),
    # Directions, layouts, lengths.
    *(_case(op, inputs="b", attrs={"direction": direction, "layout": layout}, lens=lens)
      for op in _GATES for direction in _DIRECTIONS for layout in (0, 1) for lens in (None, [2, 4, 1])),
    *(_case(op, inputs=_ALL[op], attrs={"layout": 1, "direction": "bidirectional"}, dtypes=("float32", "float16"))
      for op in _GATES),
    *(case for op in _GATES for case in _both(op, inputs=_ALL[op], lens=[0, 4, 2], name="a_sequence_of_nothing")),
    # Attributes.
    *(case for op in _GATES for case in _both(op, inputs=_ALL[op], attrs={"clip": 0.3}, name="clip")),
    *_both("LSTM", inputs="bhcp", attrs={"input_forget": 1}, name="input_forget"),
    *(_case("GRU", inputs="bh", attrs={"linear_before_reset": reset, "direction": direction}, lens=lens,
            dtypes=("float32", "float16"))
      for reset in (0, 1) for direction in ("forward", "bidirectional") for lens in (None, [3, 1, 4])),
    *(_case(op, inputs=_ALL[op], attrs={"activations": [name] * len(_DEFAULTS[op])}, dtypes=("float32", "float64"))
      for op in ("RNN",) for name in _FUNCTIONS),
    *(case for op in _GATES for case in _both(
        op, inputs="b", name="activations_with_values",
        attrs={"activations": [*_VALUED[op]], "activation_alpha": [0.3, 0.7, 0.9][: len(_VALUED[op])],
               "activation_beta": [0.4, 0.6, 0.1][: len(_VALUED[op])]})),
    _case("LSTM", inputs="b", name="values_go_to_those_that_have_them",
          attrs={"direction": "bidirectional",
                 "activations": ["Sigmoid", "LeakyRelu", "Tanh", "Elu", "Relu", "HardSigmoid"],
                 "activation_alpha": [0.2, 0.5], "activation_beta": [0.25]}),
    _case("GRU", inputs="b", attrs={"activations": ["sigmoid", "TANH"]}, expected="ort_cpu", name="names_in_any_case"),
    # Sizes.
    *(_case(op, steps=s, batch=b, features=f, hidden=h, inputs="b",
            dtypes=("float32", "float16") if h == 70 else ("float32",))
      for op in _GATES for s, b, f, h in [(1, 1, 1, 1), (3, 2, 4, 70), (2, 9, 3, 33)]),
    _case("LSTM", steps=2, batch=2, features=3, hidden=300, inputs="bh", name="a_row_of_two_blocks"),
    *(_case(op, steps=0, inputs="h" + ("c" if op == "LSTM" else ""), name="no_steps") for op in _GATES),
    *(_case(op, batch=0, name="no_batch") for op in _GATES),
    _case("LSTM", features=0, inputs="bhc", name="no_features"),
    # Steps of one launch: one row of the batch, rows of several tiles and lengths, units that fill no tile, each number
    # of weights in a thread; without them, the same weights.
    *(case for op in _GATES for case in [
        *_fused(op, batch=1, hidden=70, inputs="b", dtypes=("float32", "float16", "bfloat16"), name="one_row"),
        *_fused(op, steps=3, batch=33, hidden=18, inputs=_ALL[op], attrs={"direction": "bidirectional"},
                lens=[index % 4 for index in range(33)], name="rows_and_lengths"),
        *_fused(op, batch=5, hidden=9, inputs=_ALL[op], attrs={"direction": "reverse", "layout": 1, "clip": 0.5},
                name="layout"),
        *_fused(op, steps=2, batch=64, hidden=6, inputs="b", dtypes=("float32",), name="many_rows"),
        *_fused(op, steps=2, batch=65, hidden=6, inputs="b", dtypes=("float32",), name="too_many_rows"),
        *_fused(op, steps=2, batch=2, hidden=300, inputs="b", dtypes=("float32",), name="four_groups"),
        *_fused(op, batch=2, hidden=6, inputs="b", dtypes=("float32",), name="activations",
                attrs={"activations": [*_VALUED[op]], "activation_alpha": [0.3, 0.7, 0.9][: len(_VALUED[op])],
                       "activation_beta": [0.4, 0.6, 0.1][: len(_VALUED[op])]}),
        _case(op, batch=4, hidden=8, inputs="b", constants=(2,), name="constant_and_exact"),
    ]),
    *_fused("RNN", steps=2, batch=2, hidden=530, inputs="b", dtypes=("float32",), name="eight_groups"),
    *_fused("RNN", steps=2, batch=2, hidden=1040, inputs="b", dtypes=("float32",), name="too_many_units"),
    *_fused("LSTM", inputs="bhcp", attrs={"input_forget": 1}, name="input_forget"),
    *(case for lens in (None, [3, 1, 4]) for case in _fused(
        "GRU", hidden=18, inputs="bh", attrs={"linear_before_reset": 1, "direction": "bidirectional"}, lens=lens,
        dtypes=("float32", "float16", "bfloat16"), name=f"linear{'_lengths' if lens else ''}")),
    # Not every output.
    _case("LSTM", inputs="b", outputs=("", "T", ""), name="h_alone"),
    _case("LSTM", inputs="b", outputs=("", "", "T"), name="c_alone"),
    _case("GRU", inputs="b", outputs=1, name="y_alone"),
    # Refusals.
    *(Case(op=op, inputs=[Rand((4, 3, 5)), Rand((1, _GATES[op] * 6, 5)), Rand((1, _GATES[op] * 6, 6)), *more],
           dtypes=("float32",), outputs=2, attrs=attrs, error=("INVALID_ARGUMENT", text), name=f"refused_{text}")
      for op, more, attrs, text in [
          ("RNN", [], {"hidden_size": 6, "direction": "both"}, "direction is 'both'"),
          ("RNN", [], {"hidden_size": 5}, "attribute hidden_size is 5"),
          ("RNN", [], {"hidden_size": 6, "layout": 2}, "layout is 2"),
          ("RNN", [], {"hidden_size": 6, "clip": -1.0}, "clip is -1"),
          ("RNN", [], {"hidden_size": 6, "activations": ["Cosine"]}, "'Cosine'"),
          ("LSTM", [], {"hidden_size": 6, "activations": ["Tanh"]}, "activations has 1 names, 3 are needed"),
          ("LSTM", [Rand((1, 24))], {"hidden_size": 6}, "input B has shape [1,24], expected [1,48]"),
          ("GRU", [None, Of([4, 4], "int32")], {"hidden_size": 6}, "input sequence_lens has shape [2], expected [3]"),
          ("GRU", [None, None, Rand((3, 1, 6))], {"hidden_size": 6}, "input initial_h has shape [3,1,6]"),
          ("RNN", [], {"hidden_size": 6, "direction": "bidirectional"}, "input W has shape [1,6,5], expected [2,6,5]"),
      ]),
]  # fmt: skip
