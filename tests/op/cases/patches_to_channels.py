"""PatchesToChannels, which compiled regions make before patch embeddings."""

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN


def _patches_to_channels(x, channels, kernel_shape):
    n, c, h, w = x.shape
    rows, columns = kernel_shape
    down, along = h // rows, w // columns
    patches = x[:, :, : down * rows, : along * columns].reshape(n, c, down, rows, along, columns)
    y = np.zeros((n, down, along, channels), x.dtype)
    y[..., : c * rows * columns] = patches.transpose(0, 2, 4, 1, 3, 5).reshape(n, down, along, c * rows * columns)
    return y


CASES = [
    *(
        Case(
            op="PatchesToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape)],
            attrs={"kernel_shape": patch, "channels": channels},
            expected=_patches_to_channels,
            dtypes=("float16", "bfloat16"),
        )
        for shape, patch, channels in [
            ((2, 3, 32, 48), [16, 16], 768),
            ((3, 3, 16, 24), [4, 4], 48),
            ((2, 4, 12, 20), [2, 2], 16),
            # Filled up, of rows of odd length, and with a rest of the image beside the patches.
            ((2, 3, 28, 42), [14, 14], 592),
            ((2, 3, 11, 14), [4, 4], 56),
            ((1, 3, 9, 15), [3, 5], 48),
            ((2, 1, 7, 9), [1, 2], 8),
            ((0, 3, 8, 8), [4, 4], 48),
            ((2, 0, 8, 8), [4, 4], 8),
            ((2, 3, 0, 8), [4, 4], 48),
            ((2, 3, 8, 0), [4, 4], 48),
        ]
    ),
    *(
        Case(
            op="PatchesToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape, "float16")],
            attrs=attrs,
            error=("INVALID_ARGUMENT", text),
        )
        for shape, attrs, text in [
            (
                (1, 3, 8, 8),
                {"kernel_shape": [4, 4], "channels": 40},
                "patches of 4x4 of the image [1,3,8,8] have more than 40 channels",
            ),
            ((1, 3, 8, 8), {"kernel_shape": [4, 4], "channels": 52}, "channels 52 must be a multiple of 8"),
            ((1, 3, 8, 8), {"kernel_shape": [4], "channels": 48}, "kernel_shape [4] must be the rows and columns"),
            ((1, 3, 8, 8), {"kernel_shape": [0, 4], "channels": 48}, "kernel_shape [0,4] must be"),
            ((1, 3, 3, 8), {"kernel_shape": [4, 4], "channels": 48}, "the window reaches over 4 elements"),
            ((3, 8, 8), {"kernel_shape": [4, 4], "channels": 48}, "the image [3,8,8] must have rank 4"),
        ]
    ),
]
