"""Attention and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op.cases import group_query_attention, multi_head_attention
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"


def _attention(d: Draw) -> Node:
    kind = d.type("T1")
    groups, kv_heads = d.pick([1, 1, 2, 3]), d.integer(1, 3)
    heads, size = groups * kv_heads, d.pick([1, 4, 7, 8, 16, 40])
    v_size = size if d.chance(0.6) else d.integer(1, 9)
    batch, queries, keys = d.any(1, 3), d.any(1, 9), d.any(1, 12)
    past = d.any(1, 5) if d.chance(0.3) else 0
    flat = d.chance(0.35)
    attrs: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": kv_heads} if flat else {}
    attrs.update(d.attrs(is_causal=[0, 0, 1, None]))
    if d.chance(0.3):
        # Others take its root in float32.
        attrs["scale"] = d.pick([0.0625, 0.25, 1.0]) if kind == "float64" else d.real(0.1, 1)
    if d.chance(0.2):
        attrs["softcap"] = d.real(0.5, 3)

    def rows(many: int, length: int, width: int) -> np.ndarray:
        shape = [batch, length, many * width] if flat else [batch, many, length, width]
        return d.values(kind, shape, -2, 2, specials=False)

    total = keys + past
    mask = None
    if d.chance(0.4):
        shape = d.pick([(queries, total), (1, queries, total), (heads, queries, total), (batch, 1, queries, total)])
        if len(shape) == 3 and d.version < 24:
            shape = (queries, total)
        mask_kind = d.pick([kind, "bool"])
        if mask_kind == "bool":  # the first key stays: of a row without any, what is left is open
            mask = d.free.random(shape) < 0.7
            mask[..., 0] = True
        else:
            mask = d.values(mask_kind, shape, -2, 2, specials=False)
    before: list[np.ndarray | None] = [None, None]
    if past:
        before = [d.values(kind, (batch, kv_heads, past, width), -2, 2, specials=False) for width in (size, v_size)]
    lengths = None
    if d.version >= 24 and not past and d.chance(0.2) and queries <= keys:
        lengths = d.free.integers(queries, keys, batch, endpoint=True).astype(np.int64)
    outputs = (True, True, True) if past else (True,)
    if d.chance(0.15):
        attrs["qk_matmul_output_mode"] = d.integer(0, 2)
        outputs = (*outputs, *(False,) * (3 - len(outputs)), True)
    inputs = [rows(heads, queries, size), rows(kv_heads, keys, size), rows(kv_heads, keys, v_size), mask, *before]
    return Node([*inputs, lengths], attrs, outputs, scale=4.0)


def _rotary(d: Draw) -> Node:
    dtype = d.type("T")
    batch, heads, length = d.any(1, 3), d.integer(1, 4), d.any(1, 7)
    own = d.row.domain == ""
    width = 2 * d.integer(1, 6)
    size = width if not own or d.chance(0.6) else width + 2 * d.integer(1, 3)
    flat = d.chance(0.4)
    attrs = d.attrs(interleaved=[0, 1, None])
    if size != width:
        attrs["rotary_embedding_dim"] = width
    if flat:
        attrs["num_heads"] = heads
    x = d.small(dtype, [batch, length, heads * size] if flat else [batch, heads, length, size])
    table = d.any(length, length + 9)
    if own and d.chance(0.4):
        return Node([x, *(d.small(dtype, (batch, length, width // 2)) for _ in range(2))], attrs)
    ids = d.free.integers(0, table, (batch, length)).astype(np.int64)
    if not own and d.chance(0.4):
        ids = np.array([d.any(0, table - length)], np.int64)
    caches = [d.small(dtype, (table, width // 2)) for _ in range(2)]
    return Node([x, *caches, ids] if own else [x, ids, *caches], attrs)


# The sum with the bias is rounded before scores are taken of it.
_BIASED = {"float16": Tolerance(2, terms=2.0**15), "bfloat16": Tolerance(2, terms=2.0**18)}


def _multi_head(d: Draw) -> Node:
    dtype = d.type("T")
    batch, heads, size = d.any(1, 3), d.integer(1, 4), d.pick([2, 4, 8, 16])
    v_size = size if d.chance(0.7) else d.integer(1, 9)
    queries, keys = d.any(1, 8), d.any(1, 9)
    past = d.any(1, 6) if d.chance(0.25) else 0
    attrs: dict[str, Any] = {"num_heads": heads, **d.attrs(unidirectional=[0, 0, 1, None])}
    if attrs.get("unidirectional"):
        keys = queries
    if d.chance(0.3):
        attrs["scale"] = d.real(0.1, 1)

    def rows(length: int, width: int) -> np.ndarray:
        return d.values(dtype, [batch, length, heads * width], -2, 2, specials=False)

    bias = d.small(dtype, [heads * (2 * size + v_size)]) if d.chance(0.4) else None
    padding = None
    if d.chance(0.2) and not attrs.get("unidirectional") and not past:
        padding = d.free.integers(1, keys, batch, endpoint=True).astype(np.int32)
    added = None
    if d.chance(0.3):
        added = d.values(dtype, [d.pick([1, batch]), d.pick([1, heads]), queries, keys + past], -2, 2, specials=False)
    before: list[np.ndarray | None] = []
    if past:
        before = [d.values(dtype, (batch, heads, past, width), -2, 2, specials=False) for width in (size, v_size)]
    inputs = [rows(queries, size), rows(keys, size), rows(keys, v_size), bias, padding, added, *before]
    # The CPU provider has no past with heads of another size for values, and none in bfloat16.
    return Node(inputs, attrs, (True, True, True) if past else (True,), scale=4.0,
                formula=_multi_head_formula if past else None,
                tolerance=_BIASED.get(dtype) if bias is not None else None)  # fmt: skip


def _multi_head_formula(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return multi_head_attention._expected(*inputs, **attrs)[:3]


def _group_query(d: Draw) -> Node:
    """Prompts, decoded tokens with caches of any room, and chunks; heads normalised, turned or as they are."""
    dtype = d.type("T")
    groups, kv_heads, size = d.pick([1, 2, 3]), d.integer(1, 3), d.pick([16, 32])
    heads, form = groups * kv_heads, d.pick(["prompt", "decode", "decode", "chunk"])
    batch = 1 if form == "chunk" else d.any(1, 3)
    rows = 1 if form == "decode" else d.any(2, 8)
    before = 0 if form == "prompt" else d.any(1, 12)
    total = before + rows
    capacity = before + (d.any(rows, rows + 5) if d.chance(0.5) else 0)  # one that past and present may share, or not
    ends = np.full(batch, total - 1, np.int32)
    if form == "decode" and d.chance(0.4):
        ends = np.minimum(ends, d.free.integers(0, total, batch)).astype(np.int32)
        ends[d.any(0, batch - 1)] = total - 1
    attrs: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv_heads}
    if d.chance(0.3):
        attrs["scale"] = d.real(0.1, 1)
    if d.chance(0.2):
        attrs["softcap"] = d.real(0.5, 3)
    if d.chance(0.3):
        attrs["local_window_size"] = d.integer(1, 9)
    if d.chance(0.2):
        attrs["smooth_softmax"] = 1
    turns = d.chance(0.4)
    if turns:
        attrs.update(do_rotary=1, **d.attrs(rotary_interleaved=[0, 1, None]))

    def values(*shape: int) -> np.ndarray:
        return d.values(dtype, shape, -1, 1, specials=False)

    packed = d.chance(0.25)
    q = values(batch, rows, (heads + 2 * kv_heads if packed else heads) * size)
    k, v = (None, None) if packed else (values(batch, rows, kv_heads * size), values(batch, rows, kv_heads * size))
    past = [None, None] if form == "prompt" else [values(batch, kv_heads, capacity, size) for _ in range(2)]
    table = d.any(total, total + 9)
    cos, sin = (values(table, size // 2), values(table, size // 2)) if turns else (None, None)
    ids = None
    if turns and d.chance(0.3):
        start = d.any(0, table - rows)
        ids = np.tile(np.arange(start, start + rows, dtype=np.int64), (batch, 1))
    added = values(d.pick([1, batch]), d.pick([1, heads]), rows, total) if d.chance(0.25) else None
    sink = values(heads) if d.chance(0.2) and "smooth_softmax" not in attrs else None
    norms = (
        [None, None, *(d.values(dtype, (size,), 0.5, 1.5, specials=False) for _ in range(2))] if d.chance(0.15) else []
    )
    lengths = [ends, np.array([total], np.int32)]
    inputs = [q, k, v, *past, *lengths, cos, sin, ids, added, sink, *norms]
    # Turned and normalised heads are rounded again; the rows of a cache that nobody reads are the formula's.
    return Node(inputs, attrs, (True, True, True), scale=4.0, formula=_group_query_formula,
                tolerance=_BIASED.get(dtype) if turns or norms else None)  # fmt: skip


def _group_query_formula(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return group_query_attention._expected(*inputs, **attrs)[:3]


def _packed(d: Draw) -> Node:
    """com.microsoft's Attention: queries, keys and values by one product."""
    dtype = d.type("T")
    batch, length, heads, size = d.any(1, 3), d.any(1, 8), d.integer(1, 4), d.pick([2, 4, 8])
    width, features = heads * size, d.integer(1, 12)
    attrs: dict[str, Any] = {"num_heads": heads, **d.attrs(unidirectional=[0, 1, None])}
    if d.chance(0.3):
        attrs["scale"] = d.real(0.1, 1)
    mask = None
    if d.chance(0.3) and not attrs.get("unidirectional"):  # the first key stays
        if d.chance(0.5):
            mask = d.free.integers(1, length, batch, endpoint=True).astype(np.int32)
        else:
            mask = (d.free.random((batch, length)) < 0.7).astype(np.int32)
            mask[:, 0] = 1
    added = None
    if d.chance(0.3):
        added = d.values(dtype, [d.pick([1, batch]), d.pick([1, heads]), length, length], -2, 2, specials=False)
    inputs = [d.small(dtype, [batch, length, features]), d.small(dtype, [features, 3 * width]),
              d.small(dtype, [3 * width]), mask, None, added]  # fmt: skip
    return Node(inputs, attrs, scale=4.0, tolerance=_BIASED.get(dtype))


SPECS = {
    ("", "Attention"): _attention,
    ("", "RotaryEmbedding"): _rotary,
    (MICROSOFT, "RotaryEmbedding"): _rotary,
    (MICROSOFT, "MultiHeadAttention"): _multi_head,
    (MICROSOFT, "Attention"): _packed,
    (MICROSOFT, "GroupQueryAttention"): _group_query,
}
