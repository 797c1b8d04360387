"""ConvTranspose: 1 to 3 dimensions, groups, every way to give padding and output size, library and own kernels."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS


def _conv_transpose(
    x,
    w,
    b=None,
    group=1,
    strides=None,
    pads=None,
    dilations=None,
    output_padding=None,
    output_shape=None,
    auto_pad="NOTSET",
    kernel_shape=None,
):
    rank, kernel = x.ndim - 2, w.shape[2:]
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra, pads = output_padding or [0] * rank, pads or [0] * (2 * rank)
    full = [(x.shape[2 + d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + extra[d] for d in range(rank)]
    same = auto_pad.startswith("SAME")
    begins, outs = [], []
    for d in range(rank):
        wanted = output_shape[d] if output_shape else x.shape[2 + d] * strides[d] if same else None
        if wanted is None:
            begins.append(pads[d] if auto_pad == "NOTSET" else 0)
            outs.append(full[d] - (pads[d] + pads[rank + d] if auto_pad == "NOTSET" else 0))
        else:
            total = max(0, full[d] - wanted)
            begins.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
            outs.append(wanted if output_shape else full[d] - total)
    x = x.reshape(x.shape[0], group, x.shape[1] // group, *x.shape[2:])
    w = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    y = np.zeros((x.shape[0], group, w.shape[2], *[max(f, begins[d] + outs[d]) for d, f in enumerate(full)]))
    for tap in np.ndindex(*kernel):
        places = tuple(
            slice(tap[d] * dilations[d], tap[d] * dilations[d] + (x.shape[3 + d] - 1) * strides[d] + 1, strides[d])
            for d in range(rank)
        )
        y[(..., *places)] += np.einsum("ngc...,gcm->ngm...", x, w[(..., *tap)])
    y = y[(..., *[slice(begins[d], begins[d] + outs[d]) for d in range(rank)])]
    y = y.reshape(y.shape[0], y.shape[1] * y.shape[2], *outs)
    return y if b is None else y + b.reshape(-1, *[1] * rank)


_GEOMETRIES = [
    ((2, 3, 7), (3, 4, 3), {}),
    ((1, 4, 7), (4, 2, 4), {"group": 2, "strides": [2], "pads": [1, 1]}),
    ((2, 3, 4, 5), (3, 4, 2, 2), {"strides": [2, 2]}),
    ((2, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((1, 3, 4, 5), (3, 4, 3, 2), {"strides": [3, 2], "dilations": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 3, 4, 5), (3, 4, 1, 1), {}),
    ((1, 4, 4, 5), (4, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    ((1, 4, 4, 5), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    ((1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 4, 5), (3, 4, 4, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
    ((1, 3, 4, 5), (3, 4, 3, 3), {"strides": [3, 2], "output_shape": [11, 10]}),
    ((1, 3, 4, 5), (3, 4, 3, 3), {"strides": [3, 2], "output_shape": [13, 12], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 3, 4, 5), (2, 3, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 1, 0]}),
]
_EMPTY = [
    ((0, 3, 4, 5), (3, 4, 3, 3), {}),
    ((2, 0, 4, 5), (0, 4, 3, 3), {}),
    ((2, 3, 4, 5), (3, 0, 3, 3), {}),
]


def _cases(geometries, dtypes=("float32", "float16"), **more):
    return [
        Case(
            op="ConvTranspose",
            inputs=[Rand(x), Rand(w, low=-1, high=1), *([Rand((w[1] * attrs.get("group", 1),))] if bias else [])],
            attrs=attrs,
            expected=_conv_transpose,
            magnitude="absolute",
            dtypes=dtypes,
            **more,
        )
        for x, w, attrs in geometries
        for bias in (False, True)
    ]


CASES = [
    *_cases(_GEOMETRIES + _EMPTY),
    *_cases(_GEOMETRIES, options={"enable_cudnn": 0}),
    *_cases(_GEOMETRIES[3:4], dtypes=("bfloat16", "float64"), options={"enable_cudnn": 0}),
    *_cases(_GEOMETRIES[:2], options={"cudnn_conv1d_pad_to_nc1d": 1}),
    *_cases(_GEOMETRIES[3:4], dtypes=FLOATS, opset="1+"),
    *(
        Case(
            op="ConvTranspose",
            inputs=[Rand(shape, "float32") for shape in shapes],
            attrs=attrs,
            error=("INVALID_ARGUMENT", text),
        )
        for shapes, attrs, text in [
            (((1, 3, 4, 5), (4, 2, 3, 3)), {}, "do not fit the 3 channels of X [1,3,4,5]"),
            (((1, 3, 4, 5), (3, 2, 3, 3)), {"output_padding": [2, 0]}, "output_padding [2,0]"),
            (((1, 3, 4, 5), (3, 2, 3, 3)), {"output_shape": [7]}, "output_shape needs 2 values, not 1"),
            (((1, 3, 4, 5), (3, 2, 3, 3)), {"pads": [5, 5, 5, 5]}, "leaves nothing of 6 outputs"),
            (((1, 3, 4, 5), (3, 2, 3, 3), (3,)), {}, "the bias B has 3 values for 2 output channels"),
        ]
    ),
]
