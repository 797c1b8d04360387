"""com.microsoft's RelativePositionBias and GatedRelativePositionBias."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance
from ..harness.tolerances import EXACT

TYPES = ("float32", "float16")


def _buckets(distance: np.ndarray, buckets: int, max_distance: int, bidirectional: bool) -> np.ndarray:
    """As T5's authors number them, logarithms in float32."""
    first = np.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        first = np.where(distance > 0, buckets, 0)
        distance = np.abs(distance)
    else:
        distance = -np.minimum(distance, 0)
    exact = buckets // 2
    ratio = np.maximum(distance, exact).astype(np.float32) / np.float32(exact)
    grown = np.log(ratio) / np.float32(np.log(max_distance / exact)) * np.float32(buckets - exact)
    far = np.minimum(exact + grown.astype(np.int64), buckets - 1)
    return first + np.where(distance < exact, distance, far)


def bias(
    table: np.ndarray, queries: np.ndarray, keys: np.ndarray, max_distance: int = 0, is_bidirectional: int = 0
) -> np.ndarray:
    distance = np.arange(int(keys[0]))[None, :] - np.arange(int(queries[0]))[:, None]
    by_head = table.reshape(table.shape[1], table.shape[0])  # what the dimensions say is not how it lies
    return by_head[:, _buckets(distance, table.shape[0], max_distance, bool(is_bidirectional))][None]


def gated(
    query: np.ndarray,
    query_bias: np.ndarray,
    rel_pos: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    eco_a: np.ndarray,
    token_offset: np.ndarray | None = None,
    num_heads: int = 0,
) -> np.ndarray:
    steps, half = rel_pos.shape[-1], weight.shape[1] // 2
    if token_offset is not None:
        padded = np.zeros((token_offset.size, query.shape[-1]), query.dtype)
        padded[token_offset.reshape(-1)[: len(query)]] = query
        query = padded.reshape(*token_offset.shape, -1)
    heads = (query + query_bias).reshape(len(query), steps, num_heads, len(weight)).transpose(0, 2, 1, 3)
    both = (heads @ weight + bias).reshape(*heads.shape[:3], 2, half).sum(-1)
    u, r = (1 / (1 + np.exp(-both[..., i : i + 1])) for i in (0, 1))
    return (u * (r * eco_a - 1) + 2) * rel_pos


def _gated_magnitude(query: np.ndarray, query_bias: np.ndarray, rel_pos: np.ndarray, *rest: Any, **_: Any) -> Any:
    """The gate may cancel; it is at most |eco_a| + 3."""
    batch = len(rest[3]) if len(rest) > 3 else len(query)
    return np.broadcast_to(np.abs(rel_pos) * (np.abs(rest[2]) + 3), (batch, *rel_pos.shape[1:]))


_BIAS: dict[str, Any] = {"op": "RelativePositionBias", "domain": MICROSOFT, "opset": 1}
_GATED: dict[str, Any] = {"op": "GatedRelativePositionBias", "domain": MICROSOFT, "opset": 1}
_REFUSED: dict[str, Any] = {"skip": {"session": "the host's shape inference may refuse first"}, "dtypes": ("float32",)}


def _bias(buckets: int, heads: int, queries: int, keys: int, distance: int, both: int, **more: Any) -> Case:
    lengths = [Of([queries], "int64"), Of([keys], "int64")]
    return Case(**_BIAS, inputs=[Rand((buckets, heads)), *lengths], dtypes=TYPES, tolerance=EXACT, expected=bias,
                attrs={"max_distance": distance, "is_bidirectional": both},
                name=f"{buckets}x{heads}_{queries}x{keys}_{distance}_{both}", **more)  # fmt: skip


def _inputs(
    batch: int, steps: int, heads: int, size: int, columns: int, offset: list[list[int]] | None = None, tokens: int = 0
) -> list[Any]:
    query = (batch, steps, heads * size) if offset is None else (tokens, heads * size)
    weight = Rand((size, columns), low=-0.2, high=0.2)
    return [Rand(query), Rand((heads * size,)), Rand((1, heads, steps, steps)), weight, Rand((columns,)),
            Rand((1, heads, 1, 1)), *([] if offset is None else [Of(offset, "int32")])]  # fmt: skip


def _gated(batch: int, steps: int, heads: int, size: int, columns: int, **more: Any) -> Case:
    return Case(**_GATED, inputs=_inputs(batch, steps, heads, size, columns), attrs={"num_heads": heads}, dtypes=TYPES,
                expected=gated, magnitude=_gated_magnitude, tolerance={"float32": Tolerance(8)},
                name=f"{batch}x{steps}x{heads}x{size}x{columns}", **more)  # fmt: skip


CASES = [
    *(_bias(*sizes, both) for both in (0, 1)
      for sizes in ((32, 4, 40, 40, 128), (32, 3, 70, 70, 128), (8, 2, 5, 5, 20), (32, 1, 300, 1100, 128),
                    (64, 2, 33, 1032, 1000), (6, 2, 9, 9, 5), (32, 2, 1, 200, 128), (32, 2, 0, 3, 128))),
    Case(**_BIAS, inputs=[Rand((32, 2), specials=True), Of([50], "int64"), Of([50], "int64")], dtypes=TYPES,
         attrs={"max_distance": 64, "is_bidirectional": 1}, tolerance=EXACT, expected=bias, name="specials"),
    Case(**_BIAS, inputs=[Rand((9, 2)), Of([5], "int64"), Of([5], "int64")], **_REFUSED,
         attrs={"max_distance": 20, "is_bidirectional": 1}, error=("INVALID_ARGUMENT", "an even number")),
    Case(**_BIAS, inputs=[Rand((32, 2)), Of([5], "int64"), Of([5], "int64")], **_REFUSED,
         attrs={"max_distance": 16}, error=("INVALID_ARGUMENT", "max_distance 16 must be more than the 16")),
    Case(**_BIAS, inputs=[Rand((32, 2)), Of([-5], "int64"), Of([5], "int64")], **_REFUSED,
         attrs={"max_distance": 128}, error=("INVALID_ARGUMENT", "query_length")),
    _gated(2, 5, 3, 16, 8),
    _gated(1, 64, 2, 64, 8),
    _gated(3, 9, 2, 40, 2),
    _gated(2, 8, 1, 3, 70),
    _gated(2, 0, 3, 16, 8),
    Case(**_GATED, inputs=_inputs(2, 4, 2, 16, 8, [[0, 1, 2, 4], [5, 3, 6, 7]], 5), attrs={"num_heads": 2},
         dtypes=TYPES, magnitude=_gated_magnitude, tolerance={"float32": Tolerance(8)}, expected=gated, name="packed"),
    Case(**_GATED, inputs=_inputs(2, 4, 2, 16, 8, [[0, 1, 2, 4], [5, 3, 6, 7]], 9), attrs={"num_heads": 2}, **_REFUSED,
         error=("INVALID_ARGUMENT", "more tokens than token_offset")),
    Case(**_GATED, inputs=_inputs(2, 4, 2, 16, 7), attrs={"num_heads": 2}, **_REFUSED,
         error=("INVALID_ARGUMENT", "weight [16,7] must be [16, an even number]")),
    Case(**_GATED, inputs=_inputs(2, 4, 2, 16, 8), attrs={"num_heads": 3}, **_REFUSED,
         error=("INVALID_ARGUMENT", "num_heads 3 does not divide 32")),
]  # fmt: skip
