"""QuantizedAttention, which compiled regions make of products of codes and the Softmax of codes between them."""

from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT

_STEPS = {
    "scores": [2.0**-10, -128.0 + 5, 127.0 + 5],
    "scaled": [0.375, -128.0 - 30, 127.0 - 30],
    "shares": [255.0, 0.0, 255.0],
    "result": [2.0**-9, -128.0 - 3, 127.0 - 3],
}
_MASKED = [0.875, -200.0, 55.0]


def _whole(step: list[float], x: np.ndarray, added: Any = 0) -> np.ndarray:
    factor, least, most = step
    return np.clip(np.rint(np.float32(factor) * x.astype(np.float32) + np.float32(added)), least, most)


def _attention(q, k, v, mask=None, *, dtype, scores, shares, result, exponent, scaled=None, masked=None, q_perm=None,
               k_perm=None, v_perm=None, y_perm=None, q_zero=0, k_zero=0, v_zero=0, y_zero=0, mask_zero=0,
               mask_factor=1.0):  # fmt: skip
    def turned(x, perm, zero):
        return np.transpose(x.astype(np.int64) - zero, perm or (0, 1, 2, 3))

    q, k, v = turned(q, q_perm, q_zero), turned(k, k_perm, k_zero), turned(v, v_perm, v_zero)
    r = _whole(scores, q @ np.swapaxes(k, -1, -2))
    if scaled is not None:
        r = _whole(scaled, r)
    if mask is not None:
        zero = mask_zero if np.issubdtype(mask.dtype, np.integer) else 0
        r = _whole(masked, r, (mask.astype(np.float32) - np.float32(zero)) * np.float32(mask_factor))
    powers = np.exp2((r - r.max(-1, keepdims=True)) * np.float64(np.float32(exponent)))
    share = _whole(shares, powers / powers.sum(-1, keepdims=True))
    y = _whole(result, share.astype(np.int64) @ v) + y_zero
    return np.transpose(y, y_perm or (0, 1, 2, 3)).astype(dtype)


def _case(batch: int, heads: int, queries: int, keys: int, size: int, mask: Input = None, dtype: str = "int8",
          scaled: bool = True, rows_first: bool = True, **more: Any) -> Case:  # fmt: skip
    """`rows_first`: tensors lie as [batch, rows, heads, elements]."""
    attrs: dict[str, Any] = {name: step for name, step in _STEPS.items() if scaled or name != "scaled"}
    attrs |= {"exponent": 0.0625, "q_zero": 4, "k_zero": -7, "v_zero": 9, "y_zero": 3 if dtype == "int8" else 131}
    perm = [0, 2, 1, 3]
    if rows_first:
        attrs |= {"q_perm": perm, "k_perm": perm, "v_perm": perm, "y_perm": perm}
    if mask is not None:
        attrs |= {"masked": _MASKED, "mask_factor": 0.5, "mask_zero": 100}

    def shape(rows: int) -> tuple[int, ...]:
        return (batch, rows, heads, size) if rows_first else (batch, heads, rows, size)

    inputs: list[Input] = [Rand(shape(rows), "int8", full=True) for rows in (queries, keys, keys)]
    if mask is not None:
        inputs.append(mask)
    return Case(op="QuantizedAttention", domain=FUSED_DOMAIN, inputs=inputs, attrs=attrs, outputs=[dtype],
                expected=lambda *given, **of: _attention(*given, dtype=dtype, **of), tolerance=EXACT,
                name=more.pop("name", f"{batch}x{heads}x{queries}x{keys}x{size}-{dtype}-{int(mask is not None)}"),
                **more)  # fmt: skip


def _refused(text: str, code: str = "INVALID_ARGUMENT", shapes: tuple[tuple[int, ...], ...] = ((1, 2, 3, 16),) * 3,
             mask: Input = None, **attrs: Any) -> Case:  # fmt: skip
    inputs: list[Input] = [Rand(shape, "int8") for shape in shapes]
    given = {**_STEPS, "masked": _MASKED, "exponent": 0.0625, "y_zero": 3} | attrs
    return Case(op="QuantizedAttention", domain=FUSED_DOMAIN, inputs=inputs + ([] if mask is None else [mask]),
                attrs=given, outputs=["int8"], error=(code, text), name=text[:24])  # fmt: skip


def _key_mask(batch: int, keys: int) -> np.ndarray:
    mask = np.zeros((batch, 1, 1, keys), np.float32)
    mask[..., keys - keys // 3 :] = np.finfo(np.float32).min
    return mask


CASES = [
    # one tile of keys and parts of it, several, rows of several blocks, heads that are not whole
    _case(2, 3, 128, 128, 64, _key_mask(2, 128)), _case(1, 2, 1, 5, 16), _case(2, 2, 70, 129, 48, _key_mask(1, 129)),
    _case(1, 3, 65, 300, 32, rows_first=False), _case(2, 1, 16, 257, 64, Rand((2, 1, 1, 257), "uint8", full=True)),
    _case(1, 2, 20, 128, 64, Rand((1, 1, 1, 128), "int8", full=True), scaled=False, name="codes-of-mask"),
    _case(1, 2, 33, 64, 64, dtype="uint8", scaled=False, rows_first=False),
    _case(0, 2, 4, 4, 16), _case(1, 2, 0, 4, 16),
    # more blocks than any device shares rows among warps for
    _case(9, 30, 3, 70, 16, _key_mask(9, 70)),
    _refused("is not a permutation", k_perm=[0, 1, 1, 3]),
    _refused("moves the elements", "NOT_SUPPORTED", q_perm=[0, 1, 3, 2]),
    _refused("v_zero 128 is no code", v_zero=128),
    _refused("exponent and mask_factor must", exponent=0.0),
    _refused("needs 3 values", scores=[1.0]),
    _refused("a positive factor", shares=[0.0, 0.0, 255.0]),
    _refused("and codes around 0", shares=[1.0, -0.5, 254.5]),
    _refused("codes around 0, are", shares=[1.0, -300.0, -45.0]),
    _refused("not the codes of y", y_zero=4),
    _refused("attention of", shapes=((1, 2, 3, 16), (1, 2, 3, 16), (1, 2, 4, 16))),
    _refused("must have 4 dimensions", shapes=((2, 3, 16), (1, 2, 3, 16), (1, 2, 3, 16))),
    _refused("has no number for each", mask=Rand((1, 1, 3, 3), "float32")),
    _refused("in heads of 72", "NOT_SUPPORTED", shapes=((1, 2, 3, 72),) * 3),
]  # fmt: skip
