"""com.microsoft's GroupQueryAttention: packing, rotation, caches, windows, caps, sinks, scores; judged in float64."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from .attention import HIDDEN
from .multi_head_attention import rows_first, small, split_heads, tiny
from .rotary_embedding import rotate


def _rotated(x: np.ndarray, at: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int) -> np.ndarray:
    """Heads first; `at` has the positions, [batch, rows]."""
    turned = rotate(x.swapaxes(1, 2), cos[at], sin[at], interleaved, 2 * cos.shape[1])
    return turned.swapaxes(1, 2)


def _weights(scores: np.ndarray, sink: np.ndarray | None) -> np.ndarray:
    top = scores.max(axis=-1, keepdims=True, initial=HIDDEN)
    extra = np.full((1, scores.shape[1], 1, 1), HIDDEN) if sink is None else sink.reshape(1, -1, 1, 1)
    top = np.maximum(top, extra)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(extra - top)
    return weights / np.where(total == 0, 1, total)


def _append(past: np.ndarray | None, new: np.ndarray, counts: np.ndarray, total: int) -> np.ndarray:
    """The present cache: each entry's past, its new rows, zeros."""
    capacity = max(total, past.shape[2] if past is not None else 0)
    present = np.zeros((*new.shape[:2], capacity, new.shape[3]))
    for entry, count in enumerate(counts):
        if past is not None:
            present[entry, :, :count] = past[entry, :, :count]
        present[entry, :, count : count + new.shape[2]] = new[entry]
    return present


