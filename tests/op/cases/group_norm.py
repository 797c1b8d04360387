"""InstanceNormalization, GroupNormalization, com.microsoft.GroupNorm, LpNormalization, MeanVarianceNormalization."""

import functools
from typing import Any

import ml_dtypes
import numpy as np

from ..harness import Case, Rand, T, Tolerance
from ..harness.case import MICROSOFT
from ..harness.dtypes import FLOATS
from ..harness.schemas import FUSED_DOMAIN

_EPSILON = float(np.float32(1e-5))


def _deviations(x: np.ndarray, axes: tuple[int, ...], terms: bool) -> tuple[np.ndarray, np.ndarray]:
    """What is divided, and the variance; with `terms` the magnitude of the first."""
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (np.abs(x) + np.abs(x).mean(axis=axes, keepdims=True) if terms else x - mean), variance


def _group_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, num_groups: int = 0, epsilon: float = _EPSILON,
                terms: bool = False, **_: Any) -> np.ndarray:  # fmt: skip
    """Without groups every channel is one; scale and bias have one value for each channel or group."""
    groups = num_groups or x.shape[1]
    grouped = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    above, variance = _deviations(grouped, tuple(range(2, grouped.ndim)), terms)
    y = (above / np.sqrt(variance + epsilon)).reshape(x.shape)

    def column(v: np.ndarray) -> np.ndarray:
        v = np.repeat(v, x.shape[1] // len(v))
        return (np.abs(v) if terms else v).reshape(1, -1, *(1,) * (x.ndim - 2))

    return y * column(scale) + column(bias)


def _microsoft(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, groups: int, activation: int = 0,
               channels_last: int = 1, epsilon: float = _EPSILON, terms: bool = False) -> np.ndarray:  # fmt: skip
    if channels_last:
        x = np.moveaxis(x, -1, 1)
    y = _group_norm(x, scale, bias, groups, epsilon)
    size = _group_norm(x, scale, bias, groups, epsilon, terms=True)
    if activation:
        y, size = y / (1 + np.exp(-y)), size * 1.2  # the steepest that x * sigmoid(x) gets
    y = size if terms else y
    return np.moveaxis(y, 1, -1) if channels_last else y


def _skip(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, skip: np.ndarray, more: np.ndarray | None = None,
          channels_last: int = 1, **attrs: Any) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """GroupNorm of a sum, and the sum. Narrow tensors round it first, which `_SKIP_ERRORS` allows for."""
    ones = (1,) * (x.ndim - 2)
    if skip.ndim == 2:
        skip = skip.reshape(x.shape[0], *ones, x.shape[-1]) if channels_last else skip.reshape(*skip.shape, *ones)
    more = np.zeros(len(scale)) if more is None else more
    terms = [x, skip, more if channels_last else more.reshape(-1, *ones)]
    total = sum(terms)
    size = sum(map(np.abs, terms)) if attrs.get("terms") else total
    return _microsoft(total, scale, bias, channels_last=channels_last, **attrs), size


def _lp_norm(x: np.ndarray, axis: int = -1, p: int = 2) -> np.ndarray:
    norm = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


def _mean_variance(x: np.ndarray, axes: tuple[int, ...] = (0, 2, 3), terms: bool = False) -> np.ndarray:
    above, variance = _deviations(x, tuple(axes), terms)
    return above / (np.sqrt(variance) + 1e-9)


def _of(f: Any) -> dict[str, Any]:
    return {"expected": f, "magnitude": functools.partial(f, terms=True)}


def _inputs(x: tuple[int, ...], parameters: int, affine: str = T) -> list[Rand]:
    return [Rand(x, low=2, high=6), Rand((parameters,), affine), Rand((parameters,), affine)]


_INSTANCE: dict[str, Any] = {"op": "InstanceNormalization", **_of(_group_norm)}
_GROUP: dict[str, Any] = {"op": "GroupNormalization", **_of(_group_norm)}
_CONTRIB: dict[str, Any] = {"op": "GroupNorm", "domain": MICROSOFT, **_of(_microsoft)}
_FUSED: dict[str, Any] = _CONTRIB | {"domain": FUSED_DOMAIN}
_NARROW_AND_WIDE = ("float32", "float16", "bfloat16")
_SKIP: dict[str, Any] = {"op": "SkipGroupNorm", "domain": MICROSOFT, **_of(_skip)}
_SKIP_ERRORS = {"float32": Tolerance(8, terms=8), "float16": Tolerance(1, terms=2.0**13)}
# The terms of a sum of squares are all positive, so nothing cancels; some hundred may be added one after the other.
_LP: dict[str, Any] = {"op": "LpNormalization", "expected": _lp_norm, "tolerance": {"float32": Tolerance(16)}}
_MEAN: dict[str, Any] = {"op": "MeanVarianceNormalization", **_of(_mean_variance)}
_SOME = ("float32", "float16")

CASES = [
    # rows that a block holds, in packs and not; rows of one element; long ones, shared by several blocks
    Case(**_INSTANCE, inputs=_inputs((2, 3, 4, 6), 3), dtypes=FLOATS, opset="1+"),
    *(
        Case(**_INSTANCE, inputs=_inputs(shape, shape[1]), dtypes=_SOME)
        for shape in [(2, 5), (1, 3, 1), (2, 3, 7), (1, 2, 3, 4, 5), (40, 3, 8), (3, 2, 33, 33), (5, 2, 4096)]
    ),
    *(
        Case(**_INSTANCE, inputs=_inputs(shape, shape[1]), dtypes=("float32", "bfloat16"))
        for shape in [(1, 1, 20_000), (1, 3, 140, 144), (2, 1, 17, 1003), (1, 2, 400, 440)]
    ),
    Case(**_INSTANCE, inputs=_inputs((1, 2, 9001), 2), dtypes=("float64",)),
    Case(**_INSTANCE, inputs=_inputs((2, 3, 4, 6), 3), attrs={"epsilon": 0.1}, dtypes=("float32",)),
    *(
        Case(
            op="InstanceNormalization",
            inputs=[Rand(x, "float32"), Rand((3,), "float32"), Rand((3,), "float32")],
            expected=lambda x, *_: x,
        )
        for x in [(0, 3, 4), (2, 3, 0)]
    ),
    # a long row that is constant becomes the bias
    Case(
        op="InstanceNormalization",
        inputs=[np.full((1, 2, 20_000), 60_000.0, np.float32), Rand((2,), "float32"), Rand((2,), "float32")],
        expected=lambda x, scale, bias: np.broadcast_to(bias[:, None], x.shape),
        name="constant",
    ),
    # likewise, though the square of what it is made of is no number
    *(
        Case(
            op="InstanceNormalization",
            inputs=[np.full((2, 3, n), 2.0**101, np.float32), Rand((3,), "float32"), Rand((3,), "float32")],
            expected=lambda x, scale, bias: np.broadcast_to(bias[:, None], x.shape),
            name=f"large_{n}",
        )
        for n in (1, 7, 1100, 20_000, 20_001)
    ),
    Case(
        **_CONTRIB | {"expected": lambda x, scale, bias, **_: np.broadcast_to(bias, x.shape), "magnitude": None},
        inputs=[np.full((2, 5, 7, 8), 2.0**101, np.float32), Rand((8,), "float32"), Rand((8,), "float32")],
        attrs={"groups": 2, "activation": 0},
        name="large",
    ),
    # likewise of 16 bits, whose mean is far more deviations than there are; of two channels a group and of more
    *(
        Case(
            **_FUSED | {"expected": lambda x, scale, bias, **_: np.broadcast_to(bias, x.shape), "magnitude": None},
            inputs=[np.full((2, pixels, 7, 16), 2.0**power).astype(dtype), Rand((16,), kind), Rand((16,), kind)],
            attrs={"groups": groups, "activation": 0, "channels_last": 1},
            name=f"constant_{kind}_{groups}_{pixels}",
        )
        for kind, dtype, power in (("float16", np.float16, 15), ("bfloat16", ml_dtypes.bfloat16, 101))
        for groups in (2, 4)
        for pixels in (5, 900)
    ),
    # groups of several channels; scales of groups before version 21
    Case(**_GROUP, inputs=_inputs((2, 6, 4, 2), 6), attrs={"num_groups": 3}, dtypes=FLOATS, opset=21),
    Case(**_GROUP, inputs=_inputs((2, 6, 4, 2), 3), attrs={"num_groups": 3}, dtypes=FLOATS, opset=18),
    *(
        Case(**_GROUP, inputs=_inputs(shape, shape[1]), attrs={"num_groups": groups}, dtypes=_SOME)
        for shape, groups in [
            ((2, 6, 8), 2),
            ((2, 6, 8), 6),
            ((2, 6, 8), 1),
            ((2, 6), 2),
            ((2, 6, 5), 2),
            ((1, 8, 3, 5), 4),
            ((30, 4, 16), 2),
            ((2, 4, 2048), 2),
            ((1, 4, 72, 144), 2),
            ((1, 4, 71, 143), 2),
        ]
    ),
    Case(**_GROUP, inputs=_inputs((1, 4, 9000), 2), attrs={"num_groups": 2}, dtypes=_SOME, opset=18),
    # channels last and first, parameters of either type
    *(
        Case(**_CONTRIB, inputs=_inputs(shape, 8, affine), attrs=attrs, dtypes=_SOME)
        for shape, affine, attrs in [
            ((2, 3, 4, 8), "float32", {"groups": 2, "activation": 0}),
            ((2, 3, 4, 8), "float16", {"groups": 4, "activation": 1}),
            ((1, 30, 40, 8), "float32", {"groups": 1, "activation": 1}),
            ((2, 8, 3, 4), "float32", {"groups": 2, "activation": 1, "channels_last": 0}),
            ((2, 8, 3, 4), "float16", {"groups": 2, "activation": 0, "channels_last": 0}),
        ]
    ),
    # Of regions. Channels last: groups of whole packs, that begin within one, that are half of one, smaller ones;
    # samples that a block holds in registers and those that take two launches; one group of all channels
    *(
        Case(
            **_FUSED,
            inputs=_inputs(shape, shape[-1]),
            attrs={"groups": groups, "activation": swish},
            dtypes=_NARROW_AND_WIDE,
        )
        for shape, groups, swish in [
            ((2, 4, 6, 32), 4, 1),
            ((2, 5, 3, 40), 4, 0),
            ((1, 3, 7, 80), 8, 1),
            ((3, 9, 24), 8, 1),
            ((2, 3, 5, 16), 4, 1),
            ((2, 3, 5, 16), 8, 0),
            ((1, 2, 3, 4, 20), 4, 1),
            ((1, 1, 1, 16), 2, 0),
            ((1, 11, 7, 64), 1, 1),
            ((1, 96, 97, 40), 4, 1),
            ((2, 50, 51, 48), 3, 0),
            ((1, 70, 71, 15), 5, 1),
            ((2, 4, 600), 2, 1),
        ]
    ),
    # channels first
    *(
        Case(
            **_FUSED,
            inputs=_inputs(shape, shape[1]),
            attrs={"groups": groups, "activation": swish, "channels_last": 0},
            dtypes=_NARROW_AND_WIDE,
        )
        for shape, groups, swish in [
            ((2, 8, 4, 6), 2, 1),
            ((2, 6, 5, 3), 3, 1),
            ((1, 4, 8), 4, 1),
            ((1, 6, 64, 80), 2, 1),
            ((1, 6, 63, 81), 2, 1),
            ((2, 8, 4, 6), 2, 0),
            ((3, 6), 2, 1),
        ]
    ),
    # deviations that are small beside the mean
    *(
        Case(
            **_FUSED,
            inputs=[
                (np.random.default_rng(7).standard_normal(shape) * spread + mean).astype(dtype),
                Rand((shape[at],), dtype),
                Rand((shape[at],), dtype),
            ],
            attrs={"groups": 4, "activation": swish, "channels_last": int(at == -1)},
            name=f"offset_{dtype}_{len(shape)}_{at}_{shape[1]}_{swish}",
        )
        for dtype, mean, spread in [("float32", 1e3, 1.0), ("float16", 3e4, 64.0)]
        for shape, at in [((1, 9, 7, 40), -1), ((1, 96, 97, 40), -1), ((1, 8, 30, 32), 1), ((1, 8, 80, 96), 1)]
        for swish in (0, 1)
    ),
    # what is constant becomes the bias, though its square is no number
    *(
        Case(
            **_FUSED | {"expected": lambda x, scale, bias, **_: np.broadcast_to(bias, x.shape), "magnitude": None},
            inputs=[np.full(shape, 2.0**101, np.float32), Rand(shape[-1:], "float32"), Rand(shape[-1:], "float32")],
            attrs={"groups": 4, "activation": 0},
            name=f"large_{shape[1]}_{shape[-1]}",
        )
        for shape in [(2, 5, 7, 40), (1, 90, 91, 40), (2, 5, 7, 12)]
    ),
    *(
        Case(
            op="GroupNorm",
            domain=FUSED_DOMAIN,
            inputs=[Rand(x, "float32"), Rand((8,), "float32"), Rand((8,), "float32")],
            attrs={"groups": 2, "activation": 1, "channels_last": last},
            expected=lambda x, *_, **__: x,
        )
        for x, last in [((0, 3, 4, 8), 1), ((2, 0, 4, 8), 1), ((0, 8, 3, 4), 0), ((2, 8, 3, 0), 0)]
    ),
    # SkipGroupNorm: every shape of skip, with a bias and without, with the sum and without
    *(
        Case(
            **_SKIP,
            inputs=[*_inputs(x, 8, affine), Rand(skip), *([Rand((8,))] if bias else [])],
            dtypes=_SOME,
            attrs={"groups": groups, "activation": swish, "channels_last": last},
            outputs=(T, T),
            tolerance=_SKIP_ERRORS,
            name=f"{len(x)}_{'x'.join(map(str, skip))}_{affine}_{groups}_{swish}_{bias}",
        )
        for x, skip, affine, groups, last, swish, bias in [
            ((2, 3, 4, 8), (2, 3, 4, 8), "float32", 2, 1, 0, True),
            ((2, 3, 4, 8), (2, 1, 1, 8), "float16", 4, 1, 1, True),
            ((2, 3, 5, 8), (2, 8), "float32", 4, 1, 1, False),
            ((2, 8, 3, 4), (2, 8, 3, 4), "float32", 2, 0, 1, True),
            ((2, 8, 3, 4), (2, 8, 1, 1), "float16", 1, 0, 0, False),
            ((2, 8, 30, 41), (2, 8), "float32", 4, 0, 0, True),
            ((0, 3, 4, 8), (0, 8), "float32", 4, 1, 0, True),
        ]
    ),
    Case(
        **_SKIP,
        inputs=[*_inputs((2, 5, 4, 8), 8), Rand((2, 8)), Rand((8,))],
        dtypes=("float32",),
        name="y_alone",
        attrs={"groups": 2, "activation": 1},
        tolerance=_SKIP_ERRORS,
    ),
    *(
        Case(
            op="SkipGroupNorm",
            domain=MICROSOFT,
            inputs=[Rand(s, "float32") for s in shapes],
            error=error,
            attrs={"groups": 2, "activation": 0, **attrs},
            name=error[1],
            skip={"session": "no other provider has it"} if attrs else {},
        )
        for shapes, attrs, error in [
            ([(1, 3, 2, 4), (4,), (4,), (3, 4)], {}, ("INVALID_ARGUMENT", "skip [3,4] has neither the shape of X")),
            ([(1, 3, 2, 4), (4,), (3,), (1, 4)], {}, ("INVALID_ARGUMENT", "input 2 has shape [3], expected [4]")),
            ([(1, 3, 2, 5), (5,), (5,), (1, 5)], {}, ("INVALID_ARGUMENT", "5 channels are no multiple of 2")),
            ([(1, 3, 2, 4), (4,), (4,), (1, 4)], {"groups": 0}, ("INVALID_ARGUMENT", "the number of groups is 0")),
            ([(1, 3, 2, 4), (4,), (4,), (1, 4)], {"activation": 2}, ("INVALID_ARGUMENT", "activation 2")),
        ]
    ),
    *(
        Case(**_LP, inputs=[Rand(shape)], attrs={"axis": axis, "p": p}, dtypes=_SOME)
        for shape, axis in [
            ((3, 8), -1),
            ((5,), 0),
            ((4, 7), 1),
            ((2, 3, 1024), 2),
            ((2, 5, 3), 1),
            ((6, 16), 0),
            ((1, 300, 8), -2),
            ((2, 20_000), 1),
        ]
        for p in (1, 2)
    ),
    Case(**_LP, inputs=[Rand((3, 8))], dtypes=FLOATS, opset="1+"),
    Case(**_LP, inputs=[Rand((3, 8))], attrs={"p": 1}, dtypes=FLOATS),
    *(
        Case(
            op="LpNormalization",
            inputs=[np.array([[3, 0, 0, -4], [0, 0, 0, 0]], np.float32)],
            attrs={"axis": axis, "p": p},
            expected=_lp_norm,
            name="zeros",
        )
        for axis in (0, 1)
        for p in (1, 2)
    ),
    Case(**_LP, inputs=[Rand((0, 8), "float32")]),
    *(
        Case(**_MEAN, inputs=[Rand(shape, low=1, high=4)], attrs={"axes": axes}, dtypes=_SOME)
        for shape, axes in [
            ((2, 3, 4, 5), [2, 3]),
            ((2, 3, 4, 8), [1, 2, 3]),
            ((2, 3, 4, 8), [0, 2, 3]),
            ((2, 3, 4, 5), [0, -1]),
            ((2, 3, 8), [0, 1]),
            ((50, 8), [0]),
            ((3, 5), [0, 1]),
            ((20, 3, 8, 100), [0, 2, 3]),
            ((5, 2, 100, 200), [0, 2, 3]),  # blocks that begin and end within a run
            # segments of whole pieces; of a piece and a part; rows among others'; more than a block holds
            ((3, 2, 16, 64), [0, 2, 3]),
            ((2, 3, 32, 38), [0, 2, 3]),
            ((2, 3, 2, 1032), [1, 3]),
            ((7, 2, 3, 5, 1200), [0, 2, 4]),
            ((6, 2, 160, 176), [0, 2, 3]),
            ((1, 2, 2048), [1, 2]),
        ]
    ),
    Case(**_MEAN, inputs=[Rand((2, 3, 4, 5))], dtypes=FLOATS, opset="9+"),
    Case(**_MEAN, inputs=[Rand((2, 3, 0, 5), "float32")]),
    *(
        Case(
            op=op,
            domain=domain,
            inputs=[Rand(s, "float32") for s in shapes],
            attrs=attrs,
            error=error,
            skip={"session": "no other provider has it"} if domain else {},
        )
        for op, domain, shapes, attrs, error in [
            ("InstanceNormalization", "", [(3,), (3,), (3,)], {}, ("INVALID_ARGUMENT", "needs batch and channels")),
            ("InstanceNormalization", "", [(1, 3, 2), (2,), (3,)], {}, ("INVALID_ARGUMENT", "input 1 has shape [2]")),
            ("InstanceNormalization", "", [(1, 3, 2), (3,), (3, 1)], {}, ("INVALID_ARGUMENT", "input 2 has shape")),
            (
                "GroupNormalization",
                "",
                [(1, 3, 2), (3,), (3,)],
                {"num_groups": 2},
                ("INVALID_ARGUMENT", "3 channels are no multiple of 2"),
            ),
            (
                "GroupNormalization",
                "",
                [(1, 3, 2), (3,), (3,)],
                {"num_groups": 0},
                ("INVALID_ARGUMENT", "number of groups is 0"),
            ),
            (
                "GroupNormalization",
                "",
                [(1, 3, 2), (3,), (3,)],
                {"num_groups": 3, "stash_type": 11},
                ("NOT_SUPPORTED", "stash_type 11"),
            ),
            (
                "GroupNorm",
                MICROSOFT,
                [(1, 2, 2, 3), (3,), (3,)],
                {"groups": 3, "activation": 2},
                ("INVALID_ARGUMENT", "activation 2"),
            ),
            ("LpNormalization", "", [(2, 3)], {"axis": 2}, ("INVALID_ARGUMENT", "axis 2")),
            ("LpNormalization", "", [(2, 3)], {"p": 3}, ("INVALID_ARGUMENT", "p 3")),
            ("MeanVarianceNormalization", "", [(2, 3)], {}, ("INVALID_ARGUMENT", "axis 2")),
        ]
    ),
]
