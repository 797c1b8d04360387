"""FusedConv, and the Conv that compiled regions make: activation(conv(X, W) + B + Z), channels first or last."""

import math

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.dtypes import FLOATS
from ..harness.schemas import FUSED_DOMAIN
from .conv import _conv

_ACTIVATIONS = {
    "": lambda y: y,
    "none": lambda y: y,
    "gelu": lambda y: y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2,
    "relu": lambda y: np.maximum(y, 0),
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "tanh": np.tanh,
    "clip": np.clip,
    "leakyrelu": lambda y, a: np.where(y < 0, a * y, y),
    "hardsigmoid": lambda y, a, b: np.clip(a * y + b, 0, 1),
    "hardswish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
}


def _fused(x, w, b=None, z=None, activation="", activation_params=(), channels_last=0, adds_last=0, **attrs):
    if channels_last:
        x = np.moveaxis(x, -1, 1)
        z = None if z is None else np.moveaxis(z, -1, 1)
    z = 0 if z is None else z
    y = _conv(x, w, b, **attrs) + (0 if adds_last else z)
    y = _ACTIVATIONS[activation.lower().replace("_", "")](y, *np.float32(activation_params).tolist())
    y = y + z if adds_last else y
    return np.moveaxis(y, 1, -1) if channels_last else y


def _of_parts(x, w, b, z, extended, x_first=-1, residual_first=-1, y_first=-1, y_channels=0, **attrs):
    """Channels of images that have more."""
    x = x if x_first < 0 else x[..., x_first : x_first + w.shape[1]]
    z = z if residual_first < 0 else z[..., residual_first : residual_first + w.shape[0]]
    y = _fused(x, w, b, z, **attrs)
    if y_first < 0:
        return y
    assert extended.shape[-1] == y_channels
    extended = np.array(extended, y.dtype)
    extended[..., y_first : y_first + w.shape[0]] = y
    return extended


def _parts_magnitude(*inputs, activation="", activation_params=(), **attrs):
    return _of_parts(*(np.abs(value) for value in inputs), **attrs)


def _part_case(x, z, extended, attrs, dtypes=("float16", "bfloat16"), **more):
    more = more or {
        "expected": _of_parts,
        "magnitude": _parts_magnitude,
        "tolerance": _ROUNDED,
        "skip": {"shifted": "parts are a region's own memory, which is aligned"},
    }
    return Case(
        op="Conv",
        domain=FUSED_DOMAIN,
        inputs=[
            Rand((2, 6, 5, x)),
            Rand((16, 8, 3, 3), low=-0.25, high=0.25),
            Rand((16,), low=0.5, high=1.5),
            Rand((2, 6, 5, z)),
            Rand((2, 6, 5, extended)),
        ],
        attrs={"pads": [1, 1, 1, 1], "activation": "silu", "channels_last": 1} | attrs,
        dtypes=dtypes,
        constants={1, 2},
        **more,
    )


def _magnitude(*inputs, activation="", activation_params=(), **attrs):
    """No activation is steeper than its argument by much, and some hide how large that was."""
    return _fused(*(None if value is None else np.abs(value) for value in inputs), **attrs)


