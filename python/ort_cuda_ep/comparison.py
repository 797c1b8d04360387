"""Largest differences between two lists of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Difference:
    """`max_abs` and `max_rel` over the finite values; `ok` also asks for equal shapes, types, NaN and Inf."""

    max_abs: float
    max_rel: float
    ok: bool


def compare(actual: Sequence[Any], expected: Sequence[Any], atol: float, rtol: float) -> Difference:
    """Compares array by array: ok when |a - e| <= atol + rtol * |e| everywhere. Text and integers must be equal."""
    parts = [_compare_one(np.asarray(a), np.asarray(e), atol, rtol) for a, e in zip(actual, expected, strict=True)]
    return Difference(
        max((part.max_abs for part in parts), default=0.0),
        max((part.max_rel for part in parts), default=0.0),
        all(part.ok for part in parts),
    )


def _compare_one(actual: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> Difference:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(float("inf"), float("inf"), False)
    if actual.dtype.kind in "OSU":
        return Difference(0.0, 0.0, bool(np.array_equal(actual, expected)))
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide).ravel(), expected.astype(wide).ravel()
    finite = np.isfinite(a) & np.isfinite(e)
    special_equal = bool(np.array_equal(a[~finite], e[~finite], equal_nan=True))
    error, scale = np.abs(a[finite] - e[finite]), np.abs(e[finite])
    if error.size == 0:
        return Difference(0.0, 0.0, special_equal)
    exact = actual.dtype.kind in "biu"
    within = bool(np.all(error == 0)) if exact else bool(np.all(error <= atol + rtol * scale))
    relative = error / np.maximum(scale, np.finfo(np.float64).tiny) * (error > 0)
    return Difference(float(error.max()), float(relative.max()), special_equal and within)
