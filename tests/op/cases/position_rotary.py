"""com.microsoft's MRotaryEmbedding and GemmaRotaryEmbedding."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input

TYPES = ("float32", "float16", "bfloat16")


def _streams(section: list[int], layout: int) -> np.ndarray:
    """Which of time, height and width each pair takes."""
    if layout == 0:
        return np.repeat([0, 1, 2], section)
    streams = np.zeros(sum(section), int)
    for which in (1, 2):
        streams[which : 3 * section[which] : 3] = which
    return streams


def rotated(
    x: np.ndarray, ids: np.ndarray, cos: np.ndarray, sin: np.ndarray, mrope_section: Any = (), mrope_layout: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, interleaved: int = 0, scale: float = 1.0,
    is_packed_batching: int = 0, terms: bool = False,
) -> np.ndarray:  # fmt: skip
    del is_packed_batching  # nothing depends on it
    rows = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, x.shape[2] // num_heads)
    dim = rotary_embedding_dim or rows.shape[-1]
    streams = _streams(list(mrope_section), mrope_layout)
    at = np.moveaxis(ids[streams], 0, -1)  # [batch, rows, pairs]
    inside = (at >= 0) & (at < cos.shape[0])
    picked = [np.where(inside, table[np.clip(at, 0, cos.shape[0] - 1), np.arange(dim // 2)], 0)[:, :, None]
              for table in (cos, sin)]  # fmt: skip
    turned, rest = rows[..., :dim], rows[..., dim:]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, -1)
    c, s = picked
    pair = (a * c + b * s if terms else a * c - b * s), a * s + b * c
    done = np.stack(pair, -1).reshape(turned.shape) if interleaved else np.concatenate(pair, -1)
    y = np.concatenate([scale * done, rest], -1)
    return y.swapaxes(1, 2) if x.ndim == 4 else y.reshape(x.shape)


def _magnitude(x: np.ndarray, ids: np.ndarray, cos: np.ndarray, sin: np.ndarray, **attrs: Any) -> np.ndarray:
    return rotated(np.abs(x), ids, np.abs(cos), np.abs(sin), **attrs, terms=True)


IDS = [[[3, 0, 8], [1, 2, 5]], [[4, 4, 1], [0, 7, 7]], [[2, 6, 0], [8, 8, 3]]]


def _sections(x: tuple[int, ...], section: list[int], ids: Any = None, name: str = "", **attrs: Any) -> Case:
    inputs: list[Input] = [
        Rand(x), Of(IDS if ids is None else ids, "int64"), *[Rand((9, sum(section)), low=-1, high=1)] * 2,
    ]  # fmt: skip
    named = ["x".join(map(str, x)), "_".join(map(str, section)), *(f"{k}={v}" for k, v in attrs.items())]
    return Case(op="MRotaryEmbedding", domain=MICROSOFT, opset=1, inputs=inputs, dtypes=TYPES, expected=rotated,
                magnitude=_magnitude, attrs={"mrope_section": section, **attrs},
                name=name or "-".join(named))  # fmt: skip


def _refused(text: str, x: tuple[int, ...], cache: tuple[int, ...] = (9, 6), ids: tuple[int, ...] = (3, 2, 3),
             **attrs: Any) -> Case:  # fmt: skip
    return Case(op="MRotaryEmbedding", domain=MICROSOFT, opset=1, dtypes=("float32",),
                inputs=[Rand(x), Rand(ids, "int64", low=0, high=8), Rand(cache), Rand(cache)],
                attrs={"mrope_section": [2, 2, 2], **attrs}, error=("INVALID_ARGUMENT", text),
                name=text.replace(" ", "_"),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


def _half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float64)


def angles(emb: np.ndarray, q: Any, q_rot: Any, k: Any, k_rot: Any) -> tuple[np.ndarray, ...]:
    # Angles are fp32, and so are their cosines before they are rounded: in fp64 some would be rounded another way.
    single = emb.astype(np.float32)
    c, s = (_half(table(single)[:, None].astype(np.float64)) for table in (np.cos, np.sin))
    return q * c + q_rot * s, k * c + k_rot * s


def _angles_magnitude(emb: np.ndarray, q: Any, q_rot: Any, k: Any, k_rot: Any) -> tuple[np.ndarray, ...]:
    """A cosine may be rounded to either neighbour: one part in 2^11 of each term."""
    terms = np.abs(q) + np.abs(q_rot), np.abs(k) + np.abs(k_rot)
    return tuple(2.0**10 * term for term in terms) if emb.size else terms


def _gemma(batch: int, rows: int, size: int, heads: tuple[int, int]) -> Case:
    q, k = ((batch, count, rows, size) for count in heads)
    return Case(op="GemmaRotaryEmbedding", domain=MICROSOFT, opset=1, dtypes=("float16",), outputs=2,
                inputs=[Rand((batch, rows, size), "float32", low=-6, high=6), Rand(q), Rand(q), Rand(k), Rand(k)],
                expected=angles, magnitude=_angles_magnitude)  # fmt: skip


CASES = [
    *(_sections(x, section, mrope_layout=layout, interleaved=interleaved, **attrs)
      for layout in (0, 1) for interleaved in (0, 1)
      for x, section, attrs in (((2, 3, 24), [2, 2, 2], {"num_heads": 2}), ((2, 4, 3, 16), [4, 2, 2], {}),
                                ((2, 2, 3, 20), [2, 3, 1], {"num_heads": 2, "rotary_embedding_dim": 12}))),
    _sections((2, 3, 24), [6, 0, 0], num_heads=2),
    _sections((2, 3, 24), [0, 3, 3], num_heads=2, mrope_layout=1),
    _sections((2, 4, 3, 12), [2, 2, 2], scale=0.5),
    _sections((2, 3, 40), [2, 1, 1], scale=2.5, num_heads=2, rotary_embedding_dim=8, is_packed_batching=1),
    _sections((2, 19, 3, 12), [2, 2, 2]),
    _sections((1, 2, 70, 64), [16, 8, 8], np.arange(210).reshape(3, 1, 70) % 9, name="long"),
    _sections((2, 2, 3, 12), [2, 2, 2], np.array(IDS) * 2 - 3, name="outside"),
    _sections((2, 2, 0, 12), [2, 2, 2], np.zeros((3, 2, 0)), name="empty"),
    *(_gemma(*shape) for shape in ((2, 3, 16, (4, 4)), (1, 1, 256, (8, 1)), (2, 7, 5, (1, 9)), (1, 0, 8, (2, 2)))),
    _refused("must add up to 6", (2, 3, 24), num_heads=2, mrope_section=[2, 2, 1]),
    _refused("must be three numbers", (2, 3, 24), num_heads=2, mrope_section=[2, 4]),
    _refused("none negative", (2, 3, 24), num_heads=2, mrope_section=[8, -1, -1]),
    _refused("mrope_layout 2", (2, 3, 24), num_heads=2, mrope_layout=2),
    _refused("num_heads 0 does not divide", (2, 3, 24)),
    _refused("num_heads -1 is negative", (2, 3, 24), num_heads=-1),
    _refused("needs num_heads", (2, 2, 3, 12), rotary_embedding_dim=12),
    _refused("rotary_embedding_dim 7", (2, 3, 24), num_heads=2, rotary_embedding_dim=7),
    _refused("14 cannot be rotated", (2, 3, 24), num_heads=2, rotary_embedding_dim=14),
    _refused("must have rows of 6", (2, 3, 24), (9, 5), num_heads=2),
    _refused("position_ids [1,2,3] must be [3,2,3]", (2, 3, 24), ids=(1, 2, 3), num_heads=2),
    _refused("3 or 4 dimensions", (3, 12), num_heads=1),
    Case(op="GemmaRotaryEmbedding", domain=MICROSOFT, opset=1, dtypes=("float16",), outputs=2,
         inputs=[Rand((2, 3, 4), "float32"), Rand((2, 2, 3, 4)), Rand((2, 2, 3, 4)), Rand((2, 2, 3, 5)),
                 Rand((2, 2, 3, 5))],
         error=("INVALID_ARGUMENT", "must be heads of emb"),
         skip={"session": "the host's shape inference may refuse first"}),
]  # fmt: skip
