"""MaxPool, AveragePool, LpPool and MaxUnpool: 1 to 3 dimensions, every padding, dilations, ceil_mode, indices."""

import math

import numpy as np

from ..harness import Case, Rand, T
from ..harness.dtypes import FLOATS


def _windows(x, kernel, strides, pads, dilations, auto_pad, ceil_mode):
    """For each tap: input coordinates of every output, and whether they lie in the input, or in input or padding."""
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    outs = []
    for d, size in enumerate(x.shape[2:]):
        reach = (kernel[d] - 1) * dilations[d] + 1
        if auto_pad.startswith("SAME"):
            total = max(0, (math.ceil(size / strides[d]) - 1) * strides[d] + reach - size)
            small = total // 2
            pads[d], pads[rank + d] = (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)
        room = size + pads[d] + pads[rank + d] - reach
        out = (math.ceil(room / strides[d]) if ceil_mode else room // strides[d]) + 1
        outs.append(out - 1 if ceil_mode and (out - 1) * strides[d] >= size + pads[d] else out)
    base = np.indices(outs)
    for tap in np.ndindex(*kernel):
        at = [base[d] * strides[d] - pads[d] + tap[d] * dilations[d] for d in range(rank)]
        inside = np.all([(a >= 0) & (a < x.shape[2 + d]) for d, a in enumerate(at)], axis=0)
        padded = np.all([a < x.shape[2 + d] + pads[rank + d] for d, a in enumerate(at)], axis=0)
        clipped = tuple(np.clip(a, 0, x.shape[2 + d] - 1) for d, a in enumerate(at))
        yield clipped, inside, padded


def _max_pool(
    x, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0, storage_order=0
):
    best, position = None, None
    spatial = x.shape[2:]
    for at, inside, _ in _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode):
        values = x[(..., *at)]
        flat = np.ravel_multi_index(at, spatial, order="F" if storage_order else "C")
        flat = np.broadcast_to(flat, values.shape)
        if best is None:
            best, position = np.zeros(values.shape, x.dtype), np.full(values.shape, -1)
        takes = inside & ((position < 0) | (values > best) | (values != values))
        best, position = np.where(takes, values, best), np.where(takes, flat, position)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * math.prod(spatial)
    return best, position + planes.reshape(*x.shape[:2], *[1] * len(spatial))


def _average_pool(
    x, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0
):
    total, count = 0.0, 0
    for at, inside, padded in _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode):
        total = total + np.where(inside, x[(..., *at)], 0)
        count = count + (padded if count_include_pad else inside)
    return total / count


def _lp_pool(
    x, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0, p=2
):  # fmt: skip
    total = 0.0
    for at, inside, _ in _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode):
        total = total + np.where(inside, np.abs(x[(..., *at)]) ** p, 0)
    return total ** (1 / p)


def _unpool(x, at, shape=None, kernel_shape=(), strides=None, pads=None):
    """Positions count in the shape of the attributes; what is wanted beyond stays zero."""
    rank = x.ndim - 2
    strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
    spatial = [(x.shape[2 + d] - 1) * strides[d] + kernel_shape[d] - pads[d] - pads[rank + d] for d in range(rank)]
    flat = np.zeros(x.shape[0] * x.shape[1] * math.prod(spatial), x.dtype)
    inside = (at >= 0) & (at < flat.size)
    flat[at[inside]] = x[inside]
    y = np.zeros(shape if shape is not None else (*x.shape[:2], *spatial), x.dtype)
    y[tuple(slice(0, n) for n in (*x.shape[:2], *spatial))] = flat.reshape(*x.shape[:2], *spatial)
    return y


def _positions(shape, elems):
    """Distinct positions below `elems`, in no order."""
    return np.random.default_rng(3).permutation(elems)[: math.prod(shape)].astype(np.int64).reshape(shape)


_UNPOOLED = [
    # X, attributes, elements of the output, output_shape
    ((1, 1, 2, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}, 16, None),
    ((2, 3, 2, 3), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 0]}, 2 * 3 * 4 * 6, None),
    ((2, 3, 4), {"kernel_shape": [3], "strides": [2]}, 2 * 3 * 9, (2, 3, 10)),
    ((1, 2, 2, 3, 2), {"kernel_shape": [2, 2, 2], "strides": [2, 1, 2]}, 2 * 4 * 4 * 4, (1, 2, 4, 4, 5)),
    ((1, 1, 2, 2), {"kernel_shape": [2, 2]}, 9, (1, 1, 5, 4)),
]