def _both(
    q: np.ndarray, k: np.ndarray | None = None, v: np.ndarray | None = None, past_key: np.ndarray | None = None,
    past_value: np.ndarray | None = None, seqlens: Any = None, total_length: Any = None,
    cos: np.ndarray | None = None, sin: np.ndarray | None = None, ids: np.ndarray | None = None,
    bias: np.ndarray | None = None, sink: np.ndarray | None = None, k_scale: None = None, v_scale: None = None,
    q_norm: np.ndarray | None = None, k_norm: np.ndarray | None = None, num_heads: int = 1, kv_num_heads: int = 1,
    do_rotary: int = 0, rotary_interleaved: int = 0, local_window_size: int = -1, softcap: float = 0.0,
    scale: float = 0.0, smooth_softmax: int = 0, qk_output: int = 0, causal: int = 1,
    qk_norm_epsilon: float = 1e-6,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    if k is None or v is None:
        size = q.shape[2] // (num_heads + 2 * kv_num_heads)
        q, k, v = np.split(q, [num_heads * size, (num_heads + kv_num_heads) * size], 2)
    q, k, v = split_heads(q, num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    batch, rows, total = q.shape[0], q.shape[2], int(np.reshape(total_length, -1)[0])
    ends = np.reshape(seqlens, -1).astype(np.int64) + 1
    prompt = total == rows
    counts = np.zeros(batch, np.int64) if prompt else np.maximum(ends - rows, 0)
    if q_norm is not None and k_norm is not None:
        q, k = (x / np.sqrt(np.mean(x * x, -1, keepdims=True) + qk_norm_epsilon) * norm
                for x, norm in ((q, q_norm), (k, k_norm)))  # fmt: skip
    if do_rotary and cos is not None and sin is not None:
        at = counts[:, None] + np.arange(rows)
        if ids is not None:
            at = np.tile(ids.reshape(-1)[0] + np.arange(rows), (batch, 1)) if prompt else ids
        q, k = (_rotated(x, at, cos, sin, rotary_interleaved) for x in (q, k))
    present = _append(past_key, k, counts, total), _append(past_value, v, counts, total)
    keys, values = (np.repeat(x[:, :, :total], num_heads // kv_num_heads, 1) for x in present)
    factor = scale or 1 / np.sqrt(q.shape[3])
    scores = factor * (q @ keys.swapaxes(2, 3))
    strain = factor * (np.abs(q) @ np.abs(keys).swapaxes(2, 3))
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores, strain = scores + bias, strain + np.abs(bias)
    distance = np.arange(total) - (np.arange(rows)[:, None] + counts[:, None, None, None])
    seen = np.arange(total) < ends[:, None, None, None]
    if causal:
        seen = seen & (distance <= 0)
    if local_window_size > 0:
        seen = seen & (distance > -local_window_size)
    scores = np.where(seen, scores, HIDDEN)
    if sink is None and smooth_softmax:
        sink = np.zeros(num_heads)
    weights = _weights(scores, sink)
    # Rotated and normalised queries and keys are rounded to their type again.
    loss = strain * (4 if do_rotary or q_norm is not None else 0.25)
    worst = 1 + np.max(np.where(seen, loss, 0), axis=-1, keepdims=True, initial=0)
    shown = weights if qk_output == 2 else np.where(seen, scores, 0)
    size_of_shown = weights * worst if qk_output == 2 else 4 * loss
    turned = 8.0 if do_rotary or q_norm is not None else 0.0
    return (rows_first(weights @ values), *present, shown), (
        rows_first((weights @ np.abs(values)) * worst), turned, 0.0, size_of_shown)  # fmt: skip


def _expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


TYPES = ("float32", "float16", "bfloat16")
ALL = ("T", "T", "T")
WITH_SCORES = ("T", "T", "T", "T")
# A replay with the lengths of other entries asks for present rows that a reference of one length does not have.
_KEEPS = {"in_place": "rows behind the new ones keep what they held"}


def _case(*inputs: Input, name: str, outputs: Any = ALL, dtypes: Any = TYPES[:2], **attrs: Any) -> Case:
    skip = attrs.pop("skip", {})
    given = list(inputs)
    while given[-1] is None:
        given.pop()
    return Case(op="GroupQueryAttention", domain=MICROSOFT, opset=1, inputs=given, outputs=outputs, dtypes=dtypes,
                attrs={"num_heads": 4, "kv_num_heads": 2} | attrs, name=name, skip=skip,
                expected=_expected, magnitude=_magnitude)  # fmt: skip


def _lengths(seqlens: list[int], total: int) -> tuple[Input, Input]:
    return Of(seqlens, "int32"), Of([total], "int32")


def _refused(code: str, text: str, *inputs: Input, outputs: Any = ALL, **attrs: Any) -> Case:
    return Case(op="GroupQueryAttention", domain=MICROSOFT, opset=1, inputs=inputs, outputs=outputs,
                dtypes=("float32",), attrs={"num_heads": 4, "kv_num_heads": 2} | attrs, error=(code, text),
                name=text.replace(" ", "_"), skip={"session": "the host may refuse first"})  # fmt: skip


def _new(batch: int, rows: int, make: Any = small, size: int = 16) -> tuple[Input, Input, Input]:
    return make(batch, rows, 4 * size), make(batch, rows, 2 * size), Rand((batch, rows, 2 * size))


def _past(batch: int, rows: int, make: Any = small, size: int = 16) -> tuple[Input, Input]:
    return make(batch, 2, rows, size), Rand((batch, 2, rows, size))


NONE2 = (None, None)
CACHES = (Rand((20, 8), low=-1, high=1), Rand((20, 8), low=-1, high=1))
PROMPT = (*_new(2, 5), *NONE2, *_lengths([4, 4], 5))
DECODE = (*_new(2, 1), *_past(2, 9), *_lengths([8, 8], 9))
TURNED_PROMPT = (*_new(2, 5, tiny), *NONE2, *_lengths([4, 4], 5), *CACHES)
TURNED_DECODE = (*_new(2, 1, tiny), *_past(2, 9, tiny), *_lengths([8, 8], 9), *CACHES)
NORMS = (None, None, None, None, None, *(Rand((16,), low=0.5, high=1.5),) * 2)

CASES = [
    _case(*PROMPT, dtypes=TYPES, name="prompt"),
    _case(small(2, 5, 128), None, None, *NONE2, *_lengths([4, 4], 5), dtypes=TYPES, name="packed"),
    _case(*_new(2, 5), *NONE2, *_lengths([4, 2], 5), name="padded_prompt"),
    _case(*_new(2, 5), *_past(2, 12), *_lengths([4, 2], 5), name="prompt_into_cache", skip=_KEEPS),
    _case(*DECODE, dtypes=TYPES, name="decode"),
    _case(*_new(2, 1), *_past(2, 8), *_lengths([8, 8], 9), name="decode_apart"),
    _case(*_new(2, 1), *_past(2, 9), *_lengths([8, 3], 9), name="ragged", skip=_KEEPS),
    _case(*_new(2, 1), *_past(2, 14), *_lengths([8, 3], 9), name="room", skip=_KEEPS),
    _case(*_new(1, 3), *_past(1, 7), *_lengths([9], 10), name="chunk"),
    _case(*_new(1, 3), *_past(1, 10), *_lengths([9], 10), name="chunk_in_cache"),
    _case(*_new(1, 1, size=64), *_past(1, 600, size=64), *_lengths([599], 600), name="long"),
    _case(*_new(1, 70), *NONE2, *_lengths([69], 70), name="tiles", local_window_size=11),
    *(_case(*TURNED_PROMPT, name=f"turned{interleaved}", do_rotary=1, rotary_interleaved=interleaved, dtypes=TYPES)
      for interleaved in (0, 1)),
    _case(tiny(2, 5, 128), None, None, *NONE2, *_lengths([4, 4], 5), *CACHES, name="turned_packed", do_rotary=1),
    _case(*_new(2, 5, tiny, 32), *NONE2, *_lengths([4, 4], 5), *CACHES, name="turned_partly", do_rotary=1),
    _case(*TURNED_PROMPT, Of([[3, 9, 1, 0, 2], [4, 5, 6, 7, 8]], "int64"), name="turned_prompt_ids", do_rotary=1),
    _case(*TURNED_DECODE, name="turned_decode", do_rotary=1, dtypes=TYPES),
    _case(*TURNED_DECODE, Of([[3], [11]], "int64"), name="turned_decode_ids", do_rotary=1, rotary_interleaved=1),
    _case(*_new(1, 3, tiny), *_past(1, 7, tiny), *_lengths([9], 10), *CACHES, Of([[3, 9, 2]], "int64"),
          name="turned_chunk_ids", do_rotary=1),
    *(_case(*PROMPT, name="window" + str(window), local_window_size=window) for window in (1, 3)),
    _case(*DECODE, name="decode_window", local_window_size=4),
    _case(*PROMPT, name="cap", softcap=0.7, scale=0.4),
    _case(*PROMPT, name="smooth", smooth_softmax=1),
    _case(*PROMPT, *NONE2, None, None, Rand((4,)), dtypes=TYPES, name="sink"),
    _case(*DECODE, *NONE2, None, None, Rand((4,)), name="decode_sink"),
    _case(*_new(1, 1), *_past(1, 600), *_lengths([599], 600), *NONE2, None, None, Rand((4,)), name="long_sink"),
    *(_case(*PROMPT, *NONE2, None, Rand(shape), name="bias" + "x".join(map(str, shape)))
      for shape in ((2, 4, 5, 5), (1, 4, 5, 5), (2, 1, 5, 5))),
    _case(*DECODE, *NONE2, None, Rand((1, 1, 1, 9)), name="decode_bias"),
    _case(*PROMPT, name="both_ways", causal=0),
    *(_case(*PROMPT, *NONE2, None, Rand((2, 4, 5, 5)), Rand((4,)), name=f"scores{mode}", qk_output=mode, softcap=1.5,
            outputs=WITH_SCORES, dtypes=TYPES) for mode in (1, 2)),
    _case(*PROMPT, *NONE2, *NORMS, name="normal", dtypes=TYPES),
    _case(*DECODE, *CACHES, *NORMS, name="normal_turned", dtypes=TYPES, do_rotary=1, qk_norm_epsilon=0.125),
    _case(small(2, 5, 128), None, None, *NONE2, *_lengths([4, 4], 5), *CACHES, *NORMS, name="normal_packed",
          do_rotary=1, rotary_interleaved=1),
    *(_case(*_new(2, 3, size=size), *_past(2, 4, size=size), *_lengths([6, 6], 7), *NONE2, None, None, None, None, None,
            *(Rand((size,), low=0.5, high=1.5),) * 2, name=f"normal_size{size}") for size in (7, 96, 520)),
    _case(*_new(0, 1), *_past(0, 8), *_lengths([], 9), name="no_batch"),
    _refused("INVALID_ARGUMENT", "query [2,5,62]", Rand((2, 5, 62)), *PROMPT[1:]),
    _refused("INVALID_ARGUMENT", "must be [2,5,32]", small(2, 5, 64), Rand((2, 4, 32)), Rand((2, 4, 32)), *PROMPT[3:]),
    _refused("INVALID_ARGUMENT", "seqlens_k [3]", *_new(2, 5), *NONE2, *_lengths([4, 4, 4], 5)),
    _refused("INVALID_ARGUMENT", "past_key [2,2,9,8]", *_new(2, 1), *_past(2, 9, size=8), *_lengths([8, 8], 9)),
    _refused("INVALID_ARGUMENT", "total_sequence_length 12", *_new(2, 1), *_past(2, 9), *_lengths([8, 8], 12)),
    _refused("INVALID_ARGUMENT", "head_sink [3]", *PROMPT, *NONE2, None, None, Rand((3,))),
    _refused("INVALID_ARGUMENT", "attention_bias [2,4,5,4]", *PROMPT, *NONE2, None, Rand((2, 4, 5, 4))),
    _refused("INVALID_ARGUMENT", "cos_cache [20,9]", *PROMPT, Rand((20, 9)), Rand((20, 9)), do_rotary=1),
    _refused("INVALID_ARGUMENT", "position_ids [2,4]", *TURNED_PROMPT, Rand((2, 4), "int64"), do_rotary=1),
    _refused("INVALID_ARGUMENT", "k_norm_weight [15]", *PROMPT, *NONE2, *NORMS[:-1], Rand((15,))),
    _refused("INVALID_ARGUMENT", "come together", *PROMPT, *NONE2, *NORMS[:-1]),
    _refused("INVALID_ARGUMENT", "do_rotary needs", *PROMPT, do_rotary=1),
    _refused("INVALID_ARGUMENT", "must be a multiple", *PROMPT, kv_num_heads=3),
    _refused("INVALID_ARGUMENT", "local_window_size 0", *PROMPT, local_window_size=0),
    _refused("INVALID_ARGUMENT", "without causal", *PROMPT, local_window_size=2, causal=0),
    _refused("INVALID_ARGUMENT", "qk_output 1", *PROMPT, qk_output=1),
    _refused("NOT_SUPPORTED", "sliding_window_cache", *PROMPT, sliding_window_cache=1),
    _refused("NOT_SUPPORTED", "k_quant_type PER_TENSOR", *PROMPT, k_quant_type="PER_TENSOR"),
    _refused("NOT_SUPPORTED", "a cache of int8", *_new(2, 1), Rand((2, 2, 9, 16), "int8"), Rand((2, 2, 9, 16), "int8"),
             *_lengths([8, 8], 9)),
    _refused("NOT_SUPPORTED", "k_scale", *PROMPT, *NONE2, None, None, None, Rand((1,), "float32"),
             Rand((1,), "float32")),
]  # fmt: skip
