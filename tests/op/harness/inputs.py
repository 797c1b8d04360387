"""Input values of a case: given, or drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .dtypes import is_float, numpy_dtype

T = "T"  # as a type: the one of the case's sweep

_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0)


@dataclass(frozen=True)
class Rand:
    """Random values: floats in [-4, 4), integers in [-8, 8] (unsigned: [0, 16]), unless `low` and `high` are given.

    full: integers of the whole range of their type. nonzero: no value near 0, for divisors.
    specials: some floats are NaN, infinite, or a signed zero, at random places.
    """

    shape: Sequence[int]
    dtype: str = T
    low: float | None = None
    high: float | None = None
    full: bool = False
    nonzero: bool = False
    specials: bool = False

    def draw(self, dtype: str, generator: np.random.Generator) -> np.ndarray:
        """The values, in the type `dtype`."""
        target = numpy_dtype(dtype)
        shape = tuple(self.shape)
        if dtype == "bool":
            return generator.integers(0, 2, shape).astype(target)
        if target.kind == "c":
            return (generator.uniform(-4, 4, shape) + 1j * generator.uniform(-4, 4, shape)).astype(target)
        if is_float(dtype):
            return self._floats(generator, shape).astype(target)
        return self._integers(generator, shape, target)

    def _floats(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        low = -4.0 if self.low is None else self.low
        high = 4.0 if self.high is None else self.high
        values = np.asarray(generator.uniform(low, high, shape))
        if self.nonzero:
            values = np.where(np.abs(values) < 0.25, 0.25 + np.abs(values), values)
        if self.specials:
            special = generator.choice(np.array(_SPECIALS), shape)
            values = np.where(generator.random(shape) < 0.2, special, values)
        return values

    def _integers(self, generator: np.random.Generator, shape: tuple[int, ...], target: np.dtype) -> np.ndarray:
        limits: Any = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
        if self.full:
            low, high = int(limits.min), int(limits.max)
        else:
            low = int(self.low) if self.low is not None else max(-8, int(limits.min))
            high = int(self.high) if self.high is not None else min(8 if limits.min < 0 else 16, int(limits.max))
        wide = target if target.kind in "iu" else np.dtype(np.int64)
        values = np.asarray(generator.integers(low, high, shape, dtype=wide, endpoint=True)).astype(target)
        return np.where(values == 0, target.type(1), values) if self.nonzero else values


@dataclass(frozen=True)
class Of:
    """Given values in a type, by default the one of the sweep."""

    values: Any
    dtype: str = T

    def draw(self, dtype: str, _: np.random.Generator) -> np.ndarray:
        """The values, in the type `dtype`."""
        return np.asarray(self.values).astype(numpy_dtype(dtype))


Input = Rand | Of | np.ndarray | None  # None: an absent optional input


def materialize(spec: Input, sweep: str, generator: np.random.Generator) -> np.ndarray | None:
    """The values of an input, contiguous; `sweep` is the type that T stands for."""
    if spec is None:
        return None
    if isinstance(spec, np.ndarray):
        return np.ascontiguousarray(spec).reshape(spec.shape)  # rank 0 stays rank 0
    dtype = sweep if spec.dtype == T else spec.dtype
    array = np.asarray(spec.draw(dtype, generator))
    return np.ascontiguousarray(array).reshape(array.shape)


def changed(spec: Input, first: np.ndarray | None, sweep: str, generator: np.random.Generator) -> np.ndarray | None:
    """Other values for the same input: drawn anew, or the given ones in another order."""
    if first is None:
        return None
    if isinstance(spec, Rand):
        return materialize(spec, sweep, generator)
    return np.roll(first.reshape(-1), 1).reshape(first.shape)


def shape_of(spec: Rand | Of | np.ndarray) -> Sequence[int]:
    """The dimensions of an input."""
    return spec.shape if isinstance(spec, Rand | np.ndarray) else np.asarray(spec.values).shape


def label(spec: Input) -> str:
    """A few characters that tell an input from others: its shape."""
    return "absent" if spec is None else "x".join(map(str, shape_of(spec))) or "scalar"
