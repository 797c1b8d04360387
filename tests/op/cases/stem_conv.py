"""StemConv, which compiled regions make of a network's first convolution: channels first to channels last."""

import math

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from .fused_conv import _fused


def _stem(x, w, b=None, max_pool=0, pool_pads=(0, 0, 0, 0), pool_ceil_mode=0, **attrs):
    y = np.moveaxis(_fused(x, w, b, **attrs), 1, -1)
    return pooled(y, pool_pads, pool_ceil_mode) if max_pool else y


def pooled(y, pool_pads=(0, 0, 0, 0), pool_ceil_mode=0):
    """Maxima of windows of 3 x 3, two apart, over images with their channels last."""
    rounds = math.ceil if pool_ceil_mode else math.floor
    out = [rounds((y.shape[1 + d] + pool_pads[d] + pool_pads[2 + d] - 3) / 2) + 1 for d in range(2)]
    for d in range(2):  # the last window starts inside the image or its leading padding
        out[d] -= 2 * (out[d] - 1) >= y.shape[1 + d] + pool_pads[d]
    padded = np.full((y.shape[0], 2 * out[0] + 1, 2 * out[1] + 1, y.shape[3]), -np.inf)
    rows = min(y.shape[1], padded.shape[1] - pool_pads[0])
    columns = min(y.shape[2], padded.shape[2] - pool_pads[1])
    padded[:, pool_pads[0] :, pool_pads[1] :][:, :rows, :columns] = y[:, :rows, :columns]
    taps = [padded[:, i : i + 2 * out[0] : 2, j : j + 2 * out[1] : 2] for i in range(3) for j in range(3)]
    return np.max(taps, 0)


def _magnitude(*inputs, activation="", activation_params=(), **attrs):
    return _stem(*(None if value is None else np.abs(value) for value in inputs), **attrs)


def _case(x, w, attrs, bias=True, dtypes=("float16", "bfloat16"), **more):
    inputs = [Rand(x), Rand(w, low=-1, high=1), *([Rand(w[:1])] if bias else [])]
    inputs = more.pop("inputs", inputs)
    return Case(op="StemConv", domain=FUSED_DOMAIN, inputs=inputs, attrs={"strides": [2, 2], **attrs}, dtypes=dtypes,
                constants={1}, expected=_stem, magnitude=_magnitude, **more)  # fmt: skip


def _beside(x, row, column):
    """An image that is infinite or NaN wherever windows of one element, 3 rows and 2 columns apart, do not meet it."""
    values = np.full(x, np.inf, np.float16)
    values[..., 1::2, :] = np.nan
    met = values[..., row::3, column::2]
    met[...] = np.random.default_rng(3).standard_normal(met.shape)
    return values


def _with(x, *specials):
    """Random numbers, and each of the specials at one place."""
    generator = np.random.default_rng(5)
    values = generator.standard_normal(x).astype(np.float16)
    values.flat[generator.choice(values.size, len(specials), replace=False)] = specials
    return values


def _refused(w, attrs, text, x=None, **more):
    inputs = [Rand(x or (1, w[1], 16, 16), "float16"), Rand(w, "float16")]
    return Case(op="StemConv", domain=FUSED_DOMAIN, inputs=inputs, attrs={"strides": [2, 2], **attrs},
                **{"constants": {1}, "error": ("NOT_SUPPORTED", text), **more})  # fmt: skip


