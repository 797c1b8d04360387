"""com.microsoft's MultiHeadAttention: every packing, bias, masks, past and present; judged in float64."""

import math
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from .attention import HIDDEN, softmax


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, added: Any = 0.0, seen: Any = True, scale: float = 0.0,
    rounded: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Heads first: values and what softmax sees, and the magnitudes of both; `added` where `seen`.

    rounded: queries and keys are sums that were rounded to their type before.
    """
    factor = scale or 1 / math.sqrt(q.shape[3])
    strain = factor * (np.abs(q) @ np.abs(k).swapaxes(2, 3))
    scores = np.where(seen, factor * (q @ k.swapaxes(2, 3)) + added, HIDDEN)
    weights = softmax(scores)
    loss = (4 if rounded else 0.25) * strain + np.abs(added) / 4
    worst = 1 + np.max(np.where(np.isfinite(scores), loss, 0), axis=-1, keepdims=True, initial=0)
    return weights @ v, scores, (weights @ np.abs(v)) * worst, 4 * loss


def rows_first(x: np.ndarray) -> np.ndarray:
    """[batch, heads, rows, size] as [batch, rows, hidden]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """The way back."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def masked(
    mask: np.ndarray | None, batch: int, keys: int, past: int, filtered: float, queries: int | None = None
) -> Any:
    """What an int32 mask adds to the scores, broadcast to them."""
    if mask is None:
        return 0.0
    at = np.arange(keys)
    if mask.ndim == 1:
        taken = at < mask[:batch, None]
        if mask.shape[0] == 2 * batch:
            taken &= at >= mask[batch:, None]
        taken = taken[:, None, None]
    elif mask.ndim == 4:
        taken = mask[:, :, past : None if queries is None else past + queries, :keys] != 0
    else:
        taken = (mask != 0)[:, None, None] if mask.ndim == 2 else (mask != 0)[:, None]
    return np.where(taken, 0.0, filtered)


def _both(
    q: np.ndarray, k: np.ndarray | None = None, v: np.ndarray | None = None, bias: np.ndarray | None = None,
    mask: np.ndarray | None = None, score_bias: np.ndarray | None = None, past_key: np.ndarray | None = None,
    past_value: np.ndarray | None = None, past_length: np.ndarray | None = None, num_heads: int = 1,
    unidirectional: int = 0, mask_filter_value: float = -10000.0, scale: float = 0.0,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    apart = k is not None and k.ndim == 4
    if q.ndim == 5:
        q, k, v = (q[:, :, :, i].reshape(*q.shape[:2], q.shape[2] * q.shape[4]) for i in range(3))
    elif k is not None and k.ndim == 5:
        k, v = (k[:, :, :, i].reshape(*k.shape[:2], k.shape[2] * k.shape[4]) for i in range(2))
    assert k is not None and v is not None
    if bias is not None:
        q = q + bias[: q.shape[2]]
        if not apart:
            k, v = k + bias[q.shape[2] : 2 * q.shape[2]], v + bias[2 * q.shape[2] :]
    q = split_heads(q, num_heads)
    k, v = (k, v) if apart else (split_heads(k, num_heads), split_heads(v, num_heads))
    past = 0
    present = k, v
    if past_key is not None and past_value is not None:
        past = past_key.shape[2] if past_length is None else int(past_length[0])
        tail = past + k.shape[2] if past_length is not None else past_key.shape[2]
        k, v = np.concatenate([past_key[:, :, :past], k], 2), np.concatenate([past_value[:, :, :past], v], 2)
        rest = max(0, past_key.shape[2] - tail)
        present = tuple(np.pad(x, [(0, 0), (0, 0), (0, rest), (0, 0)]) for x in (k, v))
    added = masked(mask, q.shape[0], k.shape[2], past, mask_filter_value)
    if score_bias is not None:
        added = added + score_bias
    seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + past if unidirectional else np.array(True)
    y, scores, size, strain = attend(q, k, v, added, seen, scale, bias is not None)
    return (rows_first(y), *present, scores), (rows_first(size), 1.0, 1.0, strain)


def _expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


TYPES = ("float32", "float16", "bfloat16")
ALL = ("T", "T", "T", "T")
SCORES = ("T", "", "", "T")
FLAGS = [[1, 1, 0, 1, 0], [0, 0, 0, 0, 1]]


def small(*shape: int, most: float = 2) -> Rand:
    """Values that leave softmax more than one winner."""
    return Rand(shape, low=-most, high=most)


def tiny(*shape: int) -> Rand:
    """The same for inputs that get a bias, and are rounded again."""
    return small(*shape, most=0.75)


def _case(*inputs: Input, name: str, outputs: Any = 1, dtypes: Any = TYPES[:2], **attrs: Any) -> Case:
    skip = attrs.pop("skip", {})
    return Case(op="MultiHeadAttention", domain=MICROSOFT, opset=1, inputs=inputs, outputs=outputs, dtypes=dtypes,
                attrs={"num_heads": 2} | attrs, skip=skip, name=name, expected=_expected,
                magnitude=_magnitude)  # fmt: skip


def _refused(code: str, text: str, *inputs: Input, outputs: Any = 1, **attrs: Any) -> Case:
    return Case(op="MultiHeadAttention", domain=MICROSOFT, opset=1, inputs=inputs, outputs=outputs,
                dtypes=("float32",), attrs={"num_heads": 2} | attrs, error=(code, text), name=text.replace(" ", "_"),
                skip={"session": "the host may refuse first"})  # fmt: skip


Q, K, V = small(2, 3, 16), small(2, 5, 16), Rand((2, 5, 24))
Q5, V5 = small(2, 5, 16), Rand((2, 5, 16))
_IN_PLACE = {"in_place": "rows behind the new ones keep what they held"}

CASES = [
    _case(Q, K, V, dtypes=TYPES, name="plain"),
    _case(tiny(2, 3, 16), tiny(2, 5, 16), V, tiny(56), dtypes=TYPES, name="bias"),
    _case(Q, K, V, scale=0.7, name="scale"),
    _case(Q, small(2, 5, 2, 2, 8), name="packed_kv"),
    _case(tiny(2, 3, 16), tiny(2, 5, 2, 2, 8), None, tiny(48), name="packed_kv_bias"),
    _case(small(2, 5, 2, 3, 8), name="packed", dtypes=TYPES),
    _case(tiny(2, 5, 2, 3, 8), None, None, tiny(48), Of(FLAGS, "int32"), name="packed_bias_mask",
          mask_filter_value=-20.0),
    _case(Q, small(2, 2, 5, 8), Rand((2, 2, 5, 12)), name="heads_first"),
    _case(tiny(2, 3, 16), tiny(2, 2, 5, 8), Rand((2, 2, 5, 8)), tiny(48), name="heads_first_bias"),
    _case(tiny(1, 70, 32), tiny(1, 90, 32), Rand((1, 90, 32)), tiny(96), Of(np.arange(90)[None] % 3, "int32"),
          Rand((1, 2, 70, 90)), name="tiles", mask_filter_value=-20.0),
    *(_case(Q, K, V, None, Of(mask, "int32"), name=name, mask_filter_value=-12.0)
      for name, mask in (("lengths", [2, 4]), ("flags", FLAGS), ("cumulated", [2, 4, 0, 3, 6, 0, 5, 10]),
                         ("flags_of_queries", np.arange(30).reshape(2, 3, 5) % 4))),
    _case(Q, K, V, None, Of([[0] * 5, FLAGS[0]], "int32"), name="hidden_rows", mask_filter_value=-64.0, outputs=SCORES),
    *(_case(Q, K, V, None, None, Rand(shape), name="score_bias" + "x".join(map(str, shape)))
      for shape in ((2, 2, 3, 5), (1, 2, 3, 5), (2, 1, 3, 5), (1, 1, 3, 5))),
    _case(Q5, K, V, unidirectional=1, outputs=SCORES, name="causal"),
    _case(Q5, K, V, None, Of(FLAGS, "int32"), small(1, 1, 5, 5), unidirectional=1, name="causal_mask",
          mask_filter_value=-16.0),
    _case(Q5, K, V, outputs=ALL[:3], name="present"),
    _case(Q, small(2, 2, 5, 8), Rand((2, 2, 5, 8)), outputs=ALL[:3], name="present_heads_first"),
    _case(tiny(2, 5, 16), tiny(2, 5, 16), V5, tiny(48), None, None, tiny(2, 2, 4, 8), Rand((2, 2, 4, 8)), outputs=ALL,
          name="past", dtypes=TYPES, unidirectional=1),
    _case(Q5, K, V5, None, Of(np.arange(18).reshape(2, 9) % 4, "int32"), None, small(2, 2, 4, 8), Rand((2, 2, 4, 8)),
          name="past_mask", mask_filter_value=-8.0),
    _case(Q5, K, V5, None, None, None, small(2, 2, 9, 8), Rand((2, 2, 9, 8)), Of([4], "int32"), outputs=ALL[:3],
          name="shared", unidirectional=1),
    _case(Q5, K, V5, None, None, None, small(2, 2, 12, 8), Rand((2, 2, 12, 8)), Of([4], "int32"), outputs=ALL[:3],
          name="shared_room", unidirectional=1, skip=_IN_PLACE),
    _case(small(0, 3, 16), small(0, 5, 16), Rand((0, 5, 16)), name="no_batch"),
    _case(small(2, 0, 16), small(2, 5, 16), Rand((2, 5, 16)), name="no_queries"),
    _refused("INVALID_ARGUMENT", "a query has 3 dimensions", Q),
    _refused("INVALID_ARGUMENT", "keys and values of [batch,rows,hidden]", Q, small(2, 5, 18), V),
    _refused("INVALID_ARGUMENT", "keys and values of [batch,heads,rows,size]", Q, small(2, 3, 5, 8), small(2, 3, 5, 8)),
    _refused("INVALID_ARGUMENT", "packed as [batch,rows,heads,2,size]", Q, small(2, 5, 2, 3, 8)),
    _refused("INVALID_ARGUMENT", "packed as [batch,rows,heads,3,size]", small(2, 5, 2, 2, 8)),
    _refused("INVALID_ARGUMENT", "batches differ", Q, small(3, 5, 16), small(3, 5, 16)),
    _refused("INVALID_ARGUMENT", "bias [48]", Q, K, V, Rand((48,))),
    _refused("INVALID_ARGUMENT", "mask [2,4]", Q, K, V, None, Rand((2, 4), "int32")),
    _refused("INVALID_ARGUMENT", "attention_bias [2,2,3,4]", Q, K, V, None, None, Rand((2, 2, 3, 4))),
    _refused("INVALID_ARGUMENT", "past_key [2,2,4,7]", Q5, K, V5, None, None, None, Rand((2, 2, 4, 7)),
             Rand((2, 2, 4, 8)), outputs=ALL[:3]),
    _refused("INVALID_ARGUMENT", "in a buffer of 8", Q5, K, V5, None, None, None, Rand((2, 2, 8, 8)),
             Rand((2, 2, 8, 8)), Of([4], "int32"), outputs=ALL[:3]),
    _refused("NOT_SUPPORTED", "cache_indirection", Q5, K, V5, None, None, None, Rand((2, 2, 8, 8)),
             Rand((2, 2, 8, 8)), Of([1], "int32"), Rand((2, 1, 8), "int32"), outputs=ALL[:3]),
    _refused("INVALID_ARGUMENT", "num_heads 0", Q, K, V, num_heads=0),
]  # fmt: skip