_GEOMETRIES = [
    ((2, 3, 9), {"kernel_shape": [3]}),
    ((1, 2, 10), {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1}),
    ((2, 3, 8, 7), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((2, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 2], "pads": [0, 1, 2, 1], "strides": [3, 1]}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 3, 7, 8), {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"}),
    ((1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 0]}),
    ((1, 40, 12, 13), {"kernel_shape": [12, 13]}),
]
# The common windows over images: rows of whole packs and others, padding above that differs, windows beyond the end.
_GEOMETRIES += [
    ((2, 2, 9, width), {"kernel_shape": [taps, taps], "strides": [step, step], "pads": pads, "ceil_mode": ceil})
    for taps, step, pads, ceil in (
        (2, 2, [0, 0, 0, 0], 1),
        (3, 2, [1, 1, 1, 1], 0),
        (3, 2, [0, 1, 1, 0], 1),
        (3, 2, [0, 0, 0, 0], 1),
        (3, 1, [1, 1, 1, 1], 0),
        (5, 1, [2, 2, 2, 2], 0),
    )
    for width in (32, 37)
]
_DILATED = [
    ((1, 3, 9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]}),
    ((2, 2, 11), {"kernel_shape": [3], "dilations": [3], "strides": [2], "ceil_mode": 1}),
]
_EMPTY = [((0, 3, 8, 7), {"kernel_shape": [2, 2]}), ((2, 0, 8, 7), {"kernel_shape": [2, 2]})]
_REFUSED_EARLIER = {"session": "the host's shape inference may refuse it"}
_TYPES = (*FLOATS, "int8", "uint8")
_SOME = ("float32", "float16", "int8")

