"""Conv: 1 to 3 dimensions, groups, depthwise, dilations, strides, every padding, through library and own kernels."""

import math

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.dtypes import FLOATS


def _padding(size, reach, stride, auto_pad, pads):
    if auto_pad == "NOTSET":
        return pads
    if auto_pad == "VALID":
        return 0, 0
    total = max(0, (math.ceil(size / stride) - 1) * stride + reach - size)
    return (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)


def _conv(
    x, w, b=None, group=1, strides=None, pads=None, dilations=None, auto_pad="NOTSET", kernel_shape=None
):  # the attributes of the operator
    rank, kernel = x.ndim - 2, w.shape[2:]
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * (2 * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padding = [_padding(x.shape[2 + d], reach[d], strides[d], auto_pad, (pads[d], pads[rank + d])) for d in range(rank)]
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    out = [(x.shape[2 + d] - reach[d]) // strides[d] + 1 for d in range(rank)]
    x = x.reshape(x.shape[0], group, x.shape[1] // group, *x.shape[2:])
    w = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    y = np.zeros((x.shape[0], group, w.shape[1], *out))
    for tap in np.ndindex(*kernel):
        places = tuple(
            slice(tap[d] * dilations[d], tap[d] * dilations[d] + (out[d] - 1) * strides[d] + 1, strides[d])
            for d in range(rank)
        )
        y += np.einsum("ngc...,gmc->ngm...", x[(..., *places)], w[(..., *tap)])
    y = y.reshape(y.shape[0], y.shape[1] * y.shape[2], *out)
    return y if b is None else y + b.reshape(-1, *[1] * rank)


_GEOMETRIES = [
    # X, W, attributes
    ((2, 3, 9), (4, 3, 3), {}),
    ((1, 4, 12), (6, 2, 3), {"group": 2, "strides": [2], "pads": [1, 1]}),
    ((2, 4, 20), (4, 1, 5), {"group": 4, "pads": [2, 2]}),
    ((2, 3, 8, 7), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 3, 8, 7), (4, 3, 1, 1), {}),
    ((2, 4, 6, 5), (6, 2, 1, 1), {"group": 2}),
    ((1, 3, 8, 7), (4, 3, 1, 1), {"strides": [2, 2]}),
    ((1, 3, 11, 13), (5, 3, 3, 5), {"strides": [2, 3], "dilations": [2, 1], "pads": [2, 2, 2, 2]}),
    ((1, 3, 8, 7), (4, 3, 3, 3), {"pads": [0, 1, 2, 3]}),
    ((1, 3, 8, 7), (4, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 8, 7), (4, 3, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 3, 8, 7), (4, 3, 3, 3), {"auto_pad": "SAME_UPPER", "dilations": [2, 2]}),
    ((1, 3, 8, 7), (4, 3, 3, 3), {"auto_pad": "VALID", "kernel_shape": [3, 3]}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 0, 1, 0, 1, 1]}),
    ((2, 4, 4, 5, 6), (4, 2, 3, 3, 3), {"group": 2, "pads": [1] * 6}),
    ((2, 3, 1, 1), (70, 3, 1, 1), {}),
    ((1, 1, 5, 5), (1, 1, 3, 3), {}),
]
# Channels each on their own: the kernel sizes and strides with a kernel of their own, and the general one.
_DEPTHWISE = [
    ((2, 5, 9, 11), (5, 1, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 5, 9, 11), (5, 1, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((1, 5, 9, 11), (5, 1, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ((1, 5, 9, 11), (5, 1, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    ((1, 4, 13, 10), (4, 1, 5, 5), {"pads": [2, 2, 2, 2]}),
    ((1, 4, 13, 10), (4, 1, 5, 5), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    *(  # rows of whole packs
        ((1, 2, 11, 32), (2, 1, taps, taps), attrs)
        for taps, attrs in (
            (3, {"pads": [1, 1, 1, 1]}),
            (3, {"pads": [0, 1, 1, 1], "strides": [2, 2]}),
            (3, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            (5, {"pads": [2, 2, 2, 2]}),
            (5, {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
            (5, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        )
    ),
    ((1, 3, 9, 8), (3, 1, 7, 7), {"pads": [3, 3, 3, 3]}),
    ((1, 3, 9, 8), (3, 1, 2, 3), {"pads": [0, 1, 1, 2]}),
    ((2, 3, 7, 6), (6, 1, 3, 3), {"pads": [1, 1, 1, 1]}),  # two outputs a channel
    ((1, 40, 3, 40), (40, 1, 5, 5), {"pads": [2, 2, 2, 2], "strides": [1, 1]}),
    ((1, 3, 30, 30), (3, 1, 9, 9), {}),  # too large for it
]
# Whole packs of channels: 16-bit ones run channels-last.
_PACKS = [
    ((2, 8, 9, 7), (16, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 24, 8, 7), (8, 24, 1, 1), {}),
    ((1, 16, 9, 8), (8, 16, 3, 2), {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 1, 2, 1]}),
    ((3, 8, 1, 1), (40, 8, 1, 1), {}),  # one pixel: nothing moves
    ((1, 8, 3, 3), (8, 8, 3, 3), {}),  # to one pixel
    ((2, 8, 11), (16, 8, 3), {"strides": [2]}),
    ((1, 8, 4, 5, 3), (8, 8, 2, 3, 2), {"pads": [1, 1, 0, 0, 1, 1]}),
]
_CHANNELS_LAST = {
    "options": {"conv_path": 4},  # as the driver numbers them
    "skip": {"session": "the option is a word there"},
}
_DEPTHWISE = [(x, w, {"group": x[1], **attrs}) for x, w, attrs in _DEPTHWISE]
_EMPTY = [
    ((0, 3, 8, 7), (4, 3, 3, 3), {}),
    ((2, 3, 8, 7), (0, 3, 3, 3), {}),
    ((2, 0, 8, 7), (4, 0, 3, 3), {}),  # no channel to sum over: zeros, or the bias
]

# The product adds to the bias; for some sizes cuBLASLt rounds it to 16 bits before.
_COLUMNS = {"float16": Tolerance(1, terms=2.0**12), "bfloat16": Tolerance(1, terms=2.0**15)}


def _cases(geometries, dtypes=("float32", "float16"), **more):
    return [
        Case(
            op="Conv",
            inputs=[Rand(x), Rand(w, low=-1, high=1), *([Rand(w[:1])] if bias else [])],
            attrs=attrs,
            expected=_conv,
            magnitude="absolute",
            dtypes=dtypes,
            **more,
        )
        for x, w, attrs in geometries
        for bias in (False, True)
    ]


CASES = [
    *_cases(_GEOMETRIES + _DEPTHWISE + _EMPTY),
    *_cases(_PACKS, dtypes=("float16",)),
    *_cases(_PACKS[:1], dtypes=("bfloat16",)),
    *_cases(_PACKS, dtypes=("float16",), constants={1}),
    *_cases(_PACKS[:1], dtypes=("float32",), constants={1}, **_CHANNELS_LAST),
    *_cases(_PACKS[5:6], dtypes=("float16",), options={"cudnn_conv1d_pad_to_nc1d": 1}),
    *_cases([_PACKS[0], _GEOMETRIES[7]], dtypes=("float32",), **_CHANNELS_LAST),
    *_cases([_GEOMETRIES[3], _DEPTHWISE[0], _DEPTHWISE[2]], dtypes=("bfloat16", "float64")),
    *_cases(_GEOMETRIES, options={"enable_cudnn": 0}, tolerance=_COLUMNS),
    *_cases(_GEOMETRIES[1:4], dtypes=("bfloat16", "float64"), options={"enable_cudnn": 0}, tolerance=_COLUMNS),
    *_cases(_GEOMETRIES[:4], options={"cudnn_conv1d_pad_to_nc1d": 1, "cudnn_conv_use_max_workspace": 0}),
    *_cases(_GEOMETRIES[3:4], options={"deterministic_compute": 1}),
    *_cases(_GEOMETRIES[3:4], dtypes=FLOATS, opset="1+"),
    Case(  # more than one chunk of the column matrix
        op="Conv",
        inputs=[Rand((1, 160, 80, 150)), Rand((2, 160, 3, 3)), Rand((2,))],
        attrs={"pads": [1, 1, 1, 1]},
        expected=_conv,
        magnitude="absolute",
        dtypes=("float32",),
        options={"enable_cudnn": 0},
        name="chunks",
    ),
    *(
        Case(
            op="Conv",
            inputs=[Rand(shape, "float32") for shape in shapes],
            attrs=attrs,
            error=("INVALID_ARGUMENT", text),
        )
        for shapes, attrs, text in [
            (((1, 3, 8, 8), (4, 2, 3, 3)), {}, "do not fit the 3 channels of X [1,3,8,8]"),
            (((1, 4, 8, 8), (5, 2, 3, 3)), {"group": 2}, "in 2 groups do not fit"),
            (((1, 3, 8, 8), (4, 3, 3)), {}, "must have the same rank"),
            (((1, 3, 8, 8), (4, 3, 3, 3), (3,)), {}, "the bias B has 3 values for 4 output channels"),
            (((1, 3, 8, 8), (4, 3, 3, 3), (4, 1)), {}, "the bias B [4,1] must have rank 1"),
            (((1, 3, 8, 8), (4, 3, 3, 3)), {"kernel_shape": [3, 2]}, "kernel_shape is [3,2], the weights have [3,3]"),
            (((1, 3, 8, 8), (4, 3, 3, 3)), {"strides": [0, 1]}, "strides [0,1] holds 0"),
            (((1, 3, 8, 8), (4, 3, 3, 3)), {"pads": [0, 1]}, "attribute pads has 2 values"),
            (((1, 3, 8, 8), (4, 3, 3, 3)), {"auto_pad": "SAME"}, "auto_pad is 'SAME'"),
            (((1, 3, 2, 8), (4, 3, 3, 3)), {}, "reaches over 3 elements of spatial dimension 0"),
            (((1, 3, 8, 8), (4, 3, 3, 3)), {"group": 0}, "group is 0"),
        ]
    ),
    Case(
        op="Conv",
        inputs=[Rand((1, 1, 2, 2, 2, 2), "float32"), Rand((1, 1, 1, 1, 1, 1), "float32")],
        error=("NOT_SUPPORTED", "4 spatial dimensions"),
    ),
]
