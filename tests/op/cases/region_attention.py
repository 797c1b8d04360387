"""Attention of compiled regions: rows of heads normalised, rotated and appended, of three tensors or of one."""

import math
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN
from .attention import softmax
from .rotary_embedding import rotate_each

_TYPES = ("float32", "float16", "bfloat16")


def _heads(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, math.prod(x.shape[2:]) // heads).swapaxes(1, 2)


def _parts(
    q: np.ndarray, k: np.ndarray | None, v: np.ndarray | None, heads: int, kv_heads: int, size: int, by_head: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if by_head:
        return tuple(np.split(_heads(q, heads), [size, 2 * size], -1))
    if k is None or v is None:
        q, k, v = np.split(q, [heads * size, (heads + kv_heads) * size], -1)
    return _heads(q, heads), _heads(k, kv_heads), _heads(v, kv_heads)


def _both(
    q: np.ndarray, k: np.ndarray | None = None, v: np.ndarray | None = None, mask: np.ndarray | None = None,
    past_key: np.ndarray | None = None, past_value: np.ndarray | None = None, cos: np.ndarray | None = None,
    sin: np.ndarray | None = None, q_norm: np.ndarray | None = None, k_norm: np.ndarray | None = None,
    q_num_heads: int = 1, kv_num_heads: int = 1, head_size: int = 0, scale: float | None = None,
    norm_epsilon: float = 1e-5, empty_is_nan: int = 0, heads_apart: int = 0, mask_repeats: int = 0,
    rotary_interleaved: int = 0, packed_by_head: int = 0, norm_last: int = 0,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    """The outputs and their magnitudes."""
    q, k, v = _parts(q, k, v, q_num_heads, kv_num_heads, head_size, packed_by_head)

    def normalised(x: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        if weights is None:
            return x
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + norm_epsilon) * weights

    def rotated(x: np.ndarray) -> np.ndarray:
        if cos is None or sin is None:
            return x
        tables = (table.reshape(table.shape[0], 1, x.shape[2], table.shape[-1]) for table in (cos, sin))
        return rotate_each(x, *tables, rotary_interleaved)

    q, k = (
        normalised(rotated(x), weights) if norm_last else rotated(normalised(x, weights))
        for x, weights in ((q, q_norm), (k, k_norm))
    )
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    if mask is not None and mask_repeats:
        mask = mask[np.arange(q.shape[0]) % mask.shape[0]]
    keys, values = (np.repeat(x, q_num_heads // kv_num_heads, 1) for x in (k, v))
    scores = scale * (q @ keys.swapaxes(2, 3)) + (0 if mask is None else mask)
    weights = softmax(scores)
    if empty_is_nan:
        weights = np.where(np.isneginf(scores).all(-1, keepdims=True), np.nan, weights)
    strain = abs(scale) * (np.abs(q) @ np.abs(keys).swapaxes(2, 3))
    # Errors of scores are factors of the weights; queries and keys may be rounded before they meet.
    worst = 1 + np.max(strain, axis=-1, keepdims=True, initial=0)
    y, size = weights @ values, np.nan_to_num(weights) @ np.abs(values) * worst
    y, size = y.swapaxes(1, 2), size.swapaxes(1, 2)
    if not heads_apart:
        y, size = (x.reshape(*x.shape[:2], x.shape[2] * x.shape[3]) for x in (y, size))
    # Neither half of a rotated pair is small because both terms cancel.
    rotated = np.abs(k) if cos is None else np.maximum(np.abs(k), np.max(np.abs(k), -1, keepdims=True, initial=0))
    return (y, k, v), (size, rotated, 0.0)


def _expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


def _case(
    name: str, batch: int = 2, rows: int = 3, heads: int = 4, kv_heads: int = 2, size: int = 16, v_size: int = 0,
    packed: bool = False, apart: bool = False, mask: Input = None, past: int | None = None,
    cache: tuple[int, ...] | None = None, norms: bool = False, outputs: Any = ("T", "T", "T"),
    dtypes: tuple[str, ...] = ("float32", "float16"), **attrs: Any,
) -> Case:  # fmt: skip
    v_size = v_size or size

    def part(count: int, each: int) -> Input:
        return Rand((batch, rows, count, each) if apart else (batch, rows, count * each), low=-2, high=2)

    inputs: list[Input] = [part(heads, size), part(kv_heads, size), part(kv_heads, v_size), mask]
    if packed:
        row = (heads + kv_heads) * size + kv_heads * v_size
        inputs[:3] = Rand((batch, rows, row), low=-2, high=2), None, None
        attrs["head_size"] = size
        if apart:
            inputs[0] = Rand((batch, rows, heads, row // heads), low=-2, high=2)
    sizes = (size, v_size)
    inputs += [None if past is None else Rand((batch, kv_heads, past, each), low=-2, high=2) for each in sizes]
    inputs += [None if cache is None else Rand(cache, low=-1, high=1)] * 2
    inputs += [Rand((size,), low=0.5, high=1.5) if norms else None] * 2
    while inputs[-1] is None:
        inputs.pop()
    return Case(op="Attention", domain=FUSED_DOMAIN, inputs=inputs, outputs=outputs, name=name, dtypes=dtypes,
                attrs={"q_num_heads": heads, "kv_num_heads": kv_heads} | attrs, expected=_expected,
                magnitude=_magnitude)  # fmt: skip


def _refused(text: str, *inputs: Input, code: str = "INVALID_ARGUMENT", **attrs: Any) -> Case:
    return Case(op="Attention", domain=FUSED_DOMAIN, inputs=inputs, dtypes=("float32",), name=text.replace(" ", "_"),
                attrs={"q_num_heads": 4, "kv_num_heads": 2} | attrs, error=(code, text))  # fmt: skip


_EMPTY = np.zeros((2, 1, 3, 3))
_EMPTY[1, 0, 2] = -np.inf
_Q, _KV = Rand((2, 3, 64)), Rand((2, 3, 32))

CASES = [
    _case("plain", outputs=1, dtypes=_TYPES),
    _case("rotated", outputs=1, cache=(1, 1, 3, 16), dtypes=_TYPES),
    _case("a-step", rows=1, past=9, cache=(2, 1, 1, 16), dtypes=_TYPES),
    _case("a-step-of-one-product", rows=1, past=9, cache=(1, 1, 1, 16), packed=True, dtypes=_TYPES),
    _case("present-without-past", cache=(1, 3, 16)),
    _case("present-without-rotation", past=5),
    _case("no-present", past=5, cache=(2, 1, 3, 16), outputs=1),
    _case("only-values-leave", past=5, cache=(2, 1, 3, 16), outputs=("T", "", "T")),
    _case("only-keys-leave", cache=(2, 1, 3, 16), outputs=("T", "T")),
    _case("nothing-past", past=0, cache=(2, 1, 3, 16)),
    _case("norms", norms=True, past=5, cache=(1, 3, 16), dtypes=_TYPES),
    _case("norms-alone", norms=True, outputs=1, norm_epsilon=0.25),
    _case("norms-of-one-product", norms=True, packed=True, past=2, cache=(1, 3, 16)),
    _case("norms-last", norms=True, norm_last=1, past=5, cache=(1, 3, 16), norm_epsilon=0.25, dtypes=_TYPES),
    _case("norms-last-of-some-rotated", norms=True, norm_last=1, size=40, past=5, cache=(2, 1, 3, 16),
          rotary_interleaved=1),
    _case("norms-last-of-odd-sizes", norms=True, norm_last=1, rows=1, size=10, past=70, cache=(1, 1, 6)),
    _case("norms-last-without-rotation", norms=True, norm_last=1, past=5),
    _case("heads-apart", apart=True, norms=True, past=5, cache=(1, 3, 1, 16)),
    _case("heads-stay-apart", past=5, cache=(1, 3, 16), v_size=24, heads_apart=1),
    _case("partly-rotated", size=40, past=5, cache=(1, 3, 16)),
    _case("neighbours-rotated", past=5, cache=(2, 1, 3, 16), rotary_interleaved=1, dtypes=_TYPES),
    _case("a-step-of-neighbours", rows=1, past=9, cache=(1, 1, 1, 16), packed=True, rotary_interleaved=1),
    _case("neighbours-partly-rotated", size=40, norms=True, past=5, cache=(1, 3, 16), rotary_interleaved=1),
    _case("packed-by-head", kv_heads=4, packed=True, packed_by_head=1, outputs=1, dtypes=_TYPES),
    _case("packed-by-head-with-past", kv_heads=4, packed=True, apart=True, packed_by_head=1, past=5, size=32,
          cache=(1, 3, 8), dtypes=_TYPES),
    _case("packed-by-head-with-norms", kv_heads=4, packed=True, packed_by_head=1, norms=True, past=5, size=10,
          v_size=6, cache=(2, 1, 3, 6), rotary_interleaved=1),
    _case("a-step-packed-by-head", rows=1, kv_heads=4, packed=True, packed_by_head=1, past=70, cache=(1, 1, 1, 16)),
    _case("long-packed-by-head", batch=1, rows=130, kv_heads=4, size=64, packed=True, packed_by_head=1, outputs=1),
    _case("odd-sizes", size=10, v_size=6, past=5, cache=(2, 1, 3, 6)),
    _case("values-of-another-size", v_size=40, past=5, packed=True),
    _case("one-product-alone", packed=True, outputs=1),
    _case("a-mask", mask=Rand((2, 1, 3, 8)), past=5, cache=(1, 3, 16), scale=0.5),
    _case("a-mask-of-heads", mask=Rand((4, 3, 1)), past=5),
    _case("a-mask-that-repeats", batch=6, mask=Rand((3, 4, 3, 3)), outputs=1, packed=True, mask_repeats=1,
          dtypes=_TYPES),
    _case("keys-of-a-mask-that-repeats", batch=6, mask=Rand((3, 1, 1, 3)), outputs=1, mask_repeats=1, dtypes=_TYPES),
    _case("a-row-of-a-mask-that-repeats", batch=6, rows=1, past=80, mask=Rand((3, 1, 1, 81)), mask_repeats=1,
          dtypes=_TYPES),
    _case("a-mask-that-repeats-once", batch=3, mask=Rand((3, 1, 3, 3)), outputs=1, mask_repeats=1),
    _case("a-mask-of-one", batch=4, mask=Rand((1, 4, 3, 3)), outputs=1, mask_repeats=1),
    _case("no-batch-of-a-mask", batch=0, mask=Rand((3, 4, 3, 3)), outputs=1, mask_repeats=1),
    # windows of one warp each, and of several that share one
    _case("windows", batch=48, rows=49, heads=3, kv_heads=3, size=32, mask=Rand((8, 3, 49, 49)), outputs=1, packed=True,
          mask_repeats=1, dtypes=_TYPES),
    _case("few-windows", batch=2, rows=64, size=32, mask=Rand((1, 4, 64, 64)), outputs=1, dtypes=_TYPES),
    _case("no-scale", scale=0.0, past=5, outputs=1),
    _case("zeros-without-keys", mask=Of(_EMPTY, "T"), outputs=1),
    _case("nan-without-keys", mask=Of(_EMPTY, "T"), outputs=1, empty_is_nan=1),
    _case("one-head-for-all", heads=6, kv_heads=1, past=70, cache=(1, 3, 16)),
    _case("long", batch=1, rows=130, size=64, past=60, cache=(1, 130, 64), packed=True),
    _case("no-batch", batch=0, past=5, cache=(1, 3, 16)),
    _case("no-rows", rows=0, past=5, cache=(1, 0, 16)),
    _refused("4 heads of queries cannot share 3 heads of keys", _Q, _KV, _KV, kv_num_heads=3),
    _refused("head_size 0 must be > 0", _Q),
    _refused("inputs 1 and 2 come together", _Q, _KV),
    _refused("inputs 4 and 5 come together", _Q, _KV, _KV, None, Rand((2, 2, 5, 16))),
    _refused("rows of [2,3,64] do not hold", _Q, head_size=12),
    _refused("rows of [2,3,64] do not hold", _Q, q_num_heads=3, kv_num_heads=3, head_size=7),
    _refused("Q [2,3,64], K [2,3,24] and V [2,3,32] are no rows of 4 and 2 heads", _Q, Rand((2, 3, 24)), _KV),
    _refused("Q [2,3,64], K [2,4,32] and V [2,4,32] are no rows", _Q, Rand((2, 4, 32)), Rand((2, 4, 32))),
    _refused("rows of heads [2,64] must have 3 or 4 dimensions", Rand((2, 64)), _KV, _KV),
    _refused("past keys [2,2,5,16] and values [2,2,4,16] do not fit", _Q, _KV, _KV, None, Rand((2, 2, 5, 16)),
             Rand((2, 2, 4, 16))),
    _refused("the mask [2,1,3,4] does not broadcast", _Q, _KV, _KV, Rand((2, 1, 3, 4))),
    _refused("packed_by_head is for one tensor", _Q, _KV, _KV, packed_by_head=1),
    _refused("of as many heads of keys as of queries", Rand((2, 3, 128)), head_size=16, packed_by_head=1),
    _refused("the mask [3,1,3,3] does not broadcast", _Q, _KV, _KV, Rand((3, 1, 3, 3)), mask_repeats=1),
    _refused("cos [1,2,16] and sin [1,2,16] must both", _Q, _KV, _KV, None, None, None, Rand((1, 2, 16)),
             Rand((1, 2, 16))),
    _refused("the norm's scale [8] must have 16 elements", _Q, _KV, _KV, None, None, None, None, None, Rand((8,)),
             Rand((8,))),
]  # fmt: skip