# The result is rounded before sum and activation where no library takes them: channels first, or each on its own.
_ROUNDED = {"float16": Tolerance(1, terms=2.0**12), "bfloat16": Tolerance(1, terms=2.0**15)}
# As mobile networks have them: squeezed images, expansions, projections, strides.
_LAYERS = [
    ((2, 16, 14, 14), (64, 16, 1, 1), {}, (2, 64, 14, 14)),
    ((2, 64, 7, 7), (32, 64, 1, 1), {}, (2, 32, 7, 7)),
    ((2, 32, 1, 1), (8, 32, 1, 1), {}, (2, 8, 1, 1)),
    ((2, 8, 1, 1), (32, 8, 1, 1), {}, (2, 32, 1, 1)),
    ((2, 8, 16, 16), (32, 8, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}, (2, 32, 8, 8)),
]
_GEOMETRIES = [
    # X, W, attributes, Y
    ((2, 3, 8, 7), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}, (2, 4, 8, 7)),
    ((2, 16, 9, 8), (24, 16, 1, 1), {"strides": [2, 2]}, (2, 24, 5, 4)),
    ((2, 8, 9, 8), (8, 1, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}, (2, 8, 9, 8)),
    ((2, 8, 6, 5), (8, 4, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}, (2, 8, 6, 5)),
    ((2, 8, 20), (16, 8, 3), {"pads": [1, 1]}, (2, 16, 20)),
    ((0, 3, 8, 7), (4, 3, 3, 3), {}, (0, 4, 6, 5)),
]
_DEPTHWISE_PACKS = ((2, 16, 7, 8), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1], "strides": [2, 2]}, (2, 16, 4, 4))
# Windows that channels-last images have tiles for, with rests of channels, rows and columns; images smaller than them.
_DEPTHWISE_TILES = [
    ((images, channels, *size), (channels, 1, taps, taps), attrs | {"group": channels}, (images, channels, *out))
    for images, channels, size, taps, attrs, out in [
        (2, 36, (9, 11), 3, {"pads": [1, 1, 1, 1]}, (9, 11)),
        (2, 36, (9, 12), 3, {"pads": [0, 1, 2, 0], "strides": [2, 2]}, (5, 6)),
        (1, 68, (6, 9), 5, {"pads": [2, 2, 2, 2]}, (6, 9)),
        (3, 32, (13, 7), 5, {"pads": [2, 1, 2, 2], "strides": [2, 2]}, (7, 3)),
        (2, 40, (9, 8), 7, {"pads": [3, 3, 3, 3]}, (9, 8)),
        (2, 4, (2, 3), 7, {"pads": [3, 3, 3, 3]}, (2, 3)),
        (1, 32, (8, 7), 3, {"pads": [5, 7, 4, 6]}, (15, 18)),
        (2, 6, (5, 6), 7, {"pads": [3, 3, 3, 3]}, (5, 6)),
        (1, 32, (9, 9), 3, {"strides": [3, 3]}, (3, 3)),
        (1, 32, (9, 9), 9, {"pads": [4, 4, 4, 4]}, (9, 9)),
    ]
]
_DEPTHWISE_LARGE = [
    (
        (1, 40, 121 * step, 110 * step),
        (40, 1, taps, taps),
        {"group": 40, "pads": [taps // 2] * 4, "strides": [step] * 2},
        (1, 40, 121, 110),
    )
    for taps, step in ((3, 1), (5, 1), (5, 2), (7, 1))
]
# Pointwise ones of so many pixels and few channels that they have a kernel of ours, on a large GPU and on the simulated
# one; the last tile is a part of one.
_MANY_PIXELS = [
    ((2, 8, 185, 183), (128, 8, 1, 1), {}, (2, 128, 185, 183)),
    ((3, 40, 25, 27), (256, 40, 1, 1), {}, (3, 256, 25, 27)),
]
_DEPTHWISE_DILATED = ((1, 8, 9, 8), (8, 1, 3, 3), {"group": 8, "dilations": [2, 2]}, (1, 8, 5, 4))


def _last(shape):
    return (shape[0], *shape[2:], shape[1])


def _inputs(geometry, bias, residual, channels_last):
    x, w, _, y = geometry
    turned = _last if channels_last else tuple
    return [
        Rand(turned(x)),
        Rand(w, low=-0.25, high=0.25),
        Rand((w[0],), low=0.5, high=1.5) if bias else None,
        *([Rand(turned(y))] if residual else []),
    ]


CASES = [
    *(
        Case(
            op="FusedConv",
            domain="com.microsoft",
            inputs=_inputs(geometry, bias, residual, channels_last=False),
            attrs=geometry[2] | ({"activation": activation} if activation else {}),
            expected=_fused,
            magnitude=_magnitude,
            dtypes=FLOATS,
            tolerance=_ROUNDED,
        )
        for geometry, bias, residual, activation in [
            (_GEOMETRIES[0], True, True, "Relu"),
            (_GEOMETRIES[0], False, True, "Sigmoid"),
            (_GEOMETRIES[1], False, True, ""),
            (_GEOMETRIES[2], True, False, "Tanh"),
            (_GEOMETRIES[3], True, False, ""),
            (_GEOMETRIES[5], True, True, "Relu"),
        ]
    ),
    *(
        Case(
            op="Conv",
            domain=FUSED_DOMAIN,
            inputs=_inputs(geometry, bias, residual, channels_last),
            attrs=geometry[2]
            | ({"activation": activation} if activation else {})
            | ({"channels_last": 1} if channels_last else {}),
            expected=_fused,
            magnitude=_magnitude,
            dtypes=FLOATS,
            # others are rounded before an activation that no precompiled engine has
            tolerance=None if channels_last and activation == "relu" and geometry[1][1] > 1 else _ROUNDED,
            constants={1} if constant else set(),
        )
        for geometry in _GEOMETRIES
        for bias, residual, activation, channels_last, constant in [
            (True, True, "relu", False, False),
            (False, True, "", False, True),
            (True, False, "silu", True, True),
            (True, True, "relu", True, True),
            (False, True, "sigmoid", True, False),
        ]
    ),
    *(
        Case(
            op=op,
            domain=domain,
            inputs=_inputs(geometry, True, residual, last),
            attrs=geometry[2]
            | {"activation": name}
            | ({"activation_params": parameters} if parameters else {})
            | ({"channels_last": 1} if last else {}),
            expected=_fused,
            magnitude=_magnitude,
            tolerance=_ROUNDED,
            dtypes=FLOATS,
        )
        for geometry, residual in [
            (_GEOMETRIES[0], False),
            (_GEOMETRIES[2], False),
            (_GEOMETRIES[2], True),
            (_DEPTHWISE_PACKS, False),
            (_DEPTHWISE_DILATED, False),
        ]
        for op, domain, name, parameters, last in [
            ("FusedConv", "com.microsoft", "Clip", [-0.5, 1.0], False),
            ("FusedConv", "com.microsoft", "LeakyRelu", [0.1], False),
            ("FusedConv", "com.microsoft", "HardSigmoid", [0.2, 0.5], False),
            ("Conv", FUSED_DOMAIN, "hard_swish", [], False),
            ("Conv", FUSED_DOMAIN, "clip", [0.0, 6.0], True),
            ("Conv", FUSED_DOMAIN, "leaky_relu", [0.25], True),
            ("Conv", FUSED_DOMAIN, "hard_sigmoid", [0.125, 0.25], True),
            ("Conv", FUSED_DOMAIN, "hard_swish", [], True),
            ("Conv", FUSED_DOMAIN, "silu", [], True),
        ]
    ),
    *(
        Case(
            op="Conv",
            domain=FUSED_DOMAIN,
            inputs=_inputs(geometry, True, residual, channels_last),
            attrs=geometry[2] | {"activation": activation, "channels_last": int(channels_last)},
            expected=_fused,
            magnitude=_magnitude,
            dtypes=("float32", "float16"),
            tolerance=_ROUNDED,
            constants={1},
        )
        for geometry in _LAYERS
        for residual, activation in [
            (False, "silu"),
            (False, "sigmoid"),
            (False, "gelu"),
            (True, "none"),
            (True, "silu"),
        ]
        for channels_last in (False, True)
    ),
    *(
        Case(
            op="Conv",
            domain=FUSED_DOMAIN,
            inputs=_inputs(geometry, bias, False, channels_last=True),
            attrs=geometry[2] | {"activation": activation, "channels_last": 1},
            expected=_fused,
            magnitude=_magnitude,
            dtypes=dtypes,
            tolerance=_ROUNDED,
            constants={1} if constant else set(),
        )
        for geometries, dtypes in ((_DEPTHWISE_TILES, FLOATS), (_DEPTHWISE_LARGE, ("float16",)))
        for geometry in geometries
        for bias, activation, constant in ((True, "silu", True), (False, "none", False))
    ),
    *(
        Case(
            op="Conv",
            domain=FUSED_DOMAIN,
            inputs=_inputs(geometry, bias, residual, channels_last=True),
            attrs={"activation": activation, "channels_last": 1},
            expected=_fused,
            magnitude=_magnitude,
            dtypes=dtypes,
            constants={1} if constant else set(),
        )
        for geometry, dtypes in zip(_MANY_PIXELS, (("float16",), ("float16", "bfloat16")), strict=True)
        for bias, residual, activation, constant in (
            (True, True, "relu", True),
            (True, False, "relu", False),
            (False, True, "none", False),
        )
    ),
    *(
        Case(
            op="Conv",
            domain=FUSED_DOMAIN,
            inputs=_inputs(geometry, bias, True, channels_last),
            attrs=geometry[2] | {"activation": activation, "adds_last": 1, "channels_last": int(channels_last)},
            expected=_fused,
            magnitude=_magnitude,
            dtypes=FLOATS,
            tolerance=_ROUNDED,
            constants={1} if constant else set(),
        )
        for geometry in (*_GEOMETRIES, _DEPTHWISE_PACKS)
        for bias, activation, channels_last, constant in [
            (True, "silu", True, True),
            (False, "relu", True, False),
            (True, "sigmoid", False, True),
            (False, "none", False, False),
        ]
    ),
    *(
        _part_case(x, z, extended, attrs | {"adds_last": adds_last})
        for x, z, extended, attrs in [
            (24, 16, 16, {"x_first": 16}),
            (8, 40, 16, {"residual_first": 8}),
            (8, 16, 32, {"y_first": 8, "y_channels": 32}),
            (8, 32, 24, {"x_first": 0, "residual_first": 16, "y_first": 0, "y_channels": 24}),
        ]
        for adds_last in (0, 1)
    ),
    *(
        _part_case(x, z, extended, attrs, ("float16",), error=error)
        for x, z, extended, attrs, error in [
            (24, 16, 16, {"x_first": 24}, ("INVALID_ARGUMENT", "has no 8 channels from 24 on")),
            (8, 40, 16, {"residual_first": 32}, ("INVALID_ARGUMENT", "has no 16 channels from 32 on")),
            (8, 16, 32, {"y_first": 24, "y_channels": 32}, ("INVALID_ARGUMENT", "32 channels has no 16 from 24 on")),
            (8, 16, 40, {"y_first": 0, "y_channels": 32}, ("INVALID_ARGUMENT", "what is extended, [2,6,5,40]")),
            (24, 16, 16, {"x_first": 4}, ("NOT_SUPPORTED", "parts that begin at channel 4")),
            (8, 16, 16, {"x_first": 0, "activation": "relu"}, ("NOT_SUPPORTED", "the library compiles nothing")),
        ]
    ),
    _part_case(24, 16, 16, {"x_first": 16}, ("float32",), error=("NOT_SUPPORTED", "channels-last ones of 16 bits")),
    Case(
        op="FusedConv",
        domain="com.microsoft",
        inputs=[Rand((1, 3, 8, 8), "float32"), Rand((4, 3, 3, 3), "float32")],
        attrs={"activation": "Clip", "activation_params": [1.0]},
        error=("INVALID_ARGUMENT", "activation 'Clip' has 2 parameters, not 1"),
    ),
    Case(
        op="FusedConv",
        domain="com.microsoft",
        inputs=[Rand((1, 3, 8, 8), "float32"), Rand((4, 3, 3, 3), "float32"), None, Rand((1, 4, 8, 8), "float32")],
        error=("INVALID_ARGUMENT", "the sum Z [1,4,8,8] must have the dimensions of the result [1,4,6,6]"),
    ),
    Case(
        op="FusedConv",
        domain="com.microsoft",
        inputs=[Rand((1, 3, 8, 8), "float32"), Rand((4, 3, 3, 3), "float32")],
        attrs={"activation": "Sin"},
        error=("NOT_SUPPORTED", "activation 'Sin' of "),
    ),
]
