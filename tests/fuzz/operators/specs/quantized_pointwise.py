"""com.microsoft's operators on quantized values, scales exact so that everyone rounds the same number."""

from __future__ import annotations

import numpy as np

from tests.op.cases import qlinear

from ..draw import Draw, Node
from .quantized import MICROSOFT, _powers
from .windows import _Windows


def _scaled(d: Draw, dtype: str) -> list[np.ndarray]:
    return [_powers(d, "float32", []), d.moved(dtype, [])]


def _two(d: Draw) -> Node:
    shape, dtype = d.dims(d.integer(1, 4), 1), d.type("T")
    other = shape if d.chance(0.4) else d.partner(shape)
    a, b = (shape, other) if d.chance(0.5) else (other, shape)
    inputs = [d.moved(dtype, a), *_scaled(d, dtype), d.moved(dtype, b), *_scaled(d, dtype), *_scaled(d, dtype)]
    # The CPU provider rounds a tie with the zero point added, ours without: the same where that is even.
    inputs[-1] = inputs[-1] // 2 * 2
    return Node([*inputs], widen=False)


def _one(d: Draw) -> Node:
    dtype = d.type("T")
    attrs = d.attrs(alpha=[0.5, 0.25, -0.5, None]) if d.row.op == "QLinearLeakyRelu" else {}
    inputs = [d.moved(dtype, d.dims(d.integer(1, 4), 1)), *_scaled(d, dtype), *_scaled(d, dtype)]
    return Node([*inputs], attrs, widen=False)


def _pool(d: Draw) -> Node:
    dtype, last = d.type("T"), d.chance(0.4)
    channels, image = d.any(1, 5), [2 ** d.any(0, 3) for _ in range(2)]  # a mean by a power of two is exact
    shape = [d.any(1, 3), *image, channels] if last else [d.any(1, 3), channels, *image]
    inputs = [d.moved(dtype, shape), *_scaled(d, dtype), *_scaled(d, dtype)]
    return Node([*inputs], {"channels_last": int(last)}, widen=False)


def _average_pool(d: Draw) -> Node:
    dtype, spatial, last = d.type("T"), d.pick([1, 2, 2, 3]), d.chance(0.4)
    windows = _Windows(d, spatial, dilate=False)
    attrs = {**windows.attrs, **d.attrs(count_include_pad=[0, 1, None]), "kernel_shape": windows.kernel,
             "channels_last": int(last)}  # fmt: skip
    image = windows.image(d)
    shape = [d.any(1, 3), *image, d.any(1, 5)] if last else [d.any(1, 3), d.any(1, 5), *image]
    inputs = [d.moved(dtype, shape), *_scaled(d, dtype), *_scaled(d, dtype)]
    inputs[-1] = inputs[-1] // 2 * 2
    return Node([*inputs], attrs, widen=False, formula=qlinear._window_mean)


def _concat(d: Draw) -> Node:
    dtype, rank = d.type("T8"), d.integer(1, 4)
    axis, shape = d.integer(0, rank - 1), d.dims(rank, 1, elems=256)
    inputs = _scaled(d, dtype)
    for _ in range(d.integer(1, 4)):
        part = [d.dim(1) if a == axis else dim for a, dim in enumerate(shape)]
        inputs += [d.moved(dtype, part), *_scaled(d, dtype)]
    # The CPU provider wants to know the scales when it is made.
    known = frozenset(index for index in range(len(inputs)) if index < 2 or index % 3 != 2)
    return Node([*inputs], {"axis": d.negative(axis, rank)}, widen=False, constants=known)


def _softmax(d: Draw) -> Node:
    shape, dtype = d.dims(d.integer(1, 4), 1), d.type("T")
    attrs = {"axis": d.negative(d.integer(0, len(shape) - 1), len(shape)), "opset": d.pick([9, 12, 13, 17])}
    scale = np.asarray(2.0 ** -d.integer(1, 6), np.float32)
    output = np.asarray(2.0**-8, np.float32), np.asarray(-128 if dtype == "int8" else 0, dtype)
    return Node([d.moved(dtype, shape), scale, d.moved(dtype, []), *output], attrs, widen=False,
                formula=qlinear._softmax)  # fmt: skip


SPECS = {
    (MICROSOFT, "QLinearSoftmax"): _softmax,
    (MICROSOFT, "QLinearAdd"): _two,
    (MICROSOFT, "QLinearMul"): _two,
    (MICROSOFT, "QLinearSigmoid"): _one,
    (MICROSOFT, "QLinearLeakyRelu"): _one,
    (MICROSOFT, "QLinearAveragePool"): _average_pool,
    (MICROSOFT, "QLinearGlobalAveragePool"): _pool,
    (MICROSOFT, "QLinearConcat"): _concat,
}
