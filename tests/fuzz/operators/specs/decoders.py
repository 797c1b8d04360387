"""com.microsoft's operators of newer decoders: linear attention and what is around it, rotations, repetition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op.cases import (
    causal_conv,
    gated_delta_net,
    inverse,
    linear_attention,
    linear_gates,
    matmul_bnb4,
    position_rotary,
    relative_bias,
)
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"
_RULES = ("linear", "gated", "delta", "gated_delta")
# States and results are sums of a few terms of about 1.
_SCALE = 4.0


def _near(d: Draw, dtype: str, shape: list[int], low: float = -1, high: float = 1) -> np.ndarray:
    return d.values(dtype, shape, low, high, specials=False)


def _halfway(kind: str) -> Tolerance | None:
    """The judge, too, computes in fp32 and rounds then: near the middle of two numbers of 16 bits either is right."""
    return None if kind == "float32" else Tolerance(1)


def _linear_attention(d: Draw) -> Node:
    kind, rule = d.type("T"), d.pick(_RULES)
    # The host wants states of its one type; windows of them it does not have.
    state = kind if d.chance(0.7) else d.type("S")
    kv_heads, groups = d.integer(1, 3), d.pick([1, 1, 2, 3])
    inverse_groups = d.chance(0.3)
    heads, kv_heads = (kv_heads, kv_heads * groups) if inverse_groups else (kv_heads * groups, kv_heads)
    batch, tokens, size, width = d.any(1, 3), d.any(0, 12), d.pick([1, 5, 8, 40, 64]), d.pick([1, 6, 16, 33])
    by_row, past = d.chance(0.4), d.chance(0.6)
    decay = [batch, tokens, kv_heads * (size if by_row else 1)]
    beta = [batch, tokens, d.pick([1, kv_heads])]
    bound = (2 / size) ** 0.5
    inputs = [
        _near(d, kind, [batch, tokens, heads * size]),
        _near(d, kind, [batch, tokens, kv_heads * size], -bound, bound),
        _near(d, kind, [batch, tokens, kv_heads * width]),
        _near(d, state, [batch, kv_heads, size, width]) if past else None,
        _near(d, kind, decay, -1, 0) if "gated" in rule else None,
        _near(d, kind, beta, 0.1, 1) if "delta" in rule else None,
    ]
    attrs: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule}
    if d.chance(0.3):
        attrs["scale"] = d.pick([0.25, 0.5])
    return Node(inputs, attrs, (True, True), scale=_SCALE, formula=linear_attention.expected)


def _gated_delta_net(d: Draw) -> Node:
    kind, rule, gates = d.type("T"), d.pick(_RULES), "float32"
    if d.chance(0.5):
        gates = kind
    k_heads, groups = d.integer(1, 3), d.integer(1, 2)
    heads, size, width = k_heads * groups, d.pick([1, 6, 8, 40]), d.pick([1, 5, 16])
    batch, tokens = d.any(1, 3), d.any(1, 6)
    count = batch * tokens
    by_row, packed, activation = d.chance(0.4), d.chance(0.3), d.pick(["none", "none", "softplus", "kda"])
    if by_row and size == 1:
        by_row = False
    activated = activation != "none" and "gated" in rule
    bound = (2 / size) ** 0.5
    parts: list[np.ndarray | None] = [
        _near(d, kind, [count, k_heads, size]), _near(d, kind, [count, k_heads, size], -bound, bound),
        _near(d, kind, [count, heads, width]),
    ]  # fmt: skip
    if packed:
        parts = [_near(d, kind, [count, 2 * k_heads * size + heads * width], -bound, bound), None, None]
    inputs = [
        *parts, None,
        _near(d, gates, [count, heads, *([size] if by_row else [])], -1, 0) if "gated" in rule else None,
        _near(d, gates, [count, heads], 0.1, 1) if "delta" in rule else None,
        _near(d, "float32", [batch, heads, width, size]),
        _near(d, "float32", [heads]) if activated else None, _near(d, "float32", [heads]) if activated else None,
    ]  # fmt: skip
    attrs: dict[str, Any] = {"update_rule": rule}
    if activated:
        attrs["gate_activation"] = activation
    if d.chance(0.3):
        attrs["qk_l2_norm"] = 1
    if d.chance(0.3) and "delta" in rule:
        attrs["beta_activation"] = "sigmoid"
    return Node(inputs, attrs, (True, True), scale=_SCALE, widen=False, tolerance=_halfway(kind),
                formula=gated_delta_net.expected)  # fmt: skip


def _causal_conv(d: Draw) -> Node:
    kind, last = d.type(), d.chance(0.4)
    batch, channels, length, taps = d.any(1, 3), d.any(1, 9), d.any(0, 20), d.integer(1, 5)
    dilation, past = d.integer(1, 3), d.chance(0.6)
    history = (taps - 1) * dilation
    shape = [batch, length, channels] if last else [batch, channels, length]
    state = [batch, history, channels] if last else [batch, channels, history]
    attrs = d.attrs(activation=["silu", "swish", "none", None])
    attrs |= {"channels_last": 1} if last else {}
    attrs |= {"dilation": dilation} if dilation > 1 or d.chance(0.2) else {}
    bias = _near(d, kind, [channels], -4, 4) if d.chance(0.5) else None
    inputs = [_near(d, kind, shape, -4, 4), _near(d, kind, [channels, 1, taps]), bias,
              _near(d, kind, state, -4, 4) if past else None]  # fmt: skip
    return Node(inputs, attrs, (True, True), scale=16.0, formula=causal_conv.expected)


def _gated_norm(d: Draw) -> Node:
    kind, columns = d.type(), d.any(1, 40)
    shape = [*d.dims(d.integer(0, 2), elems=32), d.integer(1, 4) * columns]
    attrs = d.attrs(activation=["silu", "swish", "sigmoid", None], epsilon=[1e-5, 1e-2, None])
    inputs = [_near(d, kind, shape, -4, 4), _near(d, kind, [columns], -4, 4), _near(d, kind, shape, -4, 4)]
    return Node([*inputs], attrs, scale=_SCALE, formula=linear_gates.norm)


def _gate(d: Draw) -> Node:
    kind, heads, with_b = d.type("T"), d.any(1, 40), d.chance(0.6)
    shape = [d.any(1, 3), d.any(0, 9), heads]
    b = [_near(d, kind, shape, -4, 4)] if with_b else []
    inputs = [_near(d, kind, shape, -4, 4), _near(d, "float32", [heads]), _near(d, "float32", [heads], -4, 4), *b]
    return Node([*inputs], {}, (True, True) if with_b else (True,), scale=_SCALE, widen=False,
                tolerance=_halfway(kind), formula=linear_gates.gates)  # fmt: skip


def _section_rotary(d: Draw) -> Node:
    kind, flat, heads = d.type("T"), d.chance(0.5), d.integer(1, 9)
    section = [d.integer(0, 3) for _ in range(3)]
    if sum(section) == 0:
        section[0] = 2
    rest = d.pick([0, 0, 4]) if flat else 0
    size, batch, rows = 2 * sum(section) + rest, d.any(1, 3), d.any(1, 6)
    attrs: dict[str, Any] = {"mrope_section": section, **d.attrs(interleaved=[0, 1, None], mrope_layout=[0, 1, None])}
    attrs |= {"num_heads": heads} if flat else {}
    attrs |= {"rotary_embedding_dim": size - rest} if rest else {}
    if d.chance(0.2):
        attrs["scale"] = d.pick([0.5, 2.0])
    shape = [batch, rows, heads * size] if flat else [batch, heads, rows, size]
    cache = [7, sum(section)]
    inputs = [d.values(kind, shape), d.values("int64", [3, batch, rows], 0, 6), _near(d, kind, cache),
              _near(d, kind, cache)]  # fmt: skip
    return Node([*inputs], attrs, scale=8.0, formula=position_rotary.rotated)


def _angle_rotary(d: Draw) -> Node:
    batch, rows, size, heads = d.any(1, 3), d.any(1, 6), d.any(1, 12), d.any(1, 9)
    shape = [batch, heads, rows, size]
    inputs = [_near(d, "float32", [batch, rows, size], -6, 6), *(_near(d, "float16", shape, -4, 4) for _ in range(4))]
    return Node([*inputs], {}, (True, True), scale=8.0, widen=False, formula=position_rotary.angles)


def _repetition(d: Draw) -> Node:
    batch, length, vocabulary = d.any(1, 4), d.any(1, 40), d.any(2, 9)
    ids = d.values("int64", [batch, length], 0, vocabulary - 1)
    return Node([ids, d.values("float32", [batch, vocabulary])], {"ngram_size": d.integer(1, 5)}, widen=False)


def _inverse(d: Draw) -> Node:
    kind, n = d.type(), d.any(1, 12)
    shape = [*d.dims(d.integer(0, 2), elems=8), n, n]
    # Far from singular, or every rounding would be seen.
    values = _near(d, kind, shape).astype(np.float64) + (n + 1) * np.eye(n)
    return Node([values.astype(_near(d, kind, [1]).dtype)], {}, scale=1.0, formula=inverse.inverse)


def _bnb4(d: Draw) -> Node:
    kind, k, n = d.type("T1"), d.pick([16, 24, 35, 64, 100]), d.integer(1, 20)
    block, transposed = d.pick([16, 32, 64, 128, 256]), d.chance(0.7)
    lead = d.dims(d.integer(1, 2), elems=24)
    inputs = [_near(d, kind, [*lead, k if transposed else n]), d.values("uint8", [(n * k + 1) // 2], 0, 255),
              _near(d, kind, [-(-n * k // block)], 0.1, 2)]  # fmt: skip
    attrs = {"K": k, "N": n, "block_size": block, "quant_type": d.pick([0, 1])}
    # Many rows meet weights that were rounded to 16 bits.
    rounded = {"float16": Tolerance(1, terms=2.0**13), "bfloat16": Tolerance(1, terms=2.0**16)}
    return Node([*inputs], attrs if transposed else {**attrs, "transB": 0}, scale=16.0, tolerance=rounded.get(kind),
                formula=matmul_bnb4.product)  # fmt: skip


def _relative_bias(d: Draw) -> Node:
    both, side, heads = d.integer(0, 1), d.integer(2, 40), d.any(0, 5)
    lengths = [np.array([d.any(0, 60)], np.int64) for _ in range(2)]
    attrs = {"max_distance": side // 2 + d.integer(1, 200), "is_bidirectional": both}
    return Node([d.values(d.type(), [side * (1 + both), heads]), *lengths], attrs, formula=relative_bias.bias)


def _gated_bias(d: Draw) -> Node:
    kind, heads, size, columns = d.type("T"), d.integer(1, 4), d.integer(1, 70), 2 * d.integer(1, 9)
    batch, steps = d.any(1, 3), d.any(1, 17)
    shape, offset = [batch, steps], []
    if d.chance(0.4):
        places = np.arange(batch * steps)
        padding = places % steps >= d.integer(0, steps)
        offset = [np.concatenate([places[~padding], places[padding]]).reshape(shape).astype(np.int32)]
        shape = [int((~padding).sum())]
    inputs = [_near(d, kind, [*shape, heads * size]), _near(d, kind, [heads * size]),
              _near(d, kind, [1, heads, steps, steps], -4, 4), _near(d, kind, [size, columns], -0.2, 0.2),
              _near(d, kind, [columns]), _near(d, kind, [1, heads, 1, 1]), *offset]  # fmt: skip
    return Node([*inputs], {"num_heads": heads}, scale=16.0, formula=relative_bias.gated)


SPECS = {
    (MICROSOFT, "RelativePositionBias"): _relative_bias,
    (MICROSOFT, "GatedRelativePositionBias"): _gated_bias,
    (MICROSOFT, "LinearAttention"): _linear_attention,
    (MICROSOFT, "GatedDeltaNet"): _gated_delta_net,
    (MICROSOFT, "CausalConvWithState"): _causal_conv,
    (MICROSOFT, "GatedRMSNorm"): _gated_norm,
    (MICROSOFT, "LinearAttentionGate"): _gate,
    (MICROSOFT, "MRotaryEmbedding"): _section_rotary,
    (MICROSOFT, "GemmaRotaryEmbedding"): _angle_rotary,
    (MICROSOFT, "NGramRepeatBlock"): _repetition,
    (MICROSOFT, "Inverse"): _inverse,
    (MICROSOFT, "MatMulBnb4"): _bnb4,
}