CASES = [
    *(
        Case(op="MaxPool", inputs=[Rand(x)], attrs=attrs, expected=_max_pool, outputs=outputs, dtypes=_SOME)
        for x, attrs in _GEOMETRIES + _DILATED
        for outputs in ([T], [T, "int64"])
    ),
    *(
        Case(
            op="MaxPool",
            inputs=[Rand(x)],
            attrs={**attrs, "storage_order": 1},
            expected=_max_pool,
            outputs=[T, "int64"],
            dtypes=("float32",),
        )
        for x, attrs in [_GEOMETRIES[3], _GEOMETRIES[10]]
    ),
    *(
        Case(
            op="MaxPool",
            inputs=[Rand(x, full=True, specials=True)],
            attrs=attrs,
            expected=_max_pool,
            outputs=[T],
            dtypes=_TYPES,
            name="specials",
        )
        for x, attrs in (
            ((2, 3, 8, 7), {"kernel_shape": [2, 2]}),
            ((2, 3, 8, 32), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        )
    ),
    Case(
        op="MaxPool",
        inputs=[Rand((1, 2, 6, 5))],
        attrs={"kernel_shape": [2, 2]},
        expected=_max_pool,
        outputs=[T],
        dtypes=_TYPES,
        opset="1+",
    ),
    *(
        Case(
            op="AveragePool",
            inputs=[Rand(x)],
            attrs={**attrs, "count_include_pad": count},
            expected=_average_pool,
            magnitude="absolute",
            dtypes=_SOME[:2],
        )
        for x, attrs in _GEOMETRIES + _DILATED
        for count in (0, 1)
    ),
    Case(
        op="AveragePool",
        inputs=[Rand((1, 2, 6, 5))],
        attrs={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1},
        expected=_average_pool,
        magnitude="absolute",
        dtypes=FLOATS,
        opset="7+",
    ),
    Case(
        op="AveragePool",
        inputs=[Rand((1, 2, 6, 5))],
        attrs={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]},
        expected=_average_pool,
        magnitude="absolute",
        dtypes=FLOATS,
        opset=1,
    ),
    *(
        Case(
            op="LpPool",
            inputs=[Rand(x)],
            attrs={**attrs, "p": p},
            expected=_lp_pool,
            magnitude="absolute",
            dtypes=_SOME[:2],
        )
        for (x, attrs), p in [*((g, 2) for g in _GEOMETRIES + _DILATED), (_GEOMETRIES[3], 1), (_GEOMETRIES[3], 3)]
    ),
    Case(
        op="LpPool",
        inputs=[Rand((1, 2, 6, 5))],
        attrs={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]},
        expected=_lp_pool,
        magnitude="absolute",
        dtypes=FLOATS,
        opset="2+",
    ),
    Case(
        op="LpPool",
        inputs=[Rand((1, 2, 6, 5))],
        attrs={"kernel_shape": [2, 2], "p": 1.5},
        expected=_lp_pool,
        magnitude="absolute",
        dtypes=FLOATS,
        opset=1,
        skip={"session": "the host's schema has another type for p of version 1"},
    ),
    *(
        Case(
            op="MaxUnpool",
            inputs=[Rand(x), _positions(x, elems), *([] if wanted is None else [np.array(wanted, np.int64)])],
            attrs=attrs,
            expected=_unpool,
            dtypes=("float32", "float64"),
        )
        for x, attrs, elems, wanted in _UNPOOLED
    ),
    Case(
        op="MaxUnpool",
        inputs=[Rand((2, 3, 2, 3)), _positions((2, 3, 2, 3), 144)],
        attrs={"kernel_shape": [2, 2], "strides": [2, 2]},
        expected=_unpool,
        dtypes=FLOATS,
        opset="9+",
    ),
    Case(
        op="MaxUnpool",
        inputs=[Rand((1, 1, 3), "float32"), np.array([[[4, 6, -1]]])],
        attrs={"kernel_shape": [4]},
        expected=_unpool,
        name="outside",
    ),
    Case(
        op="MaxUnpool",
        inputs=[Rand((0, 3, 2), "float32"), np.zeros((0, 3, 2), np.int64)],
        attrs={"kernel_shape": [2], "strides": [2]},
        expected=lambda *_, **__: np.zeros((0, 3, 4)),
    ),
    *(
        Case(
            op="MaxUnpool",
            inputs=[Rand(x, "float32"), *more],
            attrs={"kernel_shape": [2]},
            error=("INVALID_ARGUMENT", text),
            name=text.replace(" ", "_"),
            skip=_REFUSED_EARLIER,
        )
        for x, more, text in [
            ((1, 3), [np.zeros((1, 3), np.int64)], "needs batch, channels"),
            ((1, 1, 3), [np.zeros((1, 1, 4), np.int64)], "indices have shape [1,1,4]"),
            ((1, 1, 3), [np.zeros((1, 1, 3), np.int64), np.array([1, 1, 3])], "does not hold"),
            ((1, 1, 3), [np.zeros((1, 1, 3), np.int64), np.array([1, 2, 4])], "does not hold"),
            ((1, 1, 3), [np.zeros((1, 1, 3), np.int64), np.array([1, 4])], "output_shape has 2 numbers"),
        ]
    ),
    Case(
        op="LpPool",
        inputs=[Rand((1, 2, 6), "float32")],
        attrs={"kernel_shape": [2], "p": 0},
        error=("INVALID_ARGUMENT", "p 0 is no norm"),
    ),
    *(
        Case(
            op=op,
            inputs=[Rand((1, 1, 2, 2, 2, 2), "float32")],
            attrs={"kernel_shape": [2] * 4},
            error=("NOT_SUPPORTED", "4 spatial dimensions"),
        )
        for op in ("MaxPool", "AveragePool", "LpPool")
    ),
    *(
        Case(
            op=op,
            inputs=[Rand(x)],
            attrs=attrs,
            expected=lambda x, **_: np.zeros((*x.shape[:2], 7, 6)),
            dtypes=_SOME[:2],
        )
        for op in ("MaxPool", "AveragePool")
        for x, attrs in _EMPTY
    ),
    *(
        Case(op=op, inputs=[Rand(x, "float32")], attrs=attrs, error=("INVALID_ARGUMENT", text))
        for op in ("MaxPool", "AveragePool")
        for x, attrs, text in [
            ((1, 3, 8, 7), {"kernel_shape": [2]}, "differ in rank"),
            ((1, 3), {"kernel_shape": [2]}, "needs batch, channels and a spatial dimension"),
            ((1, 3, 8, 7), {"kernel_shape": [9, 2]}, "reaches over 9 elements of spatial dimension 0"),
            ((1, 3, 8, 7), {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]}, "pads [-1,0,0,0] holds -1"),
        ]
    ),
]
