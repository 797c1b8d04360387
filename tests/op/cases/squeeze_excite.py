"""SqueezeExcite, which compiled regions make of channels-last images that are scaled by gates of their means."""

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from .fused_conv import _ACTIVATIONS


def _act(name, y, params):
    return _ACTIVATIONS[name.lower().replace("_", "")](y, *np.float32(params).tolist())


def _squeezed(x, w1, b1=None, w2=None, b2=None, activation="", activation_params=(), squeeze_activation="",
              squeeze_activation_params=()):  # fmt: skip
    means = x.reshape(x.shape[0], -1, x.shape[-1]).mean(1) if x.size else np.zeros((x.shape[0], x.shape[-1]))
    inner = means @ w1.reshape(w1.shape[:2]).T + (0 if b1 is None else b1)
    gates = _act(squeeze_activation, inner, squeeze_activation_params) @ w2.reshape(w2.shape[:2]).T
    gates = _act(activation, gates + (0 if b2 is None else b2), activation_params)
    return x * gates.reshape(x.shape[0], *([1] * (x.ndim - 2)), x.shape[-1])


def _magnitude(x, *weights, **attrs):
    """What lies between is of fp32, so that of a gate's terms without their signs little counts."""
    terms = _squeezed(np.abs(x), *(None if w is None else np.abs(w) for w in weights))
    return np.abs(_squeezed(x, *weights, **attrs)) + 2.0**-12 * terms


def _case(x, squeezed, first="relu", second="sigmoid", params=((), ()), bias=(True, True), taps=(1, 1), **more):
    channels = x[-1]
    layers = [
        Rand((squeezed, channels, *taps), low=-1, high=1),
        Rand((squeezed,)) if bias[0] else None,
        Rand((channels, squeezed, *taps), low=-1, high=1),
        *([Rand((channels,))] if bias[1] else []),
    ]
    attrs = {"squeeze_activation": first, "activation": second}
    for name, values in zip(("squeeze_activation_params", "activation_params"), params, strict=True):
        attrs |= {name: [float(value) for value in values]} if values else {}
    return Case(op="SqueezeExcite", domain=FUSED_DOMAIN, inputs=more.pop("inputs", [Rand(x), *layers]), attrs=attrs,
                dtypes=more.pop("dtypes", ("float16", "bfloat16")), constants={1, 3}, expected=_squeezed,
                magnitude=_magnitude, **more)  # fmt: skip


def _with(shape, special):
    values = np.random.default_rng(5).standard_normal(shape).astype(np.float16)
    values[1, 2, 3, 4] = special
    return values


def _halves(*shapes):
    return [np.random.default_rng(7 + i).uniform(-1, 1, shape).astype(np.float16) for i, shape in enumerate(shapes)]


def _refused(inputs, text, status="NOT_SUPPORTED", constants=frozenset({1, 3})):
    return Case(op="SqueezeExcite", domain=FUSED_DOMAIN, inputs=[Rand(shape, "float16") for shape in inputs],
                constants=set(constants), error=(status, text))  # fmt: skip


CASES = [
    *(
        _case(x, squeezed, dtypes=("float16", "bfloat16") if x[-1] < 1000 else ("float16",))
        for x, squeezed in [
            ((2, 7, 7, 96), 24),
            ((1, 14, 14, 480), 20),  # rows of the second layer that are no packs
            ((3, 28, 28, 40), 10),
            ((1, 30, 31, 32), 8),  # more pixels at once than a warp has
            ((2, 5, 3, 1152), 48),
            ((1, 3, 2, 2056), 520),  # no whole words of 32 lanes
            ((2, 4, 3, 4096), 4),  # all threads side by side
            ((2, 6, 5, 12), 3),  # channels that are no packs
            ((2, 3, 3, 7), 1),
            ((4, 1, 1, 64), 16),
            ((150, 2, 2, 16), 8),
            ((2, 20, 16), 8),
            ((2, 3, 4, 5, 16), 8),
            ((0, 7, 7, 16), 8),
            ((2, 0, 7, 16), 8),
        ]
    ),
    *(
        _case((2, 6, 7, 24), 8, first, second, params)
        for first, second, params in [
            ("silu", "sigmoid", ((), ())),
            ("relu", "hard_sigmoid", ((), (0.2, 0.5))),
            ("leaky_relu", "clip", ((0.1,), (-1, 2))),
            ("hard_swish", "tanh", ((), ())),
            ("none", "none", ((), ())),
        ]
    ),
    *(_case((2, 6, 7, 24), 8, bias=bias) for bias in ((False, True), (True, False), (False, False))),
    *(
        _case((2, 6, 7, 24), 8, inputs=[_with((2, 6, 7, 24), special), *_halves((8, 24, 1, 1), (8,), (24, 8, 1, 1), (24,))],
              dtypes=())  # fmt: skip
        for special in (np.inf, -np.inf, np.nan)
    ),
    _refused([(2, 4, 4, 16), (8, 16, 1, 1), (8,), (16, 8, 1, 1)], "weights that are no constant", constants={1}),
    _refused([(2, 4, 4, 16), (4104, 16, 1, 1), (4104,), (16, 4104, 1, 1)], "1 to 4096 channels are offered"),
    *(
        _refused(inputs, text, "INVALID_ARGUMENT")
        for inputs, text in [
            ([(2, 4, 4, 16), (8, 24, 1, 1), (8,), (16, 8, 1, 1)], "do not fit 16 channels"),
            ([(2, 4, 4, 16), (8, 16, 3, 1), (8,), (16, 8, 1, 1)], "do not fit 16 channels"),
            ([(2, 4, 4, 16), (8, 16, 1, 1), (9,), (16, 8, 1, 1)], "the bias [9] does not fit"),
            ([(2, 4, 4, 16), (8, 16, 1, 1), (8,), (24, 8, 1, 1)], "24 gates for the 16 channels"),
            ([(2, 16), (8, 16, 1, 1), (8,), (16, 8, 1, 1)], "is no image"),
        ]
    ),
]
