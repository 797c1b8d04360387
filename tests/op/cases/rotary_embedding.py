"""RotaryEmbedding of ONNX and com.microsoft: layouts, partial and interleaved rotation, all forms of positions; and
that of compiled regions, which has caches as models compute them."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN


def rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int = 0, dim: int = 0) -> np.ndarray:
    """[batch, rows, heads, size] by [batch, rows, dim / 2]."""
    dim = dim or x.shape[-1]
    first, rest = x[..., :dim], x[..., dim:]
    a, b = (first[..., ::2], first[..., 1::2]) if interleaved else (first[..., : dim // 2], first[..., dim // 2 :])
    cos, sin = cos[:, :, None], sin[:, :, None]
    pair = a * cos - b * sin, a * sin + b * cos
    turned = np.stack(pair, -1).reshape(first.shape) if interleaved else np.concatenate(pair, -1)
    return np.concatenate([turned, rest], -1)


def _expected(
    x: np.ndarray, cos: np.ndarray, sin: np.ndarray, ids: np.ndarray | None = None, num_heads: int = 0,
    interleaved: int = 0, rotary_embedding_dim: int = 0, **_: int,
) -> np.ndarray:  # fmt: skip
    dim = rotary_embedding_dim or 0
    heads_first = x.ndim == 4
    heads = num_heads or (x.shape[-1] // (2 * cos.shape[-1]))
    rows = x.swapaxes(1, 2) if heads_first else x.reshape(*x.shape[:2], heads, -1)
    if ids is not None:
        at = np.tile(ids[0] + np.arange(rows.shape[1]), (rows.shape[0], 1)) if ids.shape == (1,) else ids
        inside = ((at >= 0) & (at < cos.shape[0]))[..., None]
        cos, sin = (np.where(inside, table[np.clip(at, 0, cos.shape[0] - 1)], 0) for table in (cos, sin))
    result = rotate(rows, cos, sin, interleaved, dim)
    return result.swapaxes(1, 2) if heads_first else result.reshape(x.shape)


def _magnitude(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, ids: np.ndarray | None = None, **attrs: int) -> Any:
    """Both signs of the sine, so that neither half of a pair cancels."""
    return _expected(np.abs(x), np.abs(cos), -np.abs(sin), ids, **attrs) + _expected(
        np.abs(x), np.abs(cos), np.abs(sin), ids, **attrs
    ).clip(0)


def _microsoft(x: np.ndarray, ids: np.ndarray, cos: np.ndarray, sin: np.ndarray, **attrs: int) -> Any:
    return _expected(x, cos, sin, ids, **attrs)


def _microsoft_magnitude(x: np.ndarray, ids: np.ndarray, cos: np.ndarray, sin: np.ndarray, **attrs: int) -> Any:
    return _magnitude(x, cos, sin, ids, **attrs)


TYPES = ("float32", "float16", "bfloat16")
IDS = [[3, 0, 8], [5, 6, 7]]


def _onnx(x: tuple[int, ...], cache: tuple[int, ...], ids: Any = None, name: str = "", **attrs: int) -> Case:
    inputs: list[Input] = [Rand(x), Rand(cache, low=-1, high=1), Rand(cache, low=-1, high=1)]
    if ids is not None:
        inputs.append(Of(ids, "int64"))
    return Case(op="RotaryEmbedding", opset=23, inputs=inputs, attrs=attrs, expected=_expected,
                magnitude=_magnitude, dtypes=TYPES,
                name=name or "-".join(["x".join(map(str, x)), "x".join(map(str, cache)), *attrs]))  # fmt: skip


def _contrib(x: tuple[int, ...], cache: tuple[int, ...], ids: Any, name: str = "", **attrs: int) -> Case:
    inputs = [Rand(x), Of(ids, "int64"), Rand(cache, low=-1, high=1), Rand(cache, low=-1, high=1)]
    return Case(op="RotaryEmbedding", domain=MICROSOFT, opset=1, inputs=inputs, attrs=attrs, expected=_microsoft,
                magnitude=_microsoft_magnitude, dtypes=TYPES,
                name=name or "-".join(["x".join(map(str, x)), "x".join(map(str, cache)), *attrs]))  # fmt: skip


def _turned(x: np.ndarray, interleaved: int) -> np.ndarray:
    if interleaved:
        return np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    a, b = np.split(x, 2, -1)
    return np.concatenate([-b, a], -1)


def rotate_each(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int = 0) -> np.ndarray:
    """By caches that broadcast to the first elements of `x` and have their own element for each."""
    first, rest = np.split(x, [cos.shape[-1]], -1)
    return np.concatenate([first * cos + _turned(first, interleaved) * sin, rest], -1)


def _each_magnitude(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int = 0) -> np.ndarray:
    first = np.abs(x[..., : cos.shape[-1]])
    other = np.abs(_turned(first, interleaved))
    return np.concatenate([first * np.abs(cos) + other * np.abs(sin), np.abs(x[..., cos.shape[-1] :])], -1)


def _fused(x: tuple[int, ...], cache: tuple[int, ...], **attrs: int) -> Case:
    return Case(op="RotaryEmbedding", domain=FUSED_DOMAIN, attrs=attrs,
                inputs=[Rand(x), Rand(cache, low=-1, high=1), Rand(cache, low=-1, high=1)],
                expected=rotate_each, magnitude=_each_magnitude, dtypes=TYPES)  # fmt: skip


def _fused_refused(text: str, *shapes: tuple[int, ...]) -> Case:
    return Case(op="RotaryEmbedding", domain=FUSED_DOMAIN, inputs=[Rand(shape) for shape in shapes],
                dtypes=("float32",), error=("INVALID_ARGUMENT", text), name=text.replace(" ", "_"))  # fmt: skip


def _refused(text: str, *inputs: Input, domain: str = "", **attrs: int) -> Case:
    return Case(op="RotaryEmbedding", domain=domain, opset=23 if not domain else 1, inputs=inputs, attrs=attrs,
                dtypes=("float32",), error=("INVALID_ARGUMENT", text), name=text.replace(" ", "_"),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


CASES = [
    *(_onnx(x, cache, ids, interleaved=interleaved, **attrs)
      for interleaved in (0, 1)
      for x, cache, ids, attrs in (
          ((2, 4, 3, 8), (9, 4), IDS, {}),
          ((2, 4, 3, 32), (2, 3, 16), None, {}),
          ((2, 3, 40), (9, 5), IDS, {"num_heads": 4}),
          ((2, 3, 64), (2, 3, 8), None, {"num_heads": 2, "rotary_embedding_dim": 16}),
          ((2, 2, 3, 10), (9, 3), IDS, {"rotary_embedding_dim": 6}),
          ((1, 3, 5, 64), (1, 5, 24), None, {"rotary_embedding_dim": 48}),
      )),
    _onnx((0, 2, 3, 8), (9, 4), np.zeros((0, 3))),
    _onnx((2, 2, 0, 8), (2, 0, 4)),
    _onnx((2, 3, 70, 128), (2, 70, 64)),
    *(_contrib(x, cache, ids, interleaved=interleaved, **attrs)
      for interleaved in (0, 1)
      for x, cache, ids, attrs in (
          ((2, 4, 3, 8), (9, 4), IDS, {}),
          ((2, 3, 40), (9, 5), IDS, {}),
          ((2, 3, 40), (9, 5), IDS, {"num_heads": 4}),
          ((2, 3, 64), (9, 16), [4], {"is_packed_batching": 0}),
          ((2, 3, 64), (9, 8), [6], {"num_heads": 2, "rotary_embedding_dim": 16, "is_packed_batching": 1}),
      )),
    *(_fused(x, cache)
      for x, cache in (
          ((2, 4, 3, 8), (1, 1, 3, 8)), ((2, 4, 3, 8), (2, 1, 3, 8)), ((2, 4, 3, 32), (1, 3, 32)),
          ((2, 4, 3, 32), (3, 32)), ((2, 3, 4, 32), (2, 3, 1, 32)), ((2, 3, 4, 32), (3, 1, 32)),
          ((2, 2, 3, 48), (2, 1, 3, 16)), ((2, 2, 3, 10), (1, 1, 3, 6)), ((2, 1, 4, 16), (1, 1, 1, 16)),
          ((3, 4, 1, 16), (1, 1, 1, 16)), ((2, 3, 70, 128), (2, 1, 70, 128)), ((2, 0, 3, 8), (1, 1, 3, 8)),
          ((0, 2, 3, 8), (1, 1, 3, 8)),
      )),
    *(_fused(x, cache, interleaved=1)
      for x, cache in (
          ((2, 4, 3, 8), (1, 1, 3, 8)), ((2, 4, 3, 32), (2, 1, 3, 32)), ((2, 3, 4, 32), (2, 3, 1, 32)),
          ((2, 2, 3, 48), (2, 1, 3, 16)), ((2, 2, 3, 10), (1, 1, 3, 6)), ((2, 3, 70, 128), (2, 1, 70, 128)),
          ((2, 3, 4, 128), (3, 1, 64)), ((2, 0, 3, 8), (1, 1, 3, 8)),
      )),
    _fused_refused("input [2,3,8] must have 4 dimensions", (2, 3, 8), (2, 3, 8), (2, 3, 8)),
    _fused_refused("cos [1,1,2,8] and sin [1,1,2,8] must both", (2, 4, 3, 8), (1, 1, 2, 8), (1, 1, 2, 8)),
    _fused_refused("cos [1,4,3,8] and sin [1,4,3,8] must both", (2, 4, 3, 8), (1, 4, 3, 8), (1, 4, 3, 8)),
    _fused_refused("cos [3,1,3,8] and sin [3,1,3,8] must both", (2, 4, 3, 8), (3, 1, 3, 8), (3, 1, 3, 8)),
    _fused_refused("cos [1,1,3,8] and sin [1,1,3,4] must both", (2, 4, 3, 8), (1, 1, 3, 8), (1, 1, 3, 4)),
    _fused_refused("of heads of 8 elements 10 cannot be rotated", (2, 4, 3, 8), (1, 1, 3, 10), (1, 1, 3, 10)),
    _fused_refused("of heads of 8 elements 5 cannot be rotated", (2, 4, 3, 8), (1, 1, 3, 5), (1, 1, 3, 5)),
    _refused("3 or 4 dimensions", Rand((3, 8)), Rand((3, 4)), Rand((3, 4))),
    _refused("cos_cache [9,4] and sin_cache [9,3]", Rand((2, 2, 3, 8)), Rand((9, 4)), Rand((9, 3)), Of(IDS, "int64")),
    _refused("must have 4 elements", Rand((2, 2, 3, 8)), Rand((9, 3)), Rand((9, 3)), Of(IDS, "int64")),
    _refused("9 cannot be rotated", Rand((2, 2, 3, 9)), Rand((9, 3)), Rand((9, 3)), Of(IDS, "int64")),
    _refused("num_heads 3 does not divide", Rand((2, 3, 8)), Rand((9, 3)), Rand((9, 3)), Of(IDS, "int64"), num_heads=3),
    _refused("without position_ids", Rand((2, 2, 3, 8)), Rand((9, 4)), Rand((9, 4))),
    _refused("must have 2 dimensions", Rand((2, 2, 3, 8)), Rand((2, 3, 4)), Rand((2, 3, 4)), Of(IDS, "int64")),
    _refused("position_ids [1,3]", Rand((2, 2, 3, 8)), Rand((9, 4)), Rand((9, 4)), Of(IDS[:1], "int64")),
    _refused("rotary_embedding_dim 3", Rand((2, 2, 3, 8)), Rand((9, 4)), Rand((9, 4)), rotary_embedding_dim=3),
    _refused("needs num_heads", Rand((2, 3, 16)), Of([1], "int64"), Rand((9, 2)), Rand((9, 2)), domain=MICROSOFT,
             rotary_embedding_dim=4),
]  # fmt: skip
