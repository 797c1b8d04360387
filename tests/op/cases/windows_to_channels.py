"""WindowsToChannels, which compiled regions make before convolutions of few channels."""

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN


def _windows_to_channels(
    x, channels, kernel_shape, strides=(1,), dilations=(1,), pads=(0, 0), auto_pad="NOTSET", fill=0
):
    n, c, h, w = x.shape
    (taps,), (stride,), (dilation,) = kernel_shape, strides, dilations
    span = (taps - 1) * dilation + 1
    if auto_pad == "SAME_UPPER":
        room = max(0, (-(-w // stride) - 1) * stride + span - w)
        pads = (room // 2, room - room // 2)
    padded = np.full((n, c, h, w + sum(pads)), fill, x.dtype)
    padded[..., pads[0] : pads[0] + w] = x
    windows = (w + sum(pads) - span) // stride + 1 if w else 0
    y = np.full((n, h, windows, channels), fill, x.dtype)
    for v in range(windows):
        for tap in range(taps):
            at = v * stride + tap * dilation
            y[:, :, v, tap * c : (tap + 1) * c] = padded[..., at].transpose(0, 2, 1)
    return y


CASES = [
    *(
        Case(
            op="WindowsToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape)],
            attrs={"kernel_shape": [taps], "channels": channels, **attrs},
            expected=_windows_to_channels,
            dtypes=("float16", "bfloat16"),
        )
        for shape, taps, channels, attrs in [
            ((2, 3, 5, 7), 1, 8, {}),
            ((2, 3, 6, 16), 7, 24, {"strides": [2], "pads": [3, 3]}),
            ((1, 3, 5, 15), 7, 24, {"strides": [2], "pads": [3, 3]}),
            ((2, 1, 9, 10), 4, 8, {"strides": [4]}),
            ((1, 2, 3, 20), 3, 16, {"strides": [3], "dilations": [4], "pads": [5, 1]}),
            ((2, 3, 4, 9), 3, 16, {"strides": [2], "auto_pad": "SAME_UPPER"}),
            ((3, 4, 37, 30), 5, 24, {"strides": [2], "pads": [2, 2]}),
            ((0, 3, 5, 7), 3, 16, {"strides": [2]}),
            ((2, 0, 4, 4), 2, 8, {"strides": [2]}),
            ((2, 3, 0, 4), 2, 8, {"strides": [2]}),
            ((2, 3, 4, 0), 2, 8, {"strides": [2]}),
        ]
    ),
    *(
        Case(
            op="WindowsToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape, "int8", full=True)],
            attrs={"kernel_shape": [taps], "channels": channels, **attrs},
            expected=_windows_to_channels,
        )
        for shape, taps, channels, attrs in [
            ((2, 3, 6, 17), 7, 32, {"strides": [2], "pads": [3, 3], "fill": -128}),
            ((1, 1, 5, 9), 3, 16, {"pads": [1, 2], "fill": 14}),
            ((3, 15, 4, 30), 1, 16, {}),
        ]
    ),
    Case(
        op="WindowsToChannels",
        domain=FUSED_DOMAIN,
        inputs=[Rand((1, 3, 4, 4), "int8")],
        attrs={"kernel_shape": [1], "channels": 8},
        error=("INVALID_ARGUMENT", "channels 8 must be a multiple of 16"),
    ),
    *(
        Case(
            op="WindowsToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape, "float16")],
            attrs={"channels": channels, **attrs},
            error=("INVALID_ARGUMENT", text),
        )
        for shape, channels, attrs, text in [
            ((1, 3, 4, 4), 8, {"kernel_shape": [3]}, "windows of 3 elements of the image [1,3,4,4] have more than 8"),
            ((1, 3, 4, 4), 4, {"kernel_shape": [1]}, "channels 4 must be a multiple of 8"),
            ((1, 3, 4, 4), 16, {"kernel_shape": [3, 1]}, "kernel_shape must have the one dimension"),
            ((1, 3, 4, 4), 16, {"kernel_shape": [5]}, "the window reaches over 5 elements"),
            ((1, 4, 4), 8, {"kernel_shape": [1]}, "the image [1,4,4] must have rank 4"),
        ]
    ),
]
