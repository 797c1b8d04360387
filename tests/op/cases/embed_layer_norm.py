"""EmbedLayerNormalization of com.microsoft."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, T

_OP: dict[str, Any] = {"op": "EmbedLayerNormalization", "domain": "com.microsoft", "constants": (2, 3, 4, 5, 6)}
WORDS, PLACES, KINDS = 11, 9, 2


def _embedded(*inputs: Any, epsilon: float = 1e-12, **_: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids, segments, words, places, kinds, gamma, beta, mask, positions = (*inputs, *[None] * 9)[:9]
    at = np.arange(ids.shape[1])[None] if positions is None else positions
    total = words[ids] + places[at]
    if segments is not None:
        total = total + kinds[segments]
    centred = total - total.mean(-1, keepdims=True)
    normal = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + epsilon)
    counts = np.zeros(len(ids)) if mask is None else (mask == 1).sum(-1)
    return normal * gamma + beta, counts.astype(np.int32), total


def _kept(*inputs: Any, **attributes: Any) -> tuple[np.ndarray, np.ndarray]:
    return _embedded(*inputs, **attributes)[:2]


def _ids(shape: tuple[int, ...], end: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, end, shape).astype(np.int32)


def _tables(width: int, segments: bool = True) -> list[Any]:
    kinds = Rand((KINDS, width)) if segments else None
    return [Rand((WORDS, width)), Rand((PLACES, width)), kinds, Rand((width,)), Rand((width,))]


_IDS, _SEGMENTS = _ids((2, 5), WORDS), _ids((2, 5), KINDS, 1)
_MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
_HOST = {"session": "the host's shape inference may refuse first"}
_BIG: dict[str, Any] = {"magnitude": lambda *inputs, **a: tuple(8 + np.abs(x) for x in _embedded(*inputs, **a))}

CASES = [
    *(
        Case(**_OP, inputs=[_IDS, _SEGMENTS, *_tables(width), _MASK], expected=_embedded, attrs={"epsilon": 1e-5},
             outputs=(T, "int32", T), dtypes=("float32", "float16"), **_BIG)
        for width in (32, 13)
    ),
    # places of one sequence for the batch, and of each
    *(
        Case(**_OP, inputs=[_IDS, _SEGMENTS, *_tables(16), None, _ids((rows, 5), PLACES, 2)], expected=_embedded,
             outputs=(T, "int32", T), dtypes=("float32",), **_BIG)
        for rows in (1, 2)
    ),
    Case(**_OP, inputs=[_IDS, None, *_tables(768, segments=False)], expected=_kept, dtypes=("float32",),
         outputs=(T, "int32"),
         magnitude=lambda *inputs, **a: (8 + np.abs(_kept(*inputs, **a)[0]), _kept(*inputs, **a)[1])),
    Case(**_OP, inputs=[_ids((0, 5), 1), None, *_tables(16, segments=False)], expected=_kept, dtypes=("float32",),
         outputs=(T, "int32")),
    Case(**_OP, inputs=[_ids((2,), 1), None, *_tables(8, segments=False)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input_ids"), skip=_HOST),
    Case(**_OP, inputs=[_ids((1, 10), 1), None, *_tables(8, segments=False)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "shorter than 10"), outputs=(T, "int32")),
    Case(**_OP, inputs=[_IDS, _SEGMENTS, *_tables(8, segments=False)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "come together"), outputs=(T, "int32")),
    Case(**_OP, inputs=[_IDS, _SEGMENTS, *_tables(8)], attrs={"mask_index_type": 2}, dtypes=("float32",),
         error=("NOT_SUPPORTED", "mask_index_type 2"), outputs=(T, "int32")),
    Case(**_OP, inputs=[_IDS, _SEGMENTS, *_tables(8), _ids((2, 4), 2)], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 7"), skip=_HOST),
    Case(**_OP, inputs=[_IDS, None, Rand((WORDS, 8)), Rand((PLACES, 4)), None, Rand((8,)), Rand((8,))],
         dtypes=("float32",), error=("INVALID_ARGUMENT", "rows of 8"), skip=_HOST),
]  # fmt: skip
