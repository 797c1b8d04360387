"""What a spec draws a case from: one number gives the node, and for each feed other dimensions and values."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx.defs

from tests.op.harness import schemas
from tests.op.harness.driver import Row
from tests.op.harness.dtypes import COMPLEX, is_float, name_of_type
from tests.op.harness.inputs import Rand
from tests.op.harness.tolerances import Tolerance

MAX_ELEMS = 2048  # of a tensor that is not large; the simulated device and the references are slow
LARGE_ELEMS = 20_000  # of a few element-wise ones

X = TypeVar("X")
# Versions of ONNX's domain that the host alone has.
_OF_THE_HOST = (("LayerNormalization", 1), ("SimplifiedLayerNormalization", 1))


@dataclass(frozen=True)
class Node:
    """A drawn node with its input values; None is an absent input."""

    inputs: list[np.ndarray | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[bool] = (True,)  # which are used
    constants: frozenset[int] = frozenset()  # inputs that have to be initializers
    widen: bool = True  # whether it computes the same in float64, from the same values
    keep: frozenset[int] = frozenset()  # inputs that stay as they are then
    tolerance: Tolerance | None = None  # instead of the operator's
    scale: float = 0.0  # the size of intermediate values that a small result is the difference of
    formula: Callable[..., Any] | None = None  # of float64 inputs and the attributes: one more judge


class Draw:
    """The random choices of a case.

    What makes the node (version, types, attributes, ranks) comes from `pick`, `chance`, `integer` and `real`, which
    give the same for every feed of a case; dimensions and values come from the other methods, and differ. A spec that
    lets an attribute depend on a dimension loses the second feed of its cases, nothing else.
    """

    def __init__(self, rows: Sequence[Row], number: int, feed: int = 0) -> None:
        key = [zlib.crc32(f"{rows[0].domain}.{rows[0].op}".encode()), number]
        self._fixed = np.random.default_rng([*key, 0])
        self.free = np.random.default_rng([*key, 1 + feed])
        self.row, self.version = self.pick(_versions(rows))
        self.schema = schemas.schema(self.row.domain, self.row.op, self.version)
        self.specials = self.chance(0.12)  # NaN, infinities and signed zeros among the values
        self.full = self.chance(0.3)  # integers of the whole range
        self._types: dict[str, str] = {}

    def pick(self, options: Sequence[X]) -> X:
        """One of them."""
        return options[int(self._fixed.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """Whether something is so."""
        return bool(self._fixed.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self._fixed.integers(low, high, endpoint=True))

    def real(self, low: float, high: float) -> float:
        """A float32 number, as attributes hold them."""
        return float(np.float32(self._fixed.uniform(low, high)))

    def subset(self, options: Sequence[X], least: int = 0) -> list[X]:
        """At least so many of them, in any order."""
        count = self.integer(least, len(options))
        return [options[i] for i in self._fixed.permutation(len(options))[:count]]

    def attrs(self, **choices: Any) -> dict[str, Any]:
        """Each attribute with one of its choices; a choice of None leaves it out."""
        picked = {name: self.pick(options) for name, options in choices.items()}
        return {name: value for name, value in picked.items() if value is not None}

    def type(self, constraint: str = "T", of: Iterable[str] | None = None) -> str:
        """The element type that a constraint has in this case, one that the row, the schema and the host carry."""
        if constraint not in self._types:
            allowed = self.schema.types[constraint] & self.row.types.get(constraint, self.schema.types[constraint])
            allowed -= {*COMPLEX}  # the host has no such tensors
            self._types[constraint] = self.pick(sorted(allowed & {*of} if of is not None else allowed))
        return self._types[constraint]

    def input_type(self, index: int, of: Iterable[str] | None = None) -> str:
        """The element type of an input: that of its constraint, or the only one that it can have."""
        formal = self.schema.inputs[index].type
        return self.type(formal, of) if formal in self.schema.types else name_of_type(formal)

    def negative(self, axis: int, rank: int, since: int = 0) -> int:
        """The axis, or what it is when counted from the end, from version `since` on."""
        return axis - rank if self.version >= since and self.chance(0.4) else axis

    # From here on: other ones for every feed.

    def any(self, low: int, high: int) -> int:
        """From `low` to `high`, both included; of this feed."""
        return int(self.free.integers(low, high, endpoint=True))

    def dim(self, least: int = 0) -> int:
        """A dimension."""
        kind = self.free.random()
        if kind < 0.03:
            return max(least, 0)
        if kind < 0.18:
            return max(least, 1)
        low, high = (2, 6) if kind < 0.8 else (7, 20) if kind < 0.95 else (31, 70)
        return max(least, self.any(low, high))

    def dims(self, rank: int, least: int = 0, elems: int = MAX_ELEMS) -> list[int]:
        """Dimensions of so many elements at most."""
        dims = [self.dim(least) for _ in range(rank)]
        while math.prod(max(dim, 1) for dim in dims) > elems:
            largest = int(np.argmax(dims))
            dims[largest] = self.any(max(least, 1), dims[largest] // 2)
        return dims

    def shape(self, low: int = 0, high: int = 5, least: int = 0) -> list[int]:
        """A shape of any rank in a range."""
        return self.dims(self.integer(low, high), least)

    def elements(self) -> list[int]:
        """A shape for an element-wise operator, now and then a large one."""
        if self.chance(0.06):
            return [self.any(1, LARGE_ELEMS)]
        return self.shape(0, 6)

    def partner(self, shape: Sequence[int], grow: bool = False) -> list[int]:
        """A shape that broadcasts to another, or with it if it may `grow`."""
        kept = self.integer(0, len(shape))
        dims = [1 if self.chance(0.25) else dim for dim in shape[len(shape) - kept :]]
        if grow and self.chance(0.15):
            dims = [*self.dims(self.integer(1, 2), elems=4), *[1] * (len(shape) - kept), *dims]
        return dims

    def values(self, dtype: str, shape: Sequence[int], low: float | None = None, high: float | None = None,
               **more: Any) -> np.ndarray:  # fmt: skip
        """Values as Rand draws them; floats with specials, integers of the whole range where the case is like that."""
        ranged = low is not None or high is not None
        if low is not None and dtype.startswith("u"):
            low = max(low, 0)
        options = {"specials": self.specials and is_float(dtype), "full": self.full and not ranged, **more}
        return np.asarray(Rand(tuple(shape), low=low, high=high, **options).draw(dtype, self.free)).reshape(shape)

    def moved(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Values for an operator that only moves them: integers of the whole range."""
        return self.values(dtype, shape, full=True)

    def small(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Values whose products and sums stay finite in 16 bits; no NaN, which padding with zeros may meet or not."""
        return self.values(dtype, shape, -1, 1, specials=False) if is_float(dtype) else self.values(dtype, shape)

    def indices(self, dtype: str, shape: Sequence[int], size: int, negative: bool = True) -> np.ndarray:
        """Indices into `size` elements."""
        low = -size if negative and self.chance(0.5) else 0
        return self.free.integers(low, max(size, 1), shape).astype(dtype).reshape(shape)


def _versions(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Rows with each schema version of theirs that a model can name: the host takes opsets from 7 on."""
    found = []
    for row in rows:
        for version in schemas.versions(row.domain, row.op):
            named = max(version, 7) if row.domain == "" else version
            if row.since <= version <= row.until and schemas.schema(row.domain, row.op, named).since == version:
                found += [] if _deprecated(row, version) else [(row, version)]
    return found


def _deprecated(row: Row, version: int) -> bool:
    """Whether the version only says that the operator is no more."""
    if row.domain != "" or (row.op, version) in _OF_THE_HOST:
        return False
    return bool(onnx.defs.get_schema(row.op, version).deprecated)
