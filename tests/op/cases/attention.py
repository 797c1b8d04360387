"""ONNX Attention: layouts, head groups and sizes, masks, windows, past and present, scores; judged in float64."""

import math
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.inputs import Input

HIDDEN = -np.inf


def softmax(scores: np.ndarray) -> np.ndarray:
    """Of the last axis; zeros where every score is minus infinity."""
    top = scores.max(axis=-1, keepdims=True, initial=HIDDEN)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def heads_first(x: np.ndarray, heads: int | None) -> np.ndarray:
    """[batch, rows, hidden] as [batch, heads, rows, size]."""
    if x.ndim == 4 or heads is None:
        return x
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _bias(
    shape: tuple[int, ...], mask: np.ndarray | None, offset: Any, attrs: dict[str, Any], lengths: np.ndarray | None
) -> np.ndarray:
    bias = np.zeros(shape)
    if mask is not None:
        added = np.where(mask, 0.0, HIDDEN) if mask.dtype == bool else mask
        missing = shape[-1] - added.shape[-1]
        if missing and (added.shape[-1] != 1 or attrs.get("pads", True)):
            added = np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, missing)], constant_values=HIDDEN)
        bias = bias + added
    distance = np.arange(shape[3]) - (np.arange(shape[2])[:, None] + np.reshape(offset, (-1, 1, 1, 1)))
    left, right = attrs.get("left_window_size", -1), attrs.get("right_window_size", -1)
    seen = np.ones(distance.shape, bool)
    seen &= (left < 0) | (distance >= -left)
    seen &= (right < 0) | (distance <= right)
    seen &= (not attrs.get("is_causal", 0)) | (distance <= 0)
    if lengths is not None:
        seen = seen & (np.arange(shape[3]) < lengths.reshape(-1, 1, 1, 1))
    return np.where(seen, bias, HIDDEN)


def _both(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, past_key: np.ndarray | None = None,
    past_value: np.ndarray | None = None, lengths: np.ndarray | None = None, **attrs: Any,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    """The outputs and their magnitudes."""
    flat = q.ndim == 3
    q = heads_first(q, attrs.get("q_num_heads"))
    k, v = (heads_first(x, attrs.get("kv_num_heads")) for x in (k, v))
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    scale = attrs.get("scale", 1 / math.sqrt(q.shape[3]))
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    products = scale * (q @ keys.swapaxes(2, 3))
    strain = abs(scale) * (np.abs(q) @ np.abs(keys).swapaxes(2, 3))
    cap = attrs.get("softcap", 0.0)
    capped = cap * np.tanh(products / cap) if cap else products
    offset = lengths - q.shape[2] if lengths is not None else past
    masked = capped + _bias(products.shape, mask, offset, attrs, lengths)
    weights = softmax(masked)
    y, size = weights @ values, weights @ np.abs(values)
    # Errors of scores are factors of the weights; few add up.
    added = np.where(np.isfinite(masked), np.abs(masked), 0)
    worst = 1 + (np.max(strain, axis=-1, keepdims=True, initial=0) + added.max(axis=-1, keepdims=True, initial=0)) / 4
    size = size * worst
    if flat:
        y, size = (x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1) for x in (y, size))
    mode = attrs.get("qk_matmul_output_mode", 0)
    scores = (products, capped, masked, weights)[mode]
    return (y, k, v, scores), (size, 0.0, 0.0, weights * worst if mode == 3 else strain)


def _expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


