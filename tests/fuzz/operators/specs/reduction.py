"""Operators along axes: reductions, softmax, extrema, sorting, running sums."""

from __future__ import annotations

import numpy as np

from tests.op.harness.dtypes import FLOATS, is_float

from ..draw import Draw, Node
from .movement import ints

# Ranges whose sums and products neither overflow 16 bits nor lie where a logarithm cancels.
_RANGES = {"ReduceLogSum": (0.5, 3), "ReduceProd": (0.5, 1.5), "ReduceLogSumExp": (-3, 3)}


def _reduce(d: Draw) -> Node:
    op = d.row.op
    # The CPU provider cuts each exponential of an integer; the reference takes no logarithm of one.
    dtype = d.type("T", of=FLOATS if op.startswith("ReduceLog") else None)
    rank = d.integer(0, 5)
    # Of nothing some have no value, and of no integers the CPU provider makes a tensor of another shape.
    least = 1 if op in ("ReduceMean", "ReduceMax", "ReduceMin") or not is_float(dtype) else 0
    low, high = _RANGES.get(op, (None, None)) if is_float(dtype) else (0, 3)
    data = d.values(dtype, d.dims(rank, least), low, high)
    attrs = d.attrs(keepdims=[0, 1, None])
    axes = [d.negative(axis, rank, 11) for axis in d.subset(range(rank), 1)] if rank and d.chance(0.8) else None
    if d.version < (13 if op == "ReduceSum" else 18):
        return Node([data], {**attrs, **({"axes": axes} if axes else {})})
    attrs.update(d.attrs(noop_with_empty_axes=[0, 1, None]))
    if axes is None and d.chance(0.5):
        axes = []
    return Node([data, None if axes is None else ints(axes)], attrs)


def _arg_extremum(d: Draw) -> Node:
    rank = d.integer(1, 5)
    axis = d.integer(0, rank - 1)
    shape = d.dims(rank)
    shape[axis] = max(shape[axis], 1)
    attrs = d.attrs(keepdims=[0, 1, None])
    if axis or d.chance(0.6):
        attrs["axis"] = d.negative(axis, rank, 11)
    if d.version >= 12:
        attrs.update(d.attrs(select_last_index=[0, 1, None]))
    dtype = d.type()
    # No NaN: ONNX does not say where it stands.
    return Node([d.values(dtype, shape, 0 if dtype.startswith("u") else -4, 4, specials=False)], attrs)


def _softmax(d: Draw) -> Node:
    rank = d.integer(1, 5)
    named = d.chance(0.8) or (rank == 1 and d.version < 13)  # the older versions take axis 1 without one
    attrs = {"axis": d.negative(d.integer(0, rank - 1), rank, 11)} if named else {}
    shape = d.dims(rank, 1 if d.version < 13 else 0)
    return Node([d.values(d.type(), shape, -9, 9, specials=False)], attrs, scale=float(d.row.op == "LogSoftmax"))


def _bias_softmax(d: Draw) -> Node:
    rank = d.integer(2, 4)
    shape = d.dims(rank, 1, elems=512)
    axis = d.integer(1, rank - 1)
    inner = d.chance(0.5)
    kept = d.integer(0, axis)
    # Inner: the bias repeats over the batches next to the axis; otherwise over leading ones.
    bias = [1 if (kept <= a < axis if inner else a < kept) else dim for a, dim in enumerate(shape)]
    attrs = {"axis": axis, "is_inner_broadcast": int(inner)}
    dtype = d.type()
    inputs = [d.values(dtype, shape, -5, 5, specials=False), d.values(dtype, bias, -5, 5, specials=False)]
    return Node([*inputs], attrs, formula=_biased)  # the CPU provider has no such operator


def _biased(x: np.ndarray, bias: np.ndarray, axis: int, **_: int) -> np.ndarray:
    z = x + bias
    axes = tuple(range(axis, z.ndim))
    e = np.exp(z - z.max(axis=axes, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(axis=axes, keepdims=True))


def _top_k(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = d.integer(0, rank - 1)
    shape = d.dims(rank, 1)
    dtype, k = d.type(), d.any(1 if d.version < 10 else 0, shape[axis])
    attrs = {"axis": d.negative(axis, rank, 11)} if axis != rank - 1 or d.chance(0.6) else {}
    # Sorted always: the order of others is open. No NaN: ONNX does not say where it stands.
    low, high = (0, 6) if dtype.startswith("u") else (-6, 6)
    data = d.values(dtype, shape, low, high, specials=False)
    if d.version >= 11:
        attrs.update(d.attrs(largest=[0, 1, None], sorted=[1, None]))
    if d.version < 10:
        return Node([data], {**attrs, "k": k}, (True, True))
    return Node([data, ints([k])], attrs, (True, True))


def _running(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = np.array(d.negative(d.integer(0, rank - 1), rank), d.type("T2")).reshape(d.pick([(), (1,)]))
    dtype = d.type("T")
    product = d.row.op == "CumProd"
    low, high = (0.5, 1.5) if is_float(dtype) and product else (-2, 2) if is_float(dtype) else (0, 3)
    data = d.values(dtype, d.dims(rank), low, high)
    return Node([data, axis], d.attrs(exclusive=[0, 1, None], reverse=[0, 1, None]))


def _hardmax(d: Draw) -> Node:
    node = _softmax(d)
    x = node.inputs[0]
    assert x is not None
    whole = np.round(x.astype(np.float32)).astype(x.dtype)  # with ties

    def hardmax(x: np.ndarray, axis: int | None = None) -> np.ndarray:  # the reference has no older version
        old = d.version < 13
        axis = (1 if old else -1) if axis is None else axis
        rows = x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1) if old else np.moveaxis(x, axis, -1)
        hot = np.arange(rows.shape[-1]) == rows.argmax(axis=-1)[..., None] if rows.size else np.zeros(rows.shape)
        return np.asarray(hot.reshape(x.shape) if old else np.moveaxis(hot, -1, axis), np.float64)

    return Node([whole], node.attrs, formula=hardmax)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
SPECS = {
    **{("", f"Reduce{name}"): _reduce for name in _REDUCTIONS},
    ("", "ArgMax"): _arg_extremum,
    ("", "ArgMin"): _arg_extremum,
    ("", "Softmax"): _softmax,
    ("", "LogSoftmax"): _softmax,
    ("", "Hardmax"): _hardmax,
    ("com.microsoft", "BiasSoftmax"): _bias_softmax,
    ("", "TopK"): _top_k,
    ("", "CumSum"): _running,
    ("", "CumProd"): _running,
}
