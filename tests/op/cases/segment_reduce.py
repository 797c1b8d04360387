"""SegmentReduce, which compiled regions make of Loops over bags of embeddings."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, T
from ..harness.schemas import FUSED_DOMAIN

WORDS = 11


def _rows(rows: np.ndarray, indices: np.ndarray | None, weights: np.ndarray | None) -> np.ndarray:
    if indices is not None:
        inside = (indices >= -len(rows)) & (indices < len(rows))
        padded = np.concatenate([rows, np.zeros_like(rows, shape=(1, rows.shape[1]))])
        rows = padded[np.where(inside, indices % max(len(rows), 1), -1)]
    return rows if weights is None else rows * weights[:, None]


def _reduced(reduction: str, rows: np.ndarray, length: int) -> np.ndarray:
    if reduction == "max":
        return rows.max(0, initial=-np.inf)
    return rows.sum(0) / (max(length, 1) if reduction == "mean" else 1)


def _segments(*inputs: Any, reduction: str, empty_is_zero: int = 0, counted: int = -1) -> np.ndarray:
    table, starts, ends, count, condition, like, indices, weights, tail = (*inputs, *[None] * 9)[:9]
    starts = starts if tail is None else np.concatenate([starts, tail])
    counted = counted if like is None else len(like)
    rows = _rows(table, indices, weights)
    count = int(np.ravel(count)[0])
    if condition is not None:
        count = max(count, 1) if condition else 0
    made = np.zeros((max(count, 0), table.shape[1]), rows.dtype)
    for b in range(len(made)):
        start, end = int(starts[b]), int(starts[b + 1] if ends is None else ends[b])
        segment = rows[start:end]
        length = len(segment) if counted < 0 or b < len(made) - 1 else counted - start
        made[b] = _reduced(reduction, segment, length)
        if empty_is_zero and start == end:
            made[b] = 0
    return made


_OFFSETS = np.array([0, 3, 3, 4, 9, 10, 17])
# Slice counts negative positions from the end and cuts the others; an end before its start gives nothing.
_ODD_STARTS = np.array([-2, 5, 0, 40, -40, 3, 1])
_ODD_ENDS = np.array([17, 2, 99, 50, -15, 3, -1])
_TYPES = ("float32", "float16", "bfloat16")
_REDUCTIONS = ("sum", "mean", "max")


def _magnitude(rows: np.ndarray, *others: Any, **attributes: Any) -> np.ndarray:
    absolute = [*others[:6], *(None if weights is None else np.abs(weights) for weights in others[6:7]), *others[7:]]
    return np.abs(np.nan_to_num(_segments(np.abs(rows), *absolute, **attributes)))


def _count(count: int) -> np.ndarray:
    return np.array(count)


def _indices(length: int, kind: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(length).integers(-WORDS, WORDS, length).astype(kind)


def _case(*inputs: Any, reduction: str = "sum", dtypes: tuple[str, ...] = ("float32",), zero: int = 0,
          attrs: dict[str, Any] | None = None, **more: Any) -> Case:  # fmt: skip
    given = {"reduction": reduction} | ({"empty_is_zero": 1} if zero else {}) | (attrs or {})
    return Case(op="SegmentReduce", domain=FUSED_DOMAIN, inputs=list(inputs), dtypes=dtypes, outputs=(T,),
                attrs=given, expected=_segments, magnitude=_magnitude, **more)  # fmt: skip


def _refused(text: str, *inputs: Any, code: str = "INVALID_ARGUMENT", reduction: str = "sum") -> Case:
    return Case(op="SegmentReduce", domain=FUSED_DOMAIN, inputs=list(inputs), dtypes=("float32",), outputs=(T,),
                attrs={"reduction": reduction}, error=(code, text))  # fmt: skip


_TABLE, _WEIGHTS = Rand((WORDS, 16)), Rand((17,))
_SIX = _count(6)

CASES = [
    # rows themselves: packs and elements, fewer threads than columns, more and as many
    *(_case(Rand((17, width)), _OFFSETS, None, _SIX, reduction=reduction, dtypes=_TYPES)
      for width in (16, 1, 13, 200, 513) for reduction in _REDUCTIONS),
    # rows of a table, with a weight each, in both orders of types
    *(_case(Rand((WORDS, width)), _OFFSETS.astype(np.int32), None, _SIX, None, None, _indices(17, kind), weights,
            reduction=reduction, dtypes=_TYPES)
      for width, kind, weights in ((64, np.int64, None), (24, np.int32, Rand((17,))), (5, np.int64, Rand((17,))))
      for reduction in _REDUCTIONS),
    # positions as Slice takes them, from two lists
    *(_case(Rand((17, 8)), _ODD_STARTS, _ODD_ENDS.astype(kind), _count(7), reduction=reduction, zero=zero,
            name=f"odd-{reduction}-{zero}")
      for reduction in _REDUCTIONS for zero, kind in ((0, np.int32), (1, np.int64))),
    # the last one's mean is over what a list has behind its start, if that is something
    *(_case(Rand((17, 8)), _OFFSETS, None, _SIX, np.array(True), np.zeros(counted, kind), reduction="mean",
            zero=1, name=f"counted-{counted}")
      for counted, kind in ((17, np.int64), (40, np.int32), (10, np.int64), (3, np.int64))),
    _case(Rand((17, 8)), _OFFSETS, None, _SIX, reduction="mean", attrs={"counted": 12}, name="counted-as-stated"),
    # as often as both say: once at least where the condition holds, never where it does not, at most as there are
    *(_case(Rand((17, 8)), _OFFSETS, None, _count(count), condition, name=f"count-{count}-{condition}")
      for count, condition in ((4, None), (0, None), (-3, None), (4, np.array(True)), (0, np.array(True)),
                               (4, np.array(False)))),
    _case(Rand((17, 8)), _OFFSETS, None, np.array([5]), name="count-of-one-dimension"),
    # long segments and many; none of a table, and of no rows
    _case(Rand((3000, 8)), np.array([0, 2993, 3000]), None, _count(2), dtypes=_TYPES),
    _case(Rand((700, 4)), np.arange(701), None, _count(700), reduction="max"),
    _case(Rand((WORDS, 16)), np.zeros(4, np.int64), None, _count(3), None, None, np.zeros(0, np.int64), name="nothing"),
    _case(Rand((0, 16)), np.array([0, 2, 3]), None, _count(2), None, None, np.array([0, 1, -1]), name="no-table"),
    _case(Rand((17, 0)), _OFFSETS, None, _SIX),
    # ids outside of the table are rows of zeros, as Gather has them: also for a maximum
    *(_case(Rand((WORDS, 8), low=-3, high=-1), np.array([0, 2, 4, 6]), None, _count(3), None, None,
            np.array([0, WORDS, -WORDS - 1, -WORDS, 1 << 40, -1]), reduction=reduction, name=f"outside-{reduction}")
      for reduction in _REDUCTIONS),
    # NaN and infinities
    *(_case(Rand((17, 8), specials=True), _OFFSETS, None, _SIX, reduction=reduction, dtypes=_TYPES,
            name=f"specials-{reduction}")
      for reduction in _REDUCTIONS),
    # the end of the last one by itself, where all are asked for and where not
    *(_case(_TABLE, _OFFSETS[:6].astype(kind), None, _count(count), None, None, _indices(17), weights,
            np.array([end], kind), reduction="mean", name=f"tail-{count}-{end}")
      for count, end, kind, weights in ((6, 17, np.int64, _WEIGHTS), (6, -2, np.int32, None), (4, 17, np.int64, None))),
    # one weight for all, one row for all weights
    _case(_TABLE, _OFFSETS, None, _SIX, None, None, _indices(17), Rand((1,)), name="one-weight"),
    _case(_TABLE, _OFFSETS, None, _SIX, None, None, _indices(1), _WEIGHTS, name="one-index"),
    _case(Rand((1, 16)), _OFFSETS, None, _SIX, None, None, None, _WEIGHTS, name="one-row"),
    _refused("6 segments begin and end in lists of [6]", Rand((17, 8)), _OFFSETS[:6], None, _SIX),
    _refused("6 segments begin and end in lists of [7] and [5]", Rand((17, 8)), _OFFSETS, _OFFSETS[:5], _SIX),
    _refused("rows of [17,8,1] are no matrix", Rand((17, 8, 1)), _OFFSETS, None, _SIX),
    _refused("a list of [1,7] must have one dimension", Rand((17, 8)), _OFFSETS[None], None, _SIX),
    _refused("7 segments begin and end in lists of [6]", Rand((17, 8)), _OFFSETS[:6], None, _count(7), None, None, None,
             None, np.array([17])),
    _refused("a last end of [2]", Rand((17, 8)), _OFFSETS, None, _SIX, None, None, None, None, np.array([1, 2])),
    _refused("a last end of [1] beside a list", Rand((17, 8)), _OFFSETS, _OFFSETS, _SIX, None, None, None, None,
             np.array([1])),
    _refused("a scalar has no length", Rand((17, 8)), _OFFSETS, None, _SIX, None, np.array(3)),
    _refused("the number of segments has 2 elements", Rand((17, 8)), _OFFSETS, None, np.array([1, 2])),
    _refused("[16]", _TABLE, _OFFSETS, None, _SIX, None, None, _indices(17), Rand((16,))),
    _refused("reduction 'min'", Rand((17, 8)), _OFFSETS, None, _SIX, reduction="min"),
]  # fmt: skip