def _expected_23(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    """A mask of one column is every key's."""
    return _both(*inputs, **attrs, pads=False)[0]


def _magnitude_23(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs, pads=False)[1]


def _case(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...] | None = None, mask: Input = None,
    past: int | None = None, lengths: list[int] | None = None, outputs: Any = 1, name: str = "", **more: Any,
) -> Case:  # fmt: skip
    """Queries and keys are small, so that softmax has more than one winner."""
    v = v or k
    inputs: list[Input] = [Rand(q, low=-2, high=2), Rand(k, low=-2, high=2), Rand(v), mask]
    attrs = more.pop("attrs", {})
    if past is None:
        inputs += [None, None]
    else:
        heads = attrs.get("kv_num_heads", k[1])
        sizes = (k[3], v[3]) if len(k) == 4 else (k[2] // heads, v[2] // heads)
        inputs += [Rand((k[0], heads, past, sizes[0]), low=-2, high=2), Rand((k[0], heads, past, sizes[1]))]
    inputs.append(None if lengths is None else Of(lengths, "int64"))
    while inputs[-1] is None:
        inputs.pop()
    label = f"{'x'.join(map(str, q))}-{'x'.join(map(str, k))}-{name}"
    usual = {"expected": _expected, "magnitude": _magnitude, "dtypes": ("float32", "float16"), "opset": 24}
    return Case(op="Attention", inputs=inputs, outputs=outputs, attrs=attrs, name=label, **(usual | more))


ALL = ("T", "T", "T", "T")
SCORES = ("T", "", "", "T")
TYPES = ("float32", "float16", "bfloat16", "float64")
_BOOL_ROWS = np.array(
    [[1, 0, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]], bool
)
_NO_SESSION = {"session": "the newest host's schema has no windows"}


def _refused(code: str, text: str, *inputs: Input, **more: Any) -> Case:
    given = {"attrs": {}, "opset": 24, "dtypes": ("float32",), "name": text.replace(" ", "_")} | more
    return Case(op="Attention", inputs=inputs, error=(code, text), **given)


CASES = [
    # every type and version, in both layouts
    _case((2, 3, 5, 16), (2, 3, 7, 16), dtypes=TYPES, opset="23+", name="types"),
    _case((2, 5, 24), (2, 7, 24), dtypes=TYPES, attrs={"q_num_heads": 3, "kv_num_heads": 3}, name="flat"),
    # head groups, and head sizes of v
    _case((2, 6, 5, 16), (2, 2, 7, 16), (2, 2, 7, 24), name="groups"),
    _case((2, 4, 1, 8), (2, 1, 70, 8), dtypes=TYPES, name="one_head"),
    _case((2, 5, 48), (2, 7, 16), (2, 7, 10), attrs={"q_num_heads": 6, "kv_num_heads": 2}, name="flat_groups"),
    _case((1, 6, 70, 16), (1, 2, 70, 16), attrs={"is_causal": 1}, name="long_groups"),
    *(_case((1, 2, 3, size), (1, 2, 5, size), (1, 2, 5, size), name="size")
      for size in (1, 7, 8, 31, 40, 64, 80, 96, 128, 160, 256, 512)),
    _case((1, 1, 3, 33), (1, 1, 5, 33), (1, 1, 5, 129), dtypes=TYPES, name="odd_sizes"),
    _case((1, 1, 3, 512), (1, 1, 40, 512), dtypes=("bfloat16", "float64"), name="large_head"),
    # several tiles of queries and keys
    _case((1, 2, 130, 16), (1, 2, 150, 16), dtypes=TYPES, name="tiles"),
    _case((1, 1, 70, 160), (1, 1, 140, 160), (1, 1, 140, 72), name="chunks"),
    _case((1, 2, 3, 16), (1, 2, 1100, 16), dtypes=TYPES, name="split_keys"),
    _case((1, 4, 2, 16), (1, 2, 900, 16), (1, 2, 900, 70), attrs={"is_causal": 1}, lengths=[777], name="split_causal"),
    # masks of every shape
    *(_case((2, 3, 4, 8), (2, 3, 7, 8), mask=Rand(shape), name="mask" + "x".join(map(str, shape)))
      for shape in ((7,), (4, 7), (1, 7), (3, 4, 7), (1, 4, 7), (3, 1, 7), (2, 1, 1, 7), (2, 3, 4, 7), (2, 3, 1, 7))),
    *(_case((2, 3, 4, 8), (2, 3, 7, 8), mask=_BOOL_ROWS.reshape(shape), name="bool" + "x".join(map(str, shape)),
            dtypes=("float32", "bfloat16")) for shape in ((4, 7), (1, 4, 7), (1, 1, 4, 7))),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=Rand((2, 3, 4, 7), "bool"), dtypes=TYPES, name="bool_full"),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=_BOOL_ROWS[:1, :5], name="short_bool"),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=Rand((4, 5)), name="short"),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=Rand((4, 1)), name="one_column", outputs=SCORES,
          attrs={"qk_matmul_output_mode": 3}),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=Rand((3, 4, 1)), name="one_column", opset=23, expected=_expected_23,
          magnitude=_magnitude_23, outputs=SCORES, attrs={"qk_matmul_output_mode": 2}),
    _case((1, 2, 70, 8), (1, 2, 90, 8), mask=Rand((2, 70, 90), "bool"), attrs={"is_causal": 1}, name="tiles_bool"),
    # rows of masks that begin at any element, of calls that a library may take
    *(_case((2, 4, keys, 64), (2, 2, keys, 64), mask=Rand(shape), attrs={"is_causal": causal}, dtypes=("float16",),
            name=f"odd_mask{causal}")
      for keys, shape, causal in ((137, (4, 137, 137), 0), (201, (201, 201), 1))),
    # causal, windows, caps, scales
    _case((2, 2, 6, 8), (2, 2, 6, 8), attrs={"is_causal": 1}, dtypes=TYPES, name="causal"),
    _case((2, 2, 6, 8), (2, 2, 4, 8), attrs={"is_causal": 1}, name="causal"),
    _case((1, 2, 140, 8), (1, 2, 140, 8), attrs={"is_causal": 1}, name="causal_tiles"),
    *(_case((1, 2, 80, 8), (1, 2, 100, 8), attrs=attrs, opset=25, skip=_NO_SESSION,
            name="-".join(["window", *attrs]))
      for attrs in ({"left_window_size": 5, "is_causal": 1}, {"left_window_size": 0, "right_window_size": 70},
                    {"right_window_size": 3}, {"left_window_size": 66})),
    _case((2, 3, 4, 8), (2, 3, 7, 8), attrs={"softcap": 0.7, "scale": 0.3}, dtypes=TYPES, name="cap"),
    _case((2, 3, 4, 8), (2, 3, 7, 8), attrs={"scale": -1.5}, name="negative_scale"),
    *(_case((2, 3, 4, 8), (2, 3, 7, 8), attrs={"softmax_precision": p}, dtypes=TYPES, name=f"precision{p}")
      for p in (1, 10, 11, 16)),
    # past and present
    _case((2, 2, 3, 8), (2, 2, 3, 8), (2, 2, 3, 5), past=4, outputs=ALL[:3], dtypes=TYPES, name="past"),
    _case((2, 4, 3, 8), (2, 2, 3, 8), past=4, attrs={"is_causal": 1}, outputs=ALL[:3], name="past_causal"),
    _case((2, 3, 32), (2, 3, 16), past=4, attrs={"is_causal": 1, "q_num_heads": 4, "kv_num_heads": 2},
          mask=Rand((3, 7)), outputs=ALL[:3], name="past_flat"),
    _case((2, 4, 1, 64), (2, 2, 1, 64), past=600, outputs=ALL[:3], dtypes=TYPES, name="past_long"),
    # copied by the kernel that reads it
    _case((2, 4, 1, 64), (2, 2, 1, 64), past=200, attrs={"is_causal": 1}, outputs=ALL[:3], dtypes=TYPES[:3],
          name="past_read_once"),
    _case((2, 3, 2, 128), (2, 3, 2, 128), past=41, mask=Rand((2, 43)), outputs=ALL[:3], dtypes=TYPES[:3],
          name="past_read_once_masked"),
    _case((2, 4, 1, 64), (2, 2, 1, 64), past=200, outputs=1, dtypes=TYPES[:3], name="past_read_once_alone"),
    _case((2, 4, 0, 64), (2, 2, 0, 64), past=200, outputs=ALL[:3], dtypes=TYPES[:3], name="past_without_queries"),
    _case((2, 2, 3, 8), (2, 2, 3, 8), past=4, outputs=1, name="past_alone"),
    _case((2, 2, 3, 8), (2, 2, 3, 8), past=0, outputs=ALL[:3], name="past_empty"),
    _case((2, 3, 16), (2, 5, 16), attrs={"q_num_heads": 2, "kv_num_heads": 2}, outputs=("T", "T"), name="present_key"),
    # lengths of keys, also beyond and below what there is
    _case((3, 2, 3, 8), (3, 2, 7, 8), lengths=[7, 2, 5], dtypes=TYPES, name="lengths"),
    _case((3, 4, 3, 8), (3, 2, 7, 8), lengths=[7, 2, 5], attrs={"is_causal": 1}, name="lengths_causal"),
    _case((3, 2, 3, 8), (3, 2, 7, 8), lengths=[7, 0, 1], attrs={"is_causal": 1, "qk_matmul_output_mode": 3},
          mask=Rand((3, 5)), outputs=SCORES, name="lengths_none"),
    # scores
    *(_case((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 70), past=2, mask=Rand((3, 7)), outputs=ALL, dtypes=TYPES,
            attrs={"qk_matmul_output_mode": mode, "softcap": 1.5, "is_causal": 1}, name=f"scores{mode}")
      for mode in range(4)),
    *(_case((3, 2, 4, 8), (3, 2, 70, 8), outputs=SCORES, attrs={"qk_matmul_output_mode": mode}, lengths=[70, 3, 65],
            name=f"scores_of_lengths{mode}") for mode in (2, 3)),
    _case((1, 2, 70, 16), (1, 2, 90, 16), outputs=SCORES, attrs={"qk_matmul_output_mode": 3},
          mask=Rand((70, 90), "bool"), name="scores_tiles"),
    _case((2, 3, 4, 8), (2, 3, 7, 8), mask=_BOOL_ROWS, attrs={"qk_matmul_output_mode": 3}, outputs=SCORES,
          name="scores_of_hidden_rows"),
    # nothing to do, and no keys
    _case((0, 2, 3, 8), (0, 2, 4, 8), name="no_batch"),
    _case((2, 2, 0, 8), (2, 2, 4, 8), name="no_queries"),
    _case((2, 2, 3, 8), (2, 2, 4, 8), (2, 2, 4, 0), outputs=SCORES, name="no_values"),
    _refused("INVALID_ARGUMENT", "3 or 4 dimensions", Rand((2, 3)), Rand((2, 3)), Rand((2, 3))),
    _refused("INVALID_ARGUMENT", "q_num_heads", Rand((2, 3, 8)), Rand((2, 3, 8)), Rand((2, 3, 8)),
             skip={"session": "the host's shape inference refuses first"}),
    _refused("INVALID_ARGUMENT", "head sizes differ", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 9)), Rand((1, 2, 3, 8)),
             ),
    _refused("INVALID_ARGUMENT", "cannot share", Rand((1, 3, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8))),
    _refused("INVALID_ARGUMENT", "lengths differ", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 4, 8))),
    _refused("INVALID_ARGUMENT", "does not broadcast", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)),
             Rand((2, 3))),
    _refused("INVALID_ARGUMENT", "past_key [1,2,4,7]", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), None,
             Rand((1, 2, 4, 7)), Rand((1, 2, 4, 8)), outputs=("T", "T", "T")),
    _refused("INVALID_ARGUMENT", "nonpad_kv_seqlen [2]", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)),
             None, None, None, Of([1, 2], "int64")),
    _refused("NOT_SUPPORTED", "attn_mask of int32", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)),
             Rand((3, 3), "int32")),
    _refused("NOT_SUPPORTED", "V of float16", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8), "float16"),
             skip={"session": "the host takes the function apart first"}),
    _refused("INVALID_ARGUMENT", "qk_matmul_output_mode 4", Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)), Rand((1, 2, 3, 8)),
             attrs={"qk_matmul_output_mode": 4}),
]  # fmt: skip
