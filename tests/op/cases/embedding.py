"""Embedding, which compiled regions make of rows of tables that are added up and normalised."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, T
from ..harness.schemas import FUSED_DOMAIN

_OP: dict[str, Any] = {"op": "Embedding", "domain": FUSED_DOMAIN}
WORDS, PLACES, KINDS = 11, 9, 2


def _sum(*inputs: Any) -> np.ndarray:
    def rows(table: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
        if ids is None:
            return table
        inside = (ids >= -len(table)) & (ids < len(table))
        return np.where(inside[..., None], table[np.where(inside, ids, 0)], 0)

    pairs = (*inputs, *[None] * 6)[:6]
    return sum(rows(pairs[i], pairs[i + 1]) for i in range(0, 6, 2) if pairs[i] is not None)


def _normalised(*inputs: Any, epsilon: float = 1e-5, rms: int = 0) -> np.ndarray:
    total, (scale, beta) = _sum(*inputs), (*inputs, None)[6:8]
    centred = total if rms else total - total.mean(-1, keepdims=True)
    y = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + epsilon) * scale
    return y if beta is None else y + beta


def _both(*inputs: Any, **attributes: Any) -> tuple[np.ndarray, np.ndarray]:
    return _normalised(*inputs, **attributes), _sum(*inputs)


def _ids(shape: tuple[int, ...], end: int, kind: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(end).integers(0, end, shape).astype(kind)


def _words(width: int, shape: tuple[int, ...] = (2, 5)) -> list[Any]:
    return [Rand((WORDS, width)), _ids(shape, WORDS)]


def _vectors(width: int) -> list[Any]:
    return [Rand((width,)), Rand((width,))]


def _refused(text: str, *inputs: Any, outputs: tuple[Any, ...] = (T,)) -> Case:
    return Case(**_OP, inputs=list(inputs), dtypes=("float32",), outputs=outputs, error=("INVALID_ARGUMENT", text))


_TYPES = ("float32", "float16", "bfloat16")
_ONE: dict[str, Any] = {"magnitude": lambda *inputs, **a: 8 + np.abs(_normalised(*inputs, **a))}
_TWO: dict[str, Any] = {"magnitude": lambda *inputs, **a: tuple(8 + np.abs(x) for x in _both(*inputs, **a))}
_ADDED: dict[str, Any] = {"expected": _sum, "magnitude": lambda *inputs: 4 + np.abs(_sum(*inputs))}
_PLACES, _KINDS = _ids((1, 5), PLACES, np.int32), _ids((2, 5), KINDS)

CASES = [
    # words, places of one sequence and segments: packs and elements, one and several for each thread, two launches
    *(
        Case(**_OP, inputs=[*_words(width), Rand((PLACES, width)), _PLACES, Rand((KINDS, width)), _KINDS,
                            *_vectors(width)], expected=_both, outputs=(T, T), dtypes=_TYPES, **_TWO)
        for width in (32, 13, 768, 4100, 519, 8200)
    ),
    # the other type of each list of ids
    Case(**_OP, inputs=[Rand((WORDS, 16)), _ids((2, 5), WORDS, np.int32), Rand((PLACES, 16)), _ids((1, 5), PLACES),
                        Rand((KINDS, 16)), _ids((2, 5), KINDS, np.int32), *_vectors(16)], expected=_both,
         outputs=(T, T), dtypes=("float32",), **_TWO),
    # rows of all tokens, behind ones, of one for all, and of the whole batch
    *(
        Case(**_OP, inputs=[*_words(16), Rand(shape), None, None, None, *_vectors(16)], expected=_normalised,
             dtypes=("float32", "float16"), **_ONE)
        for shape in ((5, 16), (1, 5, 16), (16,), (1, 1, 16), (2, 5, 16))
    ),
    # one table, by statistics of both kinds, without a shift
    *(
        Case(**_OP, inputs=[*_words(24), None, None, None, None, Rand((24,))], attrs={"rms": rms, "epsilon": 0.5},
             expected=_normalised, dtypes=_TYPES, **_ONE)
        for rms in (0, 1)
    ),
    # sums alone; tokens of one and of three dimensions
    *(
        Case(**_OP, inputs=[*_words(width, shape), Rand((PLACES, width)), _ids(shape[-1:], PLACES)], dtypes=_TYPES,
             **_ADDED)
        for shape, width in (((2, 5), 64), ((7,), 3), ((2, 3, 4), 8))
    ),
    # ids from the end, and outside of the table as Gather has them: nothing is added
    Case(**_OP, inputs=[Rand((WORDS, 8)), np.array([[-1, -WORDS, WORDS, -WORDS - 1, 0]]),
                        Rand((PLACES, 8)), np.array([0, 1, 2, 1 << 40, -1])], dtypes=("float32",), **_ADDED),
    Case(**_OP, inputs=[*_words(8, (0, 5)), Rand((PLACES, 8)), _PLACES, None, None, *_vectors(8)], expected=_normalised,
         dtypes=("float32",)),
    _refused("does not have rows of 8", *_words(8), Rand((PLACES, 4)), _PLACES),
    _refused("does not repeat over all", *_words(8), Rand((PLACES, 8)), _ids((2, 1), PLACES)),
    _refused("input 6 has shape [4]", *_words(8), None, None, None, None, Rand((4,))),
    _refused("the only output", *_words(8), outputs=(T, T)),
]  # fmt: skip
