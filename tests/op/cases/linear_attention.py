"""com.microsoft's LinearAttention: every rule, shared heads, states and windows of them; judged in float64, as the
host's CPU provider computes it where it has the types."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Rand, Tolerance
from ..harness.inputs import Input

TYPES = ("float32", "float16", "bfloat16")
RULES = ("linear", "gated", "delta", "gated_delta")
# Errors of a step stay in the state for some steps more.
STEPS = Tolerance(0.6, terms=64)
EXACTER = {name: STEPS for name in TYPES}


def steps(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, state: np.ndarray, decay: np.ndarray | None, beta: np.ndarray | None,
    scale: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """[tokens, heads, size] each (decays end with 1 or the key size), one queries' head for each result.

    Results, states after each token, what is added to them for the key, and sums of results without their signs.
    """
    heads = state.shape[0]
    groups = q.shape[1] // heads
    results, states, differences, sums = [], [], [], []
    for t in range(q.shape[0]):
        if decay is not None:
            state = state * np.exp(decay[t])[:, :, None]
        difference = v[t]
        if beta is not None:
            difference = beta[t] * (v[t] - np.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t][:, :, None] * difference[:, None, :]
        wide = np.repeat(state, groups, 0)
        results.append(scale * np.einsum("hkv,hk->hv", wide, q[t]))
        sums.append(abs(scale) * np.einsum("hkv,hk->hv", np.abs(wide), np.abs(q[t])))
        states.append(state)
        differences.append(difference)
    shapes = [(0, q.shape[1], v.shape[2]), (0, *state.shape), (0, *v.shape[1:]), (0, q.shape[1], v.shape[2])]
    return tuple(  # type: ignore[return-value]
        np.stack(values) if values else np.zeros(shape)
        for values, shape in zip((results, states, differences, sums), shapes, strict=True)
    )


def _both(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, past: np.ndarray | None = None,
    decay: np.ndarray | None = None, beta: np.ndarray | None = None, q_num_heads: int = 1, kv_num_heads: int = 1,
    update_rule: str = "gated_delta", scale: float = 0.0, state_window: int = 0, chunk_size: int = 64,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    del chunk_size  # a hint
    batch, tokens = query.shape[:2]
    size, width = query.shape[2] // q_num_heads, value.shape[2] // kv_num_heads
    scale = scale or 1 / np.sqrt(size)
    q = query.reshape(batch, tokens, q_num_heads, size)
    k = key.reshape(batch, tokens, key.shape[2] // size, size)
    v = value.reshape(batch, tokens, kv_num_heads, width)
    k = np.repeat(k, kv_num_heads // k.shape[2], 2)
    q = np.repeat(q, max(kv_num_heads // q_num_heads, 1), 2)
    gates = (
        decay.reshape(batch, tokens, kv_num_heads, decay.shape[2] // kv_num_heads)
        if decay is not None and "gated" in update_rule
        else None
    )
    rates = beta.reshape(*beta.shape, 1) if beta is not None and "delta" in update_rule else None
    slots = max(state_window, 1)
    present = np.zeros((slots, batch, kv_num_heads, size, width))
    results, sums = [], []
    for entry in range(batch):
        state = np.zeros(present.shape[2:])
        if past is not None:
            state = (past[slots - 1] if state_window else past)[entry]
        y, states, _, terms = steps(q[entry], k[entry], v[entry], state, None if gates is None else gates[entry],
                                    None if rates is None else rates[entry], scale)  # fmt: skip
        results.append(y)
        sums.append(terms)
        for back in range(min(slots, tokens)):
            present[slots - 1 - back, entry] = states[tokens - 1 - back]
        if tokens == 0:
            present[slots - 1, entry] = state
    shape = (batch, tokens, max(q_num_heads, kv_num_heads) * width)
    y, terms = (np.array(values).reshape(shape) for values in (results, sums))
    present = present if state_window else present[0]
    # Of a state, what the largest of the head may lose.
    finite = np.where(np.isfinite(present), np.abs(present), 0)
    largest = finite.max(axis=(-1, -2), keepdims=True, initial=0)
    return (y, present), (terms, np.broadcast_to(largest, present.shape))


def expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


def _case(
    heads: tuple[int, int], tokens: int, size: int, width: int, rule: str = "gated_delta", *, batch: int = 2,
    k_heads: int = 0, past: str = "T", row_decay: bool = False, one_beta: bool = False, dtypes: Any = TYPES,
    specials: tuple[int, ...] = (), **attrs: Any,
) -> Case:  # fmt: skip
    q_heads, kv_heads = heads
    window = attrs.get("state_window", 0)
    state = (*([window] if window else []), batch, kv_heads, size, width)
    bound = (2 / size) ** 0.5  # keys are about as long as the delta rule wants them
    inputs: list[Input] = [
        Rand((batch, tokens, q_heads * size), low=-1, high=1, specials=0 in specials),
        Rand((batch, tokens, (k_heads or kv_heads) * size), low=-bound, high=bound, specials=1 in specials),
        Rand((batch, tokens, kv_heads * width), low=-1, high=1, specials=2 in specials),
        Rand(state, past, low=-1, high=1) if past else None,
        Rand((batch, tokens, kv_heads * (size if row_decay else 1)), low=-1, high=0) if "gated" in rule else None,
        Rand((batch, tokens, 1 if one_beta else kv_heads), low=0.1, high=1) if "delta" in rule else None,
    ]
    while inputs[-1] is None:
        inputs.pop()
    named = [rule, f"{batch}x{tokens}x{q_heads}_{kv_heads}x{size}_{width}", *(f"{k}={v}" for k, v in attrs.items())]
    named += [name for name, on in (("rows", row_decay), ("one_beta", one_beta), ("keys", k_heads)) if on]
    named += [f"past_{past or 'none'}"] if past != "T" else []
    return Case(op="LinearAttention", domain=MICROSOFT, opset=1, inputs=inputs, dtypes=dtypes, expected=expected,
                magnitude=magnitude, outputs=("T", past or "T"), tolerance=EXACTER,
                attrs={"q_num_heads": q_heads, "kv_num_heads": kv_heads, "update_rule": rule, **attrs},
                name="-".join(named))  # fmt: skip


def _refused(text: str, *shapes: tuple[int, ...] | None, code: str = "INVALID_ARGUMENT", **attrs: Any) -> Case:
    return Case(op="LinearAttention", domain=MICROSOFT, opset=1, dtypes=("float32",), outputs=2,
                inputs=[None if shape is None else Rand(shape) for shape in shapes], error=(code, text),
                attrs={"q_num_heads": 2, "kv_num_heads": 2, **attrs}, name=text.replace(" ", "_"),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


_FULL = [(1, 3, 8), (1, 3, 8), (1, 3, 10), None, (1, 3, 2), (1, 3, 2)]


def _without(index: int, shape: tuple[int, ...] | None) -> list[tuple[int, ...] | None]:
    return [*_FULL[:index], shape, *_FULL[index + 1 :]]


_F32 = ("float32",)

CASES = [
    *(_case(heads, 7, 16, 20, rule, row_decay=rows)
      for rule in RULES for rows in ((False, True) if "gated" in rule else (False,))
      for heads in ((2, 2), (4, 2), (2, 4))),
    *(_case((2, 2), tokens, 32, 24, rule, past=past, dtypes=_F32)
      for rule in RULES for tokens in (0, 1, 7, 130) for past in ("T", "")),
    # each width of the keys that has a tile of its own, and sizes that fill none
    *(_case((2, 2), 5, size, width, row_decay=rows, dtypes=_F32)
      for size, width in ((1, 1), (5, 3), (64, 64), (128, 128), (100, 70), (256, 40), (512, 12), (300, 9))
      for rows in (False, True)),
    _case((4, 4), 20, 128, 128, batch=1),
    _case((4, 4), 1, 128, 128, batch=3),
    _case((2, 4), 9, 8, 8, k_heads=2),
    _case((1, 4), 9, 8, 8, k_heads=1, dtypes=_F32),
    _case((8, 1), 9, 8, 8, dtypes=_F32),
    _case((2, 2), 9, 8, 8, one_beta=True),
    _case((1, 1), 9, 8, 8, "delta", one_beta=True, dtypes=_F32),
    _case((2, 2), 9, 8, 8, scale=0.3, chunk_size=16, dtypes=_F32),
    # states of another type than the rest
    *(_case((2, 2), 9, 16, 8, past=past) for past in ("float32", "float16", "bfloat16")),
    # windows: longer than the tokens, shorter, of one slot, and of a call without tokens
    *(_case((2, 2), tokens, 8, 12, state_window=window, past=past, dtypes=_F32)
      for tokens in (0, 1, 3, 12) for window in (1, 4, 8) for past in ("T", "")),
    _case((2, 2), 3, 8, 12, state_window=4),
    # infinite and unknown numbers stay where they are: a query in its result, a key in its head, a value in its column
    *(_case((2, 2), 5, size, 12, rule, specials=(which,), dtypes=_F32)
      for which in (0, 1, 2) for size, rule in ((8, "linear"), (32, "gated"))),
    _case((2, 2), 5, 8, 4, batch=0, dtypes=_F32),
    _refused("past_state", *_without(3, (1, 2, 4, 4))),
    _refused("past_state", *_without(3, (1, 2, 4, 5)), state_window=2),
    _refused("decay [1,3,3]", *_without(4, (1, 3, 3))),
    _refused("beta [1,3,4]", *_without(5, (1, 3, 4))),
    _refused("needs decay", *_without(4, None)),
    _refused("needs beta", *_FULL[:5]),
    _refused("update_rule 'other'", *_FULL, update_rule="other"),
    _refused("one a multiple of the other", *_FULL, q_num_heads=3),
    _refused("state_window 9", *_FULL, state_window=9),
    _refused("must be [batch, tokens, heads * size]", *_without(1, (1, 4, 8))),
    _refused("do not have 2 and 2 heads", *_without(2, (1, 3, 9))),
    _refused("does not have heads of 4 elements", *_without(1, (1, 3, 12))),
    _refused("more than 512", (1, 1, 1026), (1, 1, 1026), (1, 1, 2), None, (1, 1, 2), (1, 1, 2),
             code="NOT_SUPPORTED"),
]  # fmt: skip
