"""Comparison of a result with its reference, in units of the last place of the result's type."""

import functools
import warnings

import ml_dtypes
import numpy as np

from .dtypes import NARROW, is_float, name_of
from .tolerances import Tolerance

_SHOWN = 3  # differing elements in a message

Magnitude = np.ndarray | float


def difference(got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance, magnitude: Magnitude = 0.0) -> str | None:
    """What is wrong with `got`, or None. `wanted` may be of a wider type. NaN equals NaN; infinities must match.

    `magnitude` is what the terms of each element add up to without their signs; it broadcasts to the result.
    """
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, expected {list(wanted.shape)}"
    if got.dtype == np.bool_ and np.any(got.view(np.uint8) > 1):
        return "a bool that is neither 0 nor 1"
    flat = np.flatnonzero(~same(got, as_type(wanted, got.dtype)))
    errors = np.ones(flat.shape)
    if flat.size and is_float(name_of(got)):
        scale = np.broadcast_to(magnitude, got.shape).reshape(-1)[flat] if np.ndim(magnitude) else magnitude
        errors, allowed, unit = float_errors(got.reshape(-1)[flat], wanted.reshape(-1)[flat], tolerance, scale)
        bad = ~(errors <= allowed)
        flat, errors = flat[bad], (errors / unit)[bad]
    return _describe(got, wanted, flat, errors, tolerance) if flat.size else None


def as_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` rounded to a type; what is beyond its range becomes infinite or wraps."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return values.astype(dtype)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one type are equal; NaN equals NaN."""
    with np.errstate(all="ignore"):
        return np.asarray((a == b) | ((a != a) & (b != b)))


def ulp(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance of neighbouring numbers of a floating point type at the magnitude of `values`."""
    digits, lowest, highest = _format(dtype)
    with np.errstate(all="ignore"):
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        _, exponent = np.frexp(np.maximum(sizes, 2.0**lowest))
    return np.ldexp(1.0, np.minimum(exponent - 1, highest) - digits)


def epsilon(dtype: np.dtype) -> float:
    """The relative distance of numbers in the type that sums of `dtype` are formed in."""
    return 2.0 ** -_format(np.dtype(np.float32) if dtype.name in NARROW else dtype)[0]


@functools.cache
def _format(dtype: np.dtype) -> tuple[int, int, int]:
    """Digits after the point, and the exponents of the smallest normal and of the largest number."""
    info = ml_dtypes.finfo(dtype)
    return int(info.nmant), int(info.minexp), int(info.maxexp) - 1


def float_errors(
    got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance, magnitude: Magnitude = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each element its error, the largest allowed one, and an ulp."""
    exact = wanted.astype(np.float64)
    unit = ulp(exact, got.dtype)
    with np.errstate(all="ignore"):
        errors = np.abs(got.astype(np.float64) - exact)
        slack = tolerance.abs + tolerance.terms * epsilon(got.dtype) * np.asarray(magnitude, np.float64)
        allowed = tolerance.ulps * unit + np.where(np.isfinite(slack), slack, 0.0)
    errors = np.where(same(got, as_type(wanted, got.dtype)), 0.0, errors)
    return np.where(np.isfinite(errors), errors, np.inf), np.broadcast_to(allowed, errors.shape), unit


def _describe(got: np.ndarray, wanted: np.ndarray, flat: np.ndarray, errors: np.ndarray, tolerance: Tolerance) -> str:
    """`errors`: of the elements at the positions `flat`."""
    chosen = np.argpartition(-errors, _SHOWN)[:_SHOWN] if errors.size > _SHOWN else np.arange(errors.size)
    unit = " ulps" if is_float(name_of(got)) else ""
    lines = [f"{flat.size} of {got.size} elements differ, error up to {errors.max():.3g}{unit} (allowed: {tolerance})"]
    for index in flat[chosen[np.argsort(-errors[chosen], kind="stable")]]:
        place = [int(axis) for axis in np.unravel_index(index, got.shape)]
        expected = as_type(wanted.reshape(-1)[index : index + 1], got.dtype)[0]
        lines.append(f"  at {place}: got {got.reshape(-1)[index]}, expected {expected}")
    return "\n".join(lines)
