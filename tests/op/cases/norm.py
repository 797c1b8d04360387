"""LayerNormalization, SimplifiedLayerNormalization, RMSNormalization, Skip*LayerNormalization, BatchNormalization."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, T
from ..harness.case import MICROSOFT
from ..harness.dtypes import FLOATS

# Defaults, as the operators hold them.
_EPSILON, _SKIP_EPSILON = float(np.float32(1e-5)), float(np.float32(1e-12))
_SKIP_TYPES = ("float32", "float16", "bfloat16")
# Row lengths around the planner's choices, as for softmax; odd ones are accessed by element.
_LENGTHS = (1, 2, 5, 8, 31, 32, 100, 128, 257, 768, 1000, 1024, 4096, 4099)
_WORD = {"session": "the option is a word there"}
_STREAMED = {"float32": (8193, 32772, 40_964), "float16": (8201, 32776), "float64": (8197,)}


def _normalize(
    x: np.ndarray, axes: tuple[int, ...], epsilon: float, rms: bool, terms: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """Normalized values, mean, inverse deviation; with `terms`, of x's magnitude, the magnitude of each."""
    mean = np.zeros_like(x.mean(axis=axes, keepdims=True)) if rms else x.mean(axis=axes, keepdims=True)
    inv_std = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
    if terms is None:
        return (x - mean) * inv_std, mean, inv_std
    mean = terms.mean(axis=axes, keepdims=True)
    return (terms if rms else terms + mean) * inv_std, mean, inv_std


def _sum(terms: bool, *values: np.ndarray | None) -> Any:
    """The sum of what is there, without signs for its `terms`."""
    return sum(np.abs(v) if terms else v for v in values if v is not None)


def _layer_norm(x: np.ndarray, scale: np.ndarray, bias: Any = None, axis: int = -1, epsilon: float = _EPSILON,
                terms: bool = False, **_: Any) -> tuple[np.ndarray, ...]:  # fmt: skip
    axes = tuple(range(axis % x.ndim, x.ndim))
    y, mean, inv_std = _normalize(x, axes, epsilon, False, np.abs(x) if terms else None)
    if scale.shape == (24,):  # a vector for a row of several dimensions
        scale, bias = scale.reshape(x.shape[axis:]), bias.reshape(x.shape[axis:])
    return _sum(terms, y * scale, bias), mean, inv_std


def _rms_norm(x: np.ndarray, scale: np.ndarray, axis: int = -1, epsilon: float = _EPSILON, terms: bool = False,
              **_: Any) -> tuple[np.ndarray, ...]:  # fmt: skip
    axes = tuple(range(axis % x.ndim, x.ndim))
    y, _, inv_std = _normalize(x, axes, epsilon, True, np.abs(x) if terms else None)
    return _sum(terms, y * scale), inv_std


def _first(f: Any) -> Any:
    return lambda *args, **kw: f(*args, **kw)[0]


def _skip_layer_norm(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, beta: Any = None, bias: Any = None,
                     epsilon: float = _SKIP_EPSILON, terms: bool = False) -> tuple[np.ndarray, ...]:  # fmt: skip
    total, size = _sum(False, x, skip, bias), _sum(True, x, skip, bias)
    y, mean, inv_std = _normalize(total, (x.ndim - 1,), epsilon, False, size if terms else None)
    return _sum(terms, y * gamma, beta), mean, inv_std, size if terms else total


def _skip_rms_norm(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, bias: Any = None,
                   epsilon: float = _SKIP_EPSILON, terms: bool = False) -> tuple[np.ndarray, ...]:  # fmt: skip
    total, size = _sum(False, x, skip, bias), _sum(True, x, skip, bias)
    y, mean, inv_std = _normalize(total, (x.ndim - 1,), epsilon, True, size if terms else None)
    return _sum(terms, y * gamma), mean, inv_std, size if terms else total


