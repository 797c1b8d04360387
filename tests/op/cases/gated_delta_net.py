"""com.microsoft's GatedDeltaNet: packings, gates, offsets, captured transitions; judged in float64."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from .linear_attention import EXACTER, RULES, TYPES, steps


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gate(x: np.ndarray, a: Any, bias: Any, activation: str, bound: float) -> np.ndarray:
    """[tokens, heads, 1 or key size]"""
    if activation == "none":
        return x
    a, bias = a.reshape(-1, 1), bias.reshape(x.shape[1], -1)
    if activation in ("softplus", "qwen"):
        return -np.exp(a) * np.logaddexp(0, x + bias)
    return bound * _sigmoid(np.exp(a) * (x + bias))


def _length_one(x: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + epsilon)


def _both(
    query: np.ndarray, key: np.ndarray | None = None, value: np.ndarray | None = None, offsets: Any = None,
    decay: np.ndarray | None = None, beta: np.ndarray | None = None, state: np.ndarray | None = None,
    a_log: Any = None, dt_bias: Any = None, captured: Any = None, active: Any = None,
    update_rule: str = "gated_delta", scale: float = 0.0, chunk_size: int = 64, qk_l2_norm: int = 0,
    gate_activation: str = "none", beta_activation: str = "none", gate_lower_bound: float = -5.0,
    state_update_capacity: int = 0,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    del chunk_size, update_rule  # a hint; the inputs say it
    if key is None or value is None:
        assert state is not None
        heads, width, size = state.shape[1:]
        keys = (query.shape[-1] - heads * width) // 2
        tokens = query.shape[:-1]
        query, key, value = np.split(query, [keys, 2 * keys], -1)
        query, key = (x.reshape(*tokens, keys // size, size) for x in (query, key))
        value = value.reshape(*tokens, heads, width)
    result_shape = value.shape
    (k_heads, size), (heads, width) = query.shape[-2:], value.shape[-2:]
    count = int(np.prod(query.shape[:-2]))
    q, k = (x.reshape(count, k_heads, size) for x in (query, key))
    v = value.reshape(count, heads, width)
    if qk_l2_norm:
        epsilon = 1e-6 if gate_activation in ("sigmoid", "kda") else 1e-12
        q, k = _length_one(q, epsilon), _length_one(k, epsilon)
    one_key = k
    q, k = (np.repeat(x, heads // k_heads, 1) for x in (q, k))
    per_row = decay is not None and decay.size == count * heads * size and decay.ndim > value.ndim - 1
    gates = None
    if decay is not None:
        gates = _gate(decay.reshape(count, heads, size if per_row else 1), a_log, dt_bias, gate_activation,
                      gate_lower_bound)  # fmt: skip
    rates = beta.reshape(count, heads, 1) if beta is not None else None
    if rates is not None and beta_activation == "sigmoid":
        rates = _sigmoid(rates)
    batch = len(offsets) - 1 if offsets is not None else state.shape[0] if state is not None else 0
    ends = offsets if offsets is not None else np.arange(batch + 1) * (count // max(batch, 1))
    final = np.zeros((batch, heads, width, size))
    y, terms = np.zeros(v.shape), np.zeros(v.shape)
    capacity, widths = state_update_capacity, (heads * (size if per_row else 1), k_heads * size, heads * width)
    tables = [np.zeros((batch, capacity, n)) for n in widths]
    for entry in range(batch):
        first, end = np.clip(ends[entry : entry + 2], 0, count)
        at = slice(first, max(end, first))
        start = state[entry].swapaxes(-1, -2) if state is not None else np.zeros((heads, size, width))
        y[at], states, differences, terms[at] = steps(
            q[at], k[at], v[at], start, None if gates is None else gates[at], None if rates is None else rates[at],
            scale or 1 / np.sqrt(size),
        )  # fmt: skip
        final[entry] = (states[-1] if len(states) else start).swapaxes(-1, -2)
        if captured is not None and (active is None or active[0]):
            n = min(max(int(captured[entry]), 0), capacity, len(differences))
            decays = np.ones((count, heads)) if gates is None else np.exp(gates)
            for table, values in zip(tables, (decays[at], one_key[at], differences), strict=True):
                table[entry, :n] = values[:n].reshape(n, table.shape[-1])
    largest = np.where(np.isfinite(final), np.abs(final), 0).max(axis=(-1, -2), keepdims=True, initial=0)
    updates = np.concatenate([table.reshape(batch, capacity * n) for table, n in zip(tables, widths, strict=True)], 1)
    results = (y.reshape(result_shape), final, updates)
    return results, (terms.reshape(result_shape), np.broadcast_to(largest, final.shape), np.ones(updates.shape))


def expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


def _case(
    tokens: int | tuple[int, int], heads: tuple[int, int] = (2, 4), size: int = 8, width: int = 12,
    rule: str = "gated_delta", *, batch: int = 2, offsets: Any = None, packed: bool = False, row_decay: bool = False,
    state: bool = True, bias: tuple[int, ...] | None = None, gates: str = "T", captured: Any = None,
    active: int | None = None, outputs: int = 2, specials: tuple[int, ...] = (), dtypes: Any = ("float32",),
    **attrs: Any,
) -> Case:  # fmt: skip
    k_heads, v_heads = heads
    lead = (tokens,) if isinstance(tokens, int) else tokens
    bound = (2 / size) ** 0.5
    if captured is not None:
        outputs = 3
    inputs: list[Input] = [
        Rand((*lead, k_heads, size), low=-1, high=1, specials=0 in specials),
        Rand((*lead, k_heads, size), low=-bound, high=bound, specials=1 in specials),
        Rand((*lead, v_heads, width), low=-1, high=1, specials=2 in specials),
    ]
    if packed:
        inputs = [Rand((*lead, 2 * k_heads * size + v_heads * width), low=-bound, high=bound), None, None]
    activated = "gate_activation" in attrs
    inputs += [
        Of(offsets, "int32") if offsets is not None else None,
        Rand((*lead, v_heads, *((size,) if row_decay else ())), gates, low=-1, high=1 if activated else 0)
        if "gated" in rule else None,
        Rand((*lead, v_heads), gates, low=0.1, high=1) if "delta" in rule else None,
        Rand((batch, v_heads, width, size), "float32", low=-1, high=1) if state else None,
        Rand((v_heads,), "float32", low=-1, high=0.5) if activated else None,
        Rand(bias or (v_heads,), "float32", low=-1, high=1) if activated else None,
        Of(captured, "int32") if captured is not None else None,
        Of([active], "int32") if active is not None else None,
    ]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    named = [rule, "x".join(map(str, (*lead, *heads, size, width))), *(f"{k}={v}" for k, v in attrs.items())]
    flags = (("packed", packed), ("rows", row_decay), ("zeros", not state), ("offsets", offsets is not None),
             (f"gates_{gates}", gates != "T"), ("bias_" + "x".join(map(str, bias or ())), bias),
             (f"active_{active}", active is not None))  # fmt: skip
    named += [str(name) for name, on in flags if on]
    return Case(op="GatedDeltaNet", domain=MICROSOFT, opset=1, inputs=inputs, dtypes=dtypes, outputs=outputs,
                expected=expected, magnitude=_magnitude, tolerance=EXACTER, attrs={"update_rule": rule, **attrs},
                constants=(3,) if offsets is not None else (),
                name="-".join(named))  # fmt: skip


_BASE: list[Input] = [
    Rand((6, 2, 4)), Rand((6, 2, 4)), Rand((6, 4, 5)), None, Rand((6, 4)), Rand((6, 4)), Rand((2, 4, 5, 4)),
]  # fmt: skip


def _refused(text: str, *, code: str = "INVALID_ARGUMENT", attrs: Any = None, **changed: Input) -> Case:
    """The base case with inputs (`i3` is the fourth) changed."""
    inputs = [*_BASE, None, None, None, None]
    for name, spec in changed.items():
        inputs[int(name[1:])] = spec
    while inputs[-1] is None:
        inputs.pop()
    return Case(op="GatedDeltaNet", domain=MICROSOFT, opset=1, inputs=inputs, dtypes=("float32",), outputs=2,
                error=(code, text), attrs=attrs or {}, name=text.replace(" ", "_"),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


_RAGGED = [0, 2, 2, 9]

CASES = [
    *(_case(6, rule=rule, row_decay=rows, dtypes=TYPES)
      for rule in RULES for rows in ((False, True) if "gated" in rule else (False,))),
    *(_case((2, tokens), size=size, width=20) for tokens in (1, 7, 130) for size in (16, 128)),
    _case((2, 0)),
    _case(9, batch=3, offsets=_RAGGED, dtypes=TYPES),
    *(_case(9, batch=batch, offsets=part, dtypes=TYPES) for batch, part in ((2, [0, 3, 5]), (1, [2, 5]))),  # of all
    _case(9, batch=0, offsets=[0]),
    _case(9, batch=3, offsets=_RAGGED, state=False),
    _case(9, batch=3, offsets=_RAGGED, state=False, row_decay=True, rule="gated"),
    _case(6, packed=True, dtypes=TYPES),
    _case((2, 3), packed=True, row_decay=True),
    _case(9, packed=True, batch=3, offsets=_RAGGED, heads=(3, 3)),
    _case(6, heads=(1, 8), scale=0.7, chunk_size=32),
    _case(6, qk_l2_norm=1, dtypes=TYPES),
    _case(6, size=1, qk_l2_norm=1, gate_activation="kda", beta_activation="sigmoid", dtypes=TYPES),
    _case(6, qk_l2_norm=1, size=200, packed=True),
    *(_case(6, gate_activation=gate, row_decay=rows, bias=bias, gate_lower_bound=-3.0)
      for gate in ("softplus", "qwen", "sigmoid", "kda")
      for rows, bias in ((False, None), (True, None), (True, (4, 8)), (True, (32,)))),
    _case(6, gate_activation="softplus", beta_activation="sigmoid", dtypes=TYPES),
    _case(6, gate_activation="kda", beta_activation="sigmoid", gates="float32", row_decay=True, dtypes=TYPES),
    _case(6, rule="delta", beta_activation="sigmoid", gates="float32", dtypes=("float16",)),
    *(_case(9, batch=3, offsets=_RAGGED, rule=rule, row_decay=rows, captured=[1, 5, 4], state_update_capacity=3)
      for rule, rows in (("linear", False), ("delta", False), ("gated_delta", False), ("gated_delta", True))),
    *(_case(6, captured=[-1, 2], state_update_capacity=8, active=active, qk_l2_norm=1) for active in (0, 1)),
    _case(6, captured=[3, 2], state_update_capacity=2, width=150, size=32, dtypes=TYPES),
    *(_case(5, batch=1, heads=(2, 2), specials=(which,)) for which in (0, 1, 2)),
    _refused("update_rule 'x'", attrs={"update_rule": "x"}),
    _refused("input decay disagree", i4=None),
    _refused("input beta disagree", attrs={"update_rule": "gated"}),
    _refused("gate_activation 'x'", attrs={"gate_activation": "x"}),
    _refused("beta_activation 'x'", attrs={"beta_activation": "x"}),
    _refused("needs a_log and dt_bias", attrs={"gate_activation": "softplus"}),
    _refused("state_update_capacity 9 not in [0, 8]", attrs={"state_update_capacity": 9}),
    _refused("capture_count goes with", attrs={"state_update_capacity": 2}),
    _refused("capture_count goes with a positive", i9=Of([1, 1], "int32")),
    _refused("capture_count [3] must be [2]", i9=Of([1, 1, 1], "int32"), attrs={"state_update_capacity": 2}),
    _refused("key and value go together", i1=None),
    _refused("initial_state is needed", i6=None),
    _refused("initial_state [2,4,5,3] must be [2,4,5,4]", i6=Rand((2, 4, 5, 3))),
    _refused("must have one shape", i1=Rand((6, 4, 4))),
    _refused("must have the tokens of query", i2=Rand((5, 4, 5))),
    _refused("are no multiple of 2 heads", i2=Rand((6, 3, 5)), i6=Rand((2, 3, 5, 4))),
    _refused("6 tokens cannot be shared out to 4", i6=Rand((4, 4, 5, 4))),
    _refused("decay [6,3] must be", i4=Rand((6, 3))),
    _refused("beta [6,3] must be", i5=Rand((6, 3))),
    _refused("do not fit 4 heads", i7=Rand((3,)), i8=Rand((4,)), attrs={"gate_activation": "kda"}),
    _refused("packed query [6,15] does not fit", i0=Rand((6, 15)), i1=None, i2=None),
    _refused("more than 512", code="NOT_SUPPORTED", i0=Rand((6, 2, 520)), i1=Rand((6, 2, 520)),
             i6=Rand((2, 4, 5, 520))),
]  # fmt: skip