_SAME = {"pads": [3, 3, 3, 3]}
CASES = [
    *(
        _case(x, w, attrs)
        for x, w, attrs in [
            ((2, 3, 16, 24), (64, 3, 7, 7), _SAME),
            ((1, 3, 15, 21), (64, 3, 7, 7), _SAME),  # rows that are no whole packs
            ((2, 3, 14, 40), (32, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
            ((2, 3, 14, 40), (128, 3, 3, 3), {"pads": [1, 1, 1, 1]}),  # two groups of channels
            ((1, 3, 9, 150), (64, 3, 5, 5), {"pads": [2, 2, 2, 2]}),
            ((2, 3, 9, 136), (24, 3, 3, 3), {"pads": [0, 1, 1, 0]}),  # two blocks of columns
            ((1, 3, 11, 80), (80, 3, 6, 6), {"pads": [2, 2, 2, 2]}),  # an odd number of groups of channels
            ((3, 1, 12, 16), (8, 1, 5, 5), {"pads": [4, 3, 2, 1]}),
            ((2, 4, 13, 18), (16, 4, 3, 3), {"pads": [0, 1, 2, 3], "strides": [3, 2]}),
            ((2, 4, 10, 32), (40, 4, 5, 5), {"pads": [2, 2, 2, 2], "strides": [1, 2]}),
            ((1, 2, 9, 16), (136, 2, 1, 7), {"pads": [0, 3, 0, 3], "strides": [1, 2]}),
            ((2, 2, 40, 16), (8, 2, 11, 8), {"pads": [5, 4, 5, 4], "strides": [8, 2]}),
            ((1, 3, 12, 12), (8, 3, 2, 1), {"auto_pad": "VALID"}),
            ((1, 1, 1, 8), (8, 1, 1, 1), {"strides": [1, 2]}),
            ((1, 3, 8, 6), (8, 3, 3, 3), {"pads": [0, 9, 0, 9]}),  # windows that meet no pixel
            ((0, 3, 8, 8), (8, 3, 3, 3), {}),
            ((2, 3, 0, 8), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ]
    ),
    _case((1, 3, 140, 16), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}, dtypes=("float16",)),
    *(  # blocks of several rows, where multiprocessors are few
        _case((40, 3, 66, 8), (channels, 3, 3, 3), {"pads": [1, 1, 1, 1]}, dtypes=("float16",)) for channels in (8, 64)
    ),
    _case((1, 3, 16, 16), (16, 3, 3, 3), {"pads": [1, 1, 1, 1]}, bias=False),
    *(
        _case((2, 3, 10, 12), (w, 3, 3, 3), {"pads": [1, 1, 1, 1], "activation": name, "activation_params": params})
        for w in (16, 64)
        for name, params in [
            ("relu", []),
            ("clip", [0.0, 1.5]),
            ("clip", [1.0, -0.5]),  # the upper one wins
            ("silu", []),
            ("hard_swish", []),
            ("leaky_relu", [0.1]),
            ("gelu", []),
        ]
    ),
    *(
        _case(
            (),
            (),
            {"strides": [3, 2], "pads": [0, pad, 0, 0]},
            dtypes=(),
            inputs=[_beside((1, 3, 7, width), 0, pad), Rand((channels, 3, 1, 1), "float16")],
        )
        for channels in (8, 64)
        for pad, width in [(0, 16), (1, 16), (0, 21), (1, 21)]
    ),
    *(
        _case(x, w, {"pads": [w[2] // 2] * 4, "max_pool": 1, "pool_pads": pads, "pool_ceil_mode": ceil, **attrs})
        for x, w, pads, ceil, attrs in [
            ((2, 3, 32, 48), (64, 3, 7, 7), [1, 1, 1, 1], 0, {"activation": "relu"}),
            ((1, 3, 30, 80), (64, 3, 7, 7), [1, 1, 1, 1], 0, {"activation": "relu"}),  # two blocks of columns
            ((1, 3, 26, 130), (128, 3, 3, 3), [1, 0, 0, 1], 1, {}),
            ((2, 3, 33, 33), (192, 3, 5, 5), [0, 1, 1, 0], 0, {}),
            ((1, 3, 29, 33), (40, 3, 3, 3), [1, 1, 1, 1], 0, {}),
            ((1, 3, 32, 40), (72, 3, 7, 7), [1, 1, 1, 1], 0, {"activation": "relu"}),  # no whole 64 channels
            ((2, 3, 18, 122), (24, 3, 3, 3), [0, 0, 0, 0], 1, {"activation": "relu"}),
            ((2, 3, 17, 21), (8, 3, 5, 5), [0, 0, 0, 0], 0, {"activation": "clip", "activation_params": [-1.0, 2.0]}),
            ((2, 1, 16, 24), (16, 1, 5, 5), [2, 0, 1, 2], 1, {"strides": [1, 2]}),
            ((2, 4, 27, 14), (8, 4, 3, 3), [0, 2, 2, 1], 0, {"strides": [3, 2]}),
            ((1, 3, 2, 2), (8, 3, 3, 3), [1, 1, 1, 1], 0, {}),  # one pixel
            ((1, 3, 120, 8), (8, 3, 3, 3), [1, 1, 1, 1], 0, {}),
            ((0, 3, 32, 32), (8, 3, 3, 3), [1, 1, 1, 1], 0, {}),
        ]
    ),
    *(  # blocks of several rows
        _case(x, w, {"pads": [w[2] // 2] * 4, "max_pool": 1, "pool_pads": [1] * 4}, dtypes=("float16",))
        for x, w in [((48, 3, 66, 8), (8, 3, 3, 3)), ((48, 3, 66, 8), (64, 3, 3, 3)), ((9, 3, 130, 20), (128, 3, 7, 7))]
    ),
    *(
        _case(  # NaN is the largest
            (),
            (),
            {"pads": [1] * 4, "max_pool": 1, "pool_pads": [1] * 4, "activation": "relu"},
            dtypes=(),
            inputs=[_with((2, 3, 24, 40), np.nan, np.inf, -np.inf), Rand((channels, 3, 3, 3), "float16")],
        )
        for channels in (16, 64)
    ),
    _refused((8, 3, 3, 3), {"max_pool": 1, "activation": "silu"}, "a pool of activation 'silu'"),
    _refused(
        (8, 3, 3, 3),
        {"max_pool": 1, "pool_pads": [3, 0, 0, 0]},
        "",
        error=("INVALID_ARGUMENT", "pool_pads [3,0,0,0] hold 3"),
    ),
    *(
        _refused(*refused)
        for refused in [
            ((8, 3, 3, 3), {"strides": [1, 1]}, "strides 1 and 1"),
            ((8, 3, 3, 3), {"strides": [9, 2]}, "strides 9 and 2"),
            ((8, 3, 3, 3), {"dilations": [2, 1]}, "dilations"),
            ((8, 3, 3, 3), {"auto_pad": "SAME_UPPER"}, "padding that depends on the image"),
            ((12, 3, 3, 3), {}, "12 output channels; multiples of 8"),
            ((8, 5, 3, 3), {}, "windows of 3 rows and 5 channels"),
            ((8, 4, 6, 3), {}, "windows of 6 rows and 4 channels"),
            ((8, 3, 3, 9), {}, "windows of 9 columns with a padding of 0"),
            ((8, 3, 3, 8), {"pads": [0, 1, 0, 0]}, "windows of 8 columns with a padding of 1"),
            ((8, 3, 3), {}, "weights [8,3,3]", (1, 3, 16)),
        ]
    ),
    _refused((8, 2, 3, 3), {"group": 2}, "weights [8,2,3,3] in 2 groups", (1, 4, 16, 16)),
    _refused((8, 3, 3, 3), {}, "weights that are no constant", constants=()),
    _refused((8, 3, 3, 3), {}, "", (1, 2, 16, 16), error=("INVALID_ARGUMENT", "do not fit the 2 channels")),
]