def _batch_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, var: np.ndarray,
                epsilon: float = _EPSILON, spatial: int = 1, terms: bool = False, **_: Any) -> np.ndarray:  # fmt: skip
    def column(v: np.ndarray) -> np.ndarray:
        if x.ndim == 1:
            return v
        return v.reshape(1, -1, *(1,) * (x.ndim - 2)) if spatial else v[None]

    factor = column(scale) / np.sqrt(column(var) + epsilon)
    return np.asarray(_sum(terms, x * factor, -column(mean) * factor, column(bias)))


def _of(f: Any) -> dict[str, Any]:
    """A reference with the magnitude of its terms."""
    return {"expected": f, "magnitude": functools.partial(f, terms=True)}


def _batch_inputs(shape: Sequence[int], parameters: Sequence[int] | None = None, scale: str = T,
                  statistics: str = T) -> list[Rand]:  # fmt: skip
    channels = parameters or (shape[1] if len(shape) > 1 else 1,)
    return [Rand(shape), Rand(channels, scale), Rand(channels, scale), Rand(channels, statistics),
            Rand(channels, statistics, low=0.5, high=4)]  # fmt: skip


def _outlier(n: int, at: int) -> np.ndarray:
    x = np.random.default_rng(n).standard_normal((2, n))
    x[:, at] = 1e5
    return x


# Of rows that are constant: element, columns. Nothing of the mean's rounding may show, however small epsilon is.
_CONSTANT = [(value, n) for value in (10.5, 3.0, 60_000.0, 1234.567) for n in (3, 100, 1024, 4099, 40_000)]

_LAYER = {"op": "LayerNormalization", **_of(_first(_layer_norm))}
_SKIP: dict[str, Any] = {"op": "SkipLayerNormalization", "domain": MICROSOFT}
_BATCH: dict[str, Any] = {"op": "BatchNormalization", **_of(_batch_norm)}

# Shape of X, axis, shape of Scale.
_AFFINE: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((2, 3, 8), -1, (8,)),
    ((2, 3, 8), 1, (3, 8)),
    ((2, 3, 8), 0, (2, 3, 8)),
    ((2, 3, 8), -2, (24,)),
    ((2, 3, 4), -1, (1,)),
    ((2, 3, 4), -1, ()),
    ((2, 3, 4), 1, (1, 4)),
    ((2, 3, 4), 1, (3, 1)),
    ((2, 3, 8), -1, (2, 1, 8)),
    ((2, 3, 8), -1, (1, 3, 8)),
    ((2, 3, 8), -1, (2, 3, 8)),
    ((2, 3, 5), -1, (2, 3, 1)),
    ((7,), 0, (7,)),
]

