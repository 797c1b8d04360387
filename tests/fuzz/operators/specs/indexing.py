"""Operators that read or write by index or condition, and those that make values from a few numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.op.harness.dtypes import FLOATS, code_of, is_float, numpy_dtype
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node
from .movement import ints


def _gather(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = d.integer(0, rank - 1)
    shape = d.dims(rank, elems=512)
    shape[axis] = max(shape[axis], 1)
    indices = d.indices(d.type("Tind"), d.dims(d.integer(0, 3), elems=32), shape[axis], d.version >= 11)
    attrs = {"axis": d.negative(axis, rank)} if axis or d.chance(0.6) else {}
    return Node([d.moved(d.type(), shape), indices], attrs)


def _gather_elements(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = d.integer(0, rank - 1)
    shape = d.dims(rank, 1)
    picked = [d.dim() if a == axis else d.any(0, dim) if d.chance(0.3) else dim for a, dim in enumerate(shape)]
    indices = d.indices(d.type("Tind"), picked, shape[axis])
    attrs = {"axis": d.negative(axis, rank)} if axis or d.chance(0.6) else {}
    return Node([d.moved(d.type(), shape), indices], attrs)


def _tuples(d: Draw, shape: list[int], batch: int, depth: int, rows: list[int]) -> np.ndarray:
    """Index tuples into the dimensions behind the batch ones."""
    parts = [d.indices("int64", [*shape[:batch], *rows, 1], shape[batch + k]) for k in range(depth)]
    return np.concatenate(parts, axis=-1)


def _gather_nd(d: Draw) -> Node:
    rank = d.integer(1, 5)
    batch = d.integer(0, rank - 1) if d.version >= 12 and d.chance(0.5) else 0
    depth = d.integer(1, rank - batch)
    shape = d.dims(rank, 1, elems=512)
    rows = d.dims(d.integer(0, 2), elems=32)
    attrs = {"batch_dims": batch} if batch or (d.version >= 12 and d.chance(0.3)) else {}
    return Node([d.moved(d.type(), shape), _tuples(d, shape, batch, depth, rows)], attrs)


_REDUCTIONS = {16: ["none", "add", "mul", None], 18: ["none", "add", "mul", "max", "min", None]}


def _reduction(d: Draw) -> dict[str, str]:
    choices = next((names for since, names in sorted(_REDUCTIONS.items(), reverse=True) if d.version >= since), [None])
    return d.attrs(reduction=choices)


def _scatter_elements(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = d.integer(0, rank - 1)
    shape = d.dims(rank, 1, elems=512)
    attrs = _reduction(d)
    alone = attrs.get("reduction", "none") == "none"  # who writes last is open
    picked = [d.any(0, dim) if a == axis and alone else d.any(0, dim) if d.chance(0.3) else dim
              for a, dim in enumerate(shape)]  # fmt: skip
    if alone:
        order = np.argsort(d.free.random([*picked[:axis], shape[axis], *picked[axis + 1 :]]), axis=axis)
        indices = np.take(order, range(picked[axis]), axis=axis)
        indices = (indices - shape[axis] * d.free.integers(0, 2, indices.shape)) if d.version >= 11 else indices
    else:
        indices = d.indices("int64", picked, shape[axis])
    dtype = _arithmetic_type(d, attrs)
    kind = d.type("Tind")
    if axis or d.chance(0.6):
        attrs["axis"] = d.negative(axis, rank, 11)
    data = (d.moved if alone else d.small)(dtype, shape)
    updates = (d.moved if alone else d.small)(dtype, picked)
    return Node([data, indices.astype(kind), updates], attrs, tolerance=None if alone else _STEPS.get(dtype))


# Sums and products in the type itself, each rounded.
_STEPS = {"float16": Tolerance(8, terms=2.0**14), "bfloat16": Tolerance(8, terms=2.0**17)}


def _arithmetic_type(d: Draw, attrs: dict[str, str]) -> str:
    """Any type, or one that has a sum and an order."""
    allowed = d.schema.types["T"] & d.row.types["T"]
    plain = {
        name for name in allowed if name != "bool" and (is_float(name) or np.dtype(numpy_dtype(name)).kind in "iu")
    }
    return d.type("T", of=allowed if attrs.get("reduction", "none") == "none" else plain)


def _scatter_nd(d: Draw) -> Node:
    rank = d.integer(1, 4)
    depth = d.integer(1, rank)
    shape = d.dims(rank, 1, elems=512)
    attrs = _reduction(d)
    alone = attrs.get("reduction", "none") == "none"
    if alone:
        places = int(np.prod(shape[:depth]))
        count = d.any(0, min(places, 40))
        flat = d.free.permutation(places)[:count]
        indices = np.stack(np.unravel_index(flat, shape[:depth]), axis=-1).astype(np.int64).reshape(count, depth)
    else:
        indices = _tuples(d, shape, 0, depth, d.dims(d.integer(0, 2), elems=32))
    dtype = _arithmetic_type(d, attrs)
    draw = d.moved if alone else d.small
    updates = draw(dtype, [*indices.shape[:-1], *shape[depth:]])
    return Node([draw(dtype, shape), indices, updates], attrs, tolerance=None if alone else _STEPS.get(dtype))


def _compress(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = d.integer(0, rank - 1) if d.chance(0.7) else None
    shape = d.dims(rank)
    length = int(np.prod(shape)) if axis is None else shape[axis]
    condition = d.values("bool", [d.any(0, length)])
    attrs = {} if axis is None else {"axis": d.negative(axis, rank, 11)}
    return Node([d.moved(d.type(), shape), condition], attrs)


def _non_zero(d: Draw) -> Node:
    x = d.values(d.type(), d.shape(), -2, 2)
    return Node([np.where(d.free.random(x.shape) < 0.4, np.zeros((), x.dtype), x)])


def _tensor_scatter(d: Draw) -> Node:
    rank = d.integer(2, 4)
    axis = d.integer(1, rank - 1)
    shape = d.dims(rank, 1, elems=512)
    mode = d.pick(["linear", "circular", None])
    length = d.any(1, shape[axis])
    update = [length if a == axis else dim for a, dim in enumerate(shape)]
    last = shape[axis] - 1 if mode == "circular" else shape[axis] - length
    indices = d.free.integers(0, last, shape[0], endpoint=True).astype(np.int64) if d.chance(0.7) else None
    dtype = d.type()
    attrs = {"axis": d.negative(axis, rank)} if axis != rank - 2 or d.chance(0.5) else {}
    return Node([d.moved(dtype, shape), d.moved(dtype, update), indices], {**attrs, **({"mode": mode} if mode else {})})


def _one_hot(d: Draw) -> Node:
    shape = d.dims(d.integer(1, 3), elems=128)
    rank = len(shape) + 1
    depth = d.any(1, 9)
    kinds = [d.type(name) for name in ("T1", "T2", "T3")]
    low = 0 if kinds[0].startswith("u") else -depth if d.version >= 11 else 0
    indices = np.round(d.free.uniform(low - 0.4, depth + 2.4, shape)).astype(kinds[0])
    amount = np.asarray(depth).astype(kinds[1]).reshape(d.pick([(), (1,)]))
    axis = d.integer(0, rank - 1)
    attrs = {"axis": d.negative(axis, rank)} if d.chance(0.7) else {}
    return Node([indices, amount, d.values(kinds[2], (2,))], attrs, widen=False, formula=_hot)


def _hot(indices: np.ndarray, depth: np.ndarray, values: np.ndarray, axis: int = -1) -> np.ndarray:
    count = int(depth.reshape(()))
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + count, places)
    hot = np.arange(count) == places[..., None]
    return np.moveaxis(np.where(hot, values[1], values[0]), -1, axis)


def _eye_like(d: Draw) -> Node:
    attrs = {"k": d.integer(-6, 6)} if d.chance(0.6) else {}
    source, target = d.type("T1"), d.type("T2")
    if d.chance(0.7) or source not in d.schema.types["T2"] & d.row.types.get("T2", d.schema.types["T2"]):
        attrs["dtype"] = code_of(target)
    return Node([d.values(source, d.dims(2, 1))], attrs, widen=False)


def _range(d: Draw) -> Node:
    dtype = d.type()
    step = d.any(1, 4) * (1 if dtype.startswith("u") or d.chance(0.6) else -1)
    start = d.any(0 if dtype.startswith("u") else -20, 20)
    end = start + step * d.any(0, 30) + (0 if dtype.startswith("u") else d.any(-1, 1))
    scale = 0.25 if is_float(dtype) else 1  # exact in every type, so that the length has one reading
    numbers = [np.asarray(value * scale).astype(numpy_dtype(dtype)) for value in (start, end, step)]
    return Node(numbers, widen=False)


def _window(d: Draw) -> Node:
    out = d.type("T2", of=FLOATS)  # integers are cut, and a peak may be an ulp below 1
    size = np.asarray(d.any(1, 60)).astype(d.type("T1"))
    attrs = {**d.attrs(periodic=[0, 1, None]), **({"output_datatype": code_of(out)} if d.chance(0.8) else {})}
    return Node([size], attrs, widen=False, scale=1, formula=_WINDOWS[d.row.op])


def _cosines(*terms: float) -> Callable[..., np.ndarray]:
    """A sum of cosines; the reference computes it in the type of the result."""

    def window(size: np.ndarray, periodic: int = 1, **_: int) -> np.ndarray:
        count = int(size)
        angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
        return np.asarray(sum(a * np.cos(k * angle) for k, a in enumerate(terms)))

    return window


_WINDOWS = {
    "HannWindow": _cosines(0.5, -0.5),
    "HammingWindow": _cosines(25 / 46, -21 / 46),
    "BlackmanWindow": _cosines(0.42, -0.5, 0.08),
}


def _constant_of_shape(d: Draw) -> Node:
    shape = ints(d.dims(d.integer(0, 4)))
    if d.chance(0.2):
        return Node([shape])
    return Node([shape], {"value": d.moved(d.type("T2"), (1,))})


def _unique(d: Draw) -> Node:
    rank = d.integer(1, 3)
    attrs = d.attrs(sorted=[0, 1, None])
    if d.chance(0.5):
        attrs["axis"] = d.negative(d.integer(0, rank - 1), rank)
    shape = d.dims(rank, 1, elems=256)
    # The reference sorts those that shall not be; the CPU provider has these types.
    dtype = d.type("T", of=None if attrs.get("sorted", 1) else ("float32", "float64", "int8", "int64"))
    x = d.values(dtype, shape, 0, 4, specials=False)  # whether NaN equals NaN is open
    x = np.round(x.astype(np.float64)).astype(x.dtype) if is_float(x.dtype.name) else x  # some are alike
    return Node([x], attrs, d.pick([(True,), (True, True), (True, True, True, True), (True, False, True)]))


def _unique_contrib(d: Draw) -> Node:
    x = d.values(d.type(of=("float32",)), d.dims(1, 1, elems=256), 0, 4)
    x = np.nan_to_num(x)  # each NaN is a value of its own to the CPU provider
    return Node([np.round(x.astype(np.float64)).astype(x.dtype)], {}, (True, True, True))


SPECS = {
    ("com.microsoft", "GatherND"): _gather_nd,
    ("com.microsoft", "Range"): _range,
    ("com.microsoft", "Unique"): _unique_contrib,
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "Scatter"): _scatter_elements,
    ("", "ScatterElements"): _scatter_elements,
    ("", "ScatterND"): _scatter_nd,
    ("", "Compress"): _compress,
    ("", "NonZero"): _non_zero,
    ("", "TensorScatter"): _tensor_scatter,
    ("", "OneHot"): _one_hot,
    ("", "EyeLike"): _eye_like,
    ("", "Range"): _range,
    ("", "HannWindow"): _window,
    ("", "HammingWindow"): _window,
    ("", "BlackmanWindow"): _window,
    ("", "ConstantOfShape"): _constant_of_shape,
    ("", "Unique"): _unique,
}
