"""Comparison of a result with its reference."""

import warnings

import numpy as np

from .dtypes import is_float, name_of
from .tolerances import Tolerance

_SHOWN = 3  # differing elements in a message


def difference(got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> str | None:
    """What is wrong with `got`, or None. `wanted` may be of a wider type. NaN equals NaN; infinities must match."""
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, expected {list(wanted.shape)}"
    if got.dtype == np.bool_ and np.any(got.view(np.uint8) > 1):
        return "a bool that is neither 0 nor 1"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # values beyond the type's range become infinities on purpose
        rounded = wanted.astype(got.dtype)
        if is_float(name_of(got)) or got.dtype.kind == "c":
            bad, errors = _float_errors(got, wanted, rounded, tolerance)
        else:
            bad = got != rounded
            errors = bad.astype(np.float64)
    if not np.any(bad):
        return None
    return _describe(got, rounded, bad, errors, tolerance)


def _float_errors(
    got: np.ndarray, wanted: np.ndarray, rounded: np.ndarray, tolerance: Tolerance
) -> tuple[np.ndarray, np.ndarray]:
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    actual, exact = got.astype(wide), wanted.astype(wide)
    same = (actual == rounded.astype(wide)) | (np.isnan(actual) & np.isnan(rounded.astype(wide)))
    errors = np.where(same, 0.0, np.abs(actual - exact) / np.maximum(tolerance.floor, np.abs(exact)))
    errors = np.where(np.isfinite(errors), errors, np.inf)
    return errors > tolerance.relative, errors


def _describe(got: np.ndarray, wanted: np.ndarray, bad: np.ndarray, errors: np.ndarray, tolerance: Tolerance) -> str:
    flat = np.flatnonzero(bad)
    worst = flat[np.argsort(-errors.reshape(-1)[flat], kind="stable")]
    lines = [f"{flat.size} of {bad.size} elements differ, error up to {errors.max():.3g} (allowed: {tolerance})"]
    for index in worst[:_SHOWN]:
        place = [int(axis) for axis in np.unravel_index(index, got.shape)]
        lines.append(f"  at {place}: got {got.reshape(-1)[index]}, expected {wanted.reshape(-1)[index]}")
    return "\n".join(lines)
