"""SpaceToChannels, which compiled regions make before convolutions of few channels."""

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN


def _space_to_channels(x, block=1, channels=8):
    n, c, h, w = x.shape
    rows, columns = -(-h // block), -(-w // block)
    whole = np.zeros((n, c, rows * block, columns * block), x.dtype)
    whole[:, :, :h, :w] = x
    blocks = whole.reshape(n, c, rows, block, columns, block).transpose(0, 2, 4, 3, 5, 1)
    y = np.zeros((n, rows, columns, channels), x.dtype)
    y[..., : block * block * c] = blocks.reshape(n, rows, columns, block * block * c)
    return y


CASES = [
    *(
        Case(
            op="SpaceToChannels",
            domain=FUSED_DOMAIN,
            inputs=[Rand(shape)],
            attrs={"block": block, "channels": channels},
            expected=_space_to_channels,
            dtypes=("float16", "bfloat16"),
        )
        for shape, block, channels in [
            ((2, 3, 5, 7), 1, 8),
            ((2, 3, 6, 8), 2, 16),
            ((1, 3, 5, 7), 2, 16),
            ((2, 1, 9, 10), 4, 24),
            ((3, 4, 37, 30), 2, 16),
            ((0, 3, 5, 7), 2, 16),
            ((2, 0, 4, 4), 2, 8),
            ((2, 3, 0, 4), 2, 16),
        ]
    ),
    Case(
        op="SpaceToChannels",
        domain=FUSED_DOMAIN,
        inputs=[Rand((1, 3, 4, 4), "float16")],
        attrs={"block": 2, "channels": 8},
        error=("INVALID_ARGUMENT", "blocks of 2x2 of the image [1,3,4,4] have more than 8 channels"),
    ),
    Case(
        op="SpaceToChannels",
        domain=FUSED_DOMAIN,
        inputs=[Rand((1, 3, 4, 4), "float16")],
        attrs={"block": 1, "channels": 4},
        error=("INVALID_ARGUMENT", "channels 4 must be a multiple of 8"),
    ),
]