CASES = [
    # LayerNormalization
    Case(dtypes=FLOATS, **_LAYER, inputs=[Rand((3, 5, 16)), Rand((16,)), Rand((16,))]),
    Case(
        dtypes=FLOATS,
        op="LayerNormalization",
        **_of(_layer_norm),
        inputs=[Rand((3, 5, 16)), Rand((16,)), Rand((16,))],
        outputs=(T, "float32", "float32"),
        name="statistics",
    ),
    Case(dtypes=("float32",), **_LAYER, inputs=[Rand((4, 6)), Rand((6,))], attrs={"epsilon": 0.1}, name="epsilon"),
    *(
        Case(dtypes=("float32", "float16"), **_LAYER, inputs=[Rand((3, n), low=2, high=6), Rand((n,)), Rand((n,))])
        for n in _LENGTHS
    ),
    *(
        Case(
            dtypes=(dtype,),
            op="LayerNormalization",
            **_of(_layer_norm),
            outputs=(T, "float32", "float32"),
            inputs=[Rand((2, n), low=2, high=6), Rand((n,)), Rand((n,))],
        )
        for dtype, lengths in _STREAMED.items()
        for n in lengths
    ),
    Case(dtypes=("float32", "float16"), **_LAYER, inputs=[Rand((300, 512)), Rand((512,)), Rand((512,))]),
    Case(dtypes=("float32", "bfloat16"), **_LAYER, inputs=[Rand((9000, 24)), Rand((24,)), Rand((24,))]),
    *(
        Case(
            dtypes=("float32", "float16"),
            **_LAYER,
            inputs=[Rand(shape), Rand(scale), Rand(scale)],
            attrs={"axis": axis},
            skip={"session": "beyond what the host's own shape checks allow"} if scale == (24,) else {},
        )
        for shape, axis, scale in _AFFINE
    ),
    *(
        Case(
            dtypes=("float32",), **_LAYER, inputs=[Rand(shape), Rand((4,) if shape[-1] else (0,))], attrs={"axis": axis}
        )
        for shape, axis in (((0, 4), 1), ((3, 0, 4), 2), ((2, 0), 0))
    ),
    Case(
        dtypes=("float32",),
        **_LAYER,
        inputs=[Of([[1, 2, np.nan], [1, np.inf, 2], [3, 3, 3]]), Rand((3,))],
        name="specials",
    ),
    Case(
        **_LAYER | {"expected": None},
        inputs=[Rand((2, 3)), Rand((4,))],
        dtypes=("float32",),
        error=("INVALID_ARGUMENT", "scale [4] does not broadcast"),
    ),
    Case(
        **_LAYER | {"expected": None},
        inputs=[Rand((2, 3, 4)), Rand((2, 1, 4)), Rand((5,))],
        dtypes=("float32",),
        error=("INVALID_ARGUMENT", "bias [5] does not broadcast"),
    ),
    Case(
        **_LAYER | {"expected": None},
        inputs=[Rand((2, 4, 3, 5)), Rand((2, 1, 3, 5))],
        dtypes=("float32",),
        attrs={"axis": 0},
        error=("NOT_SUPPORTED", "repeats over more than one group"),
    ),
    Case(
        **_LAYER | {"expected": None},
        inputs=[Rand((2, 3)), Rand((3,))],
        dtypes=("float32",),
        attrs={"stash_type": 16},
        error=("NOT_SUPPORTED", "stash_type 16"),
    ),
    *(
        Case(
            dtypes=_SKIP_TYPES,
            op="LayerNormalization",
            expected=_first(_layer_norm),
            inputs=[Of(np.full((2, n), value)), Rand((n,))],
            attrs={"epsilon": 1e-12},
            name=f"constant_{int(value)}_{n}",
        )
        for value, n in _CONSTANT
    ),
    # One element far from all others must not take the mean of these with it.
    *(
        Case(dtypes=("float32",), **_LAYER, inputs=[Of(_outlier(n, at)), Rand((n,))], name=f"outlier_{n}_{at}")
        for n in (20001, 100003)
        for at in (0, 700)
    ),
    # The host's own version 1, with scale and output of another type than the input.
    *(
        Case(
            dtypes=(y,),
            op="LayerNormalization",
            **_of(_layer_norm),
            opset=1,
            name=f"{x}_{n}",
            inputs=[Rand((3, n), x), Rand((n,)), Rand((n,))],
            outputs=(T, *(("float64" if x == "float64" else "float32",) * 2)),
            skip={"session": "the host infers float statistics"} if x == "float64" else {},
        )
        for x, y in (
            ("float32", "float32"),
            ("float32", "float16"),
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float32", "bfloat16"),
            ("float64", "float64"),
        )
        for n in (16, 33, 1024, 40_000)
    ),
    # Batches of rows that share their scale: several batches, the last one short, and a warp with a single pack
    Case(
        dtypes=("float16", "bfloat16"),
        **_LAYER,
        inputs=[Rand((41, 4104)), Rand((4104,)), Rand((4104,))],
    ),
    Case(
        dtypes=("float16",), op="RMSNormalization", **_of(_first(_rms_norm)), inputs=[Rand((41, 4608)), Rand((4608,))]
    ),
    # Every kernel forced, as the driver numbers them; what cannot be is refused
    *(
        Case(
            dtypes=("float32", "float16"),
            **_LAYER,
            inputs=[Rand(x), Rand(x[1:]), Rand(x[1:])],
            options={"norm_path": path},
            skip=_WORD,
            name=f"path{path}",
        )
        for path, x in enumerate([(5, 1032), (5, 8200), (33, 8184), (5, 8200), (5, 33_000), (3, 9000)], 1)
        if path != 2
    ),
    Case(  # on a GPU, too, more rows for each team than it has slots and stages
        dtypes=("float16",),
        **_LAYER,
        inputs=[Rand((1500, 264)), Rand((264,)), Rand((264,))],
        options={"norm_path": 3},
        skip=_WORD,
        name="path3",
    ),
    Case(
        dtypes=("float16", "bfloat16"),
        **_LAYER,
        inputs=[Rand((5, 520)), Rand((520,)), Rand((520,))],
        options={"norm_path": 2},
        skip=_WORD,
        name="path2",
    ),
    *(
        Case(
            dtypes=("float16",),
            op="SimplifiedLayerNormalization",
            **_of(_rms_norm),
            inputs=[Rand((3, n)), Rand((n,))],
            outputs=(T, "float32"),
            opset=1,
            options={"norm_path": path},
            skip=_WORD,
            name=f"path{path}",
        )
        for path, n in ((3, 16_008), (5, 40_968), (6, 40_968))
    ),
    *(
        Case(
            dtypes=(dtype,),
            op="LayerNormalization",
            inputs=[Rand((3, n)), Rand((n,)), Rand((n,))],
            options={"norm_path": path},
            skip=_WORD,
            name=f"no {what} normalisation",
            error=("INVALID_ARGUMENT", f"no {what} normalisation of 3 rows of {n}"),
        )
        for path, what, dtype, n in [
            (1, "direct", "float16", 40_968),
            (2, "batch", "float32", 520),
            (3, "team", "float16", 521),
            (4, "ring", "float64", 520),
            (5, "long", "float16", 521),
        ]
    ),
    # Without a mean
    Case(dtypes=FLOATS, op="RMSNormalization", **_of(_first(_rms_norm)), inputs=[Rand((3, 5, 16)), Rand((16,))]),
    Case(
        dtypes=("float32",),
        op="RMSNormalization",
        **_of(_first(_rms_norm)),
        inputs=[Rand((3, 4, 5)), Rand((4, 5))],
        attrs={"axis": 1, "epsilon": 0.01},
    ),
    *(
        Case(
            dtypes=("float32", "float16"),
            op="SimplifiedLayerNormalization",
            **_of(_rms_norm),
            inputs=[Rand((3, n)), Rand((n,))],
            outputs=(T, "float32"),
            opset=1,
        )
        for n in (7, 1024, 40_000)
    ),
    *(
        Case(
            dtypes=(dtype,),
            op="SimplifiedLayerNormalization",
            **_of(_rms_norm),
            inputs=[Rand((3, 40)), Rand((40,))],
            outputs=(T, statistics),
            opset=1,
            skip={"session": "the host infers float statistics"} if dtype == "float64" else {},
        )
        for dtype, statistics in (("bfloat16", "float32"), ("float64", "float64"))
    ),
    # Skip
    *(
        Case(
            dtypes=_SKIP_TYPES,
            **_SKIP,
            **_of(_skip_layer_norm),
            outputs=(T, "float32", "float32", T),
            inputs=[Rand((2, 3, n)), Rand((2, 3, n)), Rand((n,)), Rand((n,)), Rand((n,))],
        )
        for n in (8, 33, 768, 40_000)
    ),
    Case(
        dtypes=("float16", "bfloat16"),
        **_SKIP,
        **_of(_skip_layer_norm),
        outputs=(T, "float32", "float32", T),
        inputs=[Rand((2, 19, 4608)), Rand((1, 19, 4608)), *[Rand((4608,))] * 3],
    ),
    *(
        Case(
            dtypes=("float32", "float16"),
            **_SKIP,
            outputs=(T, "", "", T),
            **_of(_skip_layer_norm),
            inputs=[Rand((2, 3, 8)), Rand(skip), Rand((8,)), Rand((8,))],
        )
        for skip in ((1, 3, 8), (3, 8))
    ),
    Case(
        dtypes=("float32",),
        **_SKIP,
        **_of(_first(_skip_layer_norm)),
        inputs=[Rand((6, 8)), Rand((6, 8)), Rand((8,)), None, Rand((8,))],
        attrs={"epsilon": 1e-3},
    ),
    Case(
        dtypes=("float32",), **_SKIP, **_of(_first(_skip_layer_norm)), inputs=[Rand((0, 8)), Rand((0, 8)), Rand((8,))]
    ),
    *(
        Case(
            dtypes=_SKIP_TYPES,
            **_SKIP,
            expected=_first(_skip_layer_norm),
            inputs=[Of(np.full((2, n), value)), Of(np.full((2, n), 3.0)), Rand((n,))],
            name=f"constant_{int(value)}_{n}",
        )
        for value, n in _CONSTANT
        if value < 60_000
    ),
    *(
        Case(
            dtypes=_SKIP_TYPES,
            op="SkipSimplifiedLayerNormalization",
            domain=MICROSOFT,
            **_of(_skip_rms_norm),
            outputs=(T, "", "float32", T),
            inputs=[Rand((2, 3, n)), Rand((2, 3, n)), Rand((n,)), Rand((n,))],
        )
        for n in (16, 35, 40_000)
    ),
    Case(  # as compiled regions have it
        dtypes=("float32",),
        **_SKIP,
        **_of(_skip_layer_norm),
        outputs=(T, "", "", T),
        inputs=[Rand((2, 3, 5, 8)), Rand((2, 3, 5, 8)), Rand((8,)), Rand((8,))],
    ),
    Case(
        **_SKIP,
        inputs=[Rand((2, 3, 8)), Rand((2, 2, 8)), Rand((8,))],
        dtypes=("float32",),
        error=("INVALID_ARGUMENT", "skip [2,2,8] neither"),
    ),
    Case(
        **_SKIP,
        inputs=[Rand((2, 3, 8)), Rand((2, 3, 8)), Rand((7,))],
        dtypes=("float32",),
        error=("INVALID_ARGUMENT", "input 2 has shape [7], expected [8]"),
    ),
    # BatchNormalization
    Case(dtypes=FLOATS, **_BATCH, inputs=_batch_inputs((2, 3, 4, 4)), opset="7+"),
    *(
        Case(dtypes=("float32", "float16"), **_BATCH, inputs=_batch_inputs(shape))
        for shape in ((2, 3), (5,), (2, 3, 5), (2, 5, 8), (1, 3, 4, 5, 6), (0, 3, 2), (2, 3, 0), (3, 64, 33, 31))
    ),
    Case(dtypes=("float16", "bfloat16"), **_BATCH, inputs=_batch_inputs((2, 3, 8), None, "float32", "float32")),
    Case(
        dtypes=("float32",),
        **_BATCH,
        inputs=_batch_inputs((2, 3, 4), None, "float32", "float64"),
        attrs={"epsilon": 0.5},
        name="double_statistics",
    ),
    Case(
        dtypes=("float32",),
        **_BATCH,
        inputs=_batch_inputs((2, 3, 4), (3, 4)),
        attrs={"spatial": 0},
        opset=7,
        skip={"session": "the host refuses the attribute"},
    ),
    Case(
        **_BATCH | {"expected": None},
        inputs=_batch_inputs((2, 3, 4)),
        attrs={"training_mode": 1},
        skip={"session": "the host wants all outputs of training"},
        dtypes=("float32",),
        error=("NOT_SUPPORTED", "training_mode 1"),
    ),
    Case(
        **_BATCH | {"expected": None},
        inputs=_batch_inputs((2, 3, 4), (4,)),
        dtypes=("float32",),
        error=("INVALID_ARGUMENT", "input 1 has shape [4], expected [3]"),
    ),
]
