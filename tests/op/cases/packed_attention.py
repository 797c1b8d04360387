"""com.microsoft's Attention: joined weights, every form of mask, past and present; judged in float64."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from .multi_head_attention import attend, masked, rows_first, split_heads


def _both(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None, mask: np.ndarray | None = None,
    past: np.ndarray | None = None, score_bias: np.ndarray | None = None, past_length: np.ndarray | None = None,
    num_heads: int = 1, unidirectional: int = 0, mask_filter_value: float = -10000.0, scale: float = 0.0,
    qkv_hidden_sizes: Any = None, past_present_share_buffer: int = 0,
) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:  # fmt: skip
    sizes = qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    ends = np.cumsum(sizes)[:2]
    rows = x @ weights + (0 if bias is None else bias)
    terms = np.abs(x) @ np.abs(weights) + (0 if bias is None else np.abs(bias))
    q, k, v = (split_heads(part, num_heads) for part in np.split(rows, ends, 2))
    q_terms, k_terms, v_terms = (split_heads(part, num_heads) for part in np.split(terms, ends, 2))
    count = 0
    present = np.stack([k, v]) if sizes[0] == sizes[2] else np.zeros(0)
    if past is not None:
        count = int(past_length[0]) if past_present_share_buffer and past_length is not None else past.shape[3]
        k, v = np.concatenate([past[0, :, :, :count], k], 2), np.concatenate([past[1, :, :, :count], v], 2)
        k_terms = np.concatenate([np.abs(past[0, :, :, :count]), k_terms], 2)
        v_terms = np.concatenate([np.abs(past[1, :, :, :count]), v_terms], 2)
        rest = past.shape[3] - k.shape[2] if past_present_share_buffer else 0
        present = np.pad(np.stack([k, v]), [(0, 0), (0, 0), (0, 0), (0, rest), (0, 0)])
    added = masked(mask, x.shape[0], k.shape[2], count, mask_filter_value, q.shape[2])
    if score_bias is not None:
        added = added + score_bias
    seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + count if unidirectional else np.array(True)
    y = attend(q, k, v, added, seen, scale)[0]
    # What the product's terms add up to stands for its result: its last digits are what rounding takes from scores.
    size = attend(q, k, v_terms, added, seen, scale)[2]
    strain = (np.abs(q_terms) @ k_terms.swapaxes(2, 3)).max(axis=-1, keepdims=True, initial=0)
    return (rows_first(y), present), (rows_first(size * (1 + strain)), 8.0)


def _expected(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    return _both(*inputs, **attrs)[0]


def _magnitude(*inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _both(*inputs, **attrs)[1]


TYPES = ("float32", "float16", "bfloat16")


def _inputs(x: tuple[int, ...], hidden: int, bias: bool = True) -> list[Input]:
    return [Rand(x, low=-0.5, high=0.5), Rand((x[2], hidden), low=-0.5, high=0.5),
            Rand((hidden,), low=-0.5, high=0.5) if bias else None]  # fmt: skip


def _case(*inputs: Input, name: str, outputs: Any = 1, dtypes: Any = TYPES[:2], **attrs: Any) -> Case:
    skip = attrs.pop("skip", {})
    return Case(op="Attention", domain=MICROSOFT, opset=1, inputs=inputs, outputs=outputs, dtypes=dtypes,
                attrs={"num_heads": 2, "mask_filter_value": -12.0} | attrs, name=name, skip=skip,
                expected=_expected, magnitude=_magnitude)  # fmt: skip


def _refused(code: str, text: str, *inputs: Input, outputs: Any = 1, **attrs: Any) -> Case:
    return Case(op="Attention", domain=MICROSOFT, opset=1, inputs=inputs, outputs=outputs, dtypes=("float32",),
                attrs={"num_heads": 2} | attrs, error=(code, text), name=text.replace(" ", "_"),
                skip={"session": "the host may refuse first"})  # fmt: skip


BASE = _inputs((2, 5, 6), 24)
PAST = Rand((2, 2, 2, 3, 4), low=-0.5, high=0.5)
FLAGS = [[1, 1, 0, 1, 0], [0, 0, 0, 0, 1]]

CASES = [
    _case(*BASE, dtypes=TYPES, name="plain"),
    _case(*_inputs((2, 5, 6), 24, bias=False)[:2], name="no_bias"),
    _case(*_inputs((1, 70, 32), 96), name="tiles", unidirectional=1),
    _case(*_inputs((2, 5, 6), 28), name="sizes", qkv_hidden_sizes=[8, 8, 12]),
    _case(*BASE, name="scale", scale=1.7),
    *(_case(*BASE, Of(mask, "int32"), name=name)
      for name, mask in (("lengths", [2, 4]), ("flags", FLAGS), ("begins", [4, 5, 1, 2]), ("empty_range", [1, 5, 3, 2]),
                         ("cumulated", [2, 4, 0, 5, 10, 0, 2, 6]),
                         ("flags_of_queries", np.arange(50).reshape(2, 5, 5) % 3),
                         ("square", np.arange(98).reshape(2, 1, 7, 7) % 3))),
    _case(*BASE, Of(FLAGS, "int32"), name="causal_mask", unidirectional=1),
    _case(*BASE, None, None, Rand((2, 2, 5, 5)), name="score_bias"),
    _case(*BASE, outputs=("T", "T"), name="present"),
    _case(*BASE, None, PAST, outputs=("T", "T"), dtypes=TYPES, name="past", unidirectional=1),
    _case(*BASE, Of(np.arange(16).reshape(2, 8) % 3, "int32"), PAST, outputs=("T", "T"), name="past_flags"),
    _case(*BASE, Of(np.arange(128).reshape(2, 1, 8, 8) % 3, "int32"), PAST, outputs=("T", "T"), name="past_square"),
    _case(*BASE, None, Rand((2, 2, 2, 8, 4), low=-0.5, high=0.5), None, Of([3], "int32"), outputs=("T", "T"),
          name="shared", past_present_share_buffer=1, unidirectional=1),
    _case(*BASE, None, Rand((2, 2, 2, 9, 4), low=-0.5, high=0.5), None, Of([3], "int32"), outputs=("T", "T"),
          name="shared_room", past_present_share_buffer=1,
          skip={"in_place": "rows behind the new ones keep what they held"}),
    _case(*_inputs((0, 5, 6), 24), name="no_batch"),
    _case(*_inputs((2, 0, 6), 24), None, PAST, outputs=("T", "T"), name="no_rows"),
    _refused("NOT_SUPPORTED", "do_rotary", *BASE, do_rotary=1),
    _refused("NOT_SUPPORTED", "different sizes [8,8,12]", *_inputs((2, 5, 6), 28), outputs=("T", "T"),
             qkv_hidden_sizes=[8, 8, 12]),
    _refused("INVALID_ARGUMENT", "qkv_hidden_sizes [8,6,12]", *BASE, qkv_hidden_sizes=[8, 6, 12]),
    _refused("INVALID_ARGUMENT", "weights [7,24]", Rand((2, 5, 6)), Rand((7, 24))),
    _refused("INVALID_ARGUMENT", "do not hold queries", Rand((2, 5, 6)), Rand((6, 25))),
    _refused("INVALID_ARGUMENT", "bias [20]", Rand((2, 5, 6)), Rand((6, 24)), Rand((20,))),
    _refused("INVALID_ARGUMENT", "mask [2,4]", *BASE, Rand((2, 4), "int32")),
    _refused("INVALID_ARGUMENT", "past [2,2,2,3,5]", *BASE, None, Rand((2, 2, 2, 3, 5)), outputs=("T", "T")),
    _refused("INVALID_ARGUMENT", "needs past and past_sequence_length", *BASE, None, PAST, outputs=("T", "T"),
             past_present_share_buffer=1),
    _refused("INVALID_ARGUMENT", "in a buffer of 3", *BASE, None, PAST, None, Of([1], "int32"), outputs=("T", "T"),
             past_present_share_buffer=1),
]  # fmt: skip
