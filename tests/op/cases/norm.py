"""LayerNormalization, SimplifiedLayerNormalization, RMSNormalization, Skip*LayerNormalization, BatchNormalization."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, T
from ..harness.case import MICROSOFT
from ..harness.dtypes import FLOATS
from ..harness.tolerances import Tolerance

_SKIP_TYPES = ("float32", "float16", "bfloat16")
_TOLERANCE = {
    "float64": Tolerance(1e-12),
    "float32": Tolerance(5e-6),
    "float16": Tolerance(1e-3),
    "bfloat16": Tolerance(6e-3),
}
# Row lengths around the planner's choices, as for softmax; odd ones are accessed by element.
_LENGTHS = (1, 2, 5, 8, 31, 32, 100, 128, 257, 768, 1000, 1024, 4096, 4099)
_STREAMED = {"float32": (8193, 32772, 40_964), "float16": (8201, 32776), "float64": (8197,)}


def _normalize(x: np.ndarray, axes: tuple[int, ...], epsilon: float, rms: bool) -> tuple[np.ndarray, ...]:
    mean = np.zeros_like(x.mean(axis=axes, keepdims=True)) if rms else x.mean(axis=axes, keepdims=True)
    inv_std = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inv_std, mean, inv_std


def _layer_norm(x: np.ndarray, scale: np.ndarray, bias: Any = None, axis: int = -1, epsilon: float = 1e-5,
                **_: Any) -> tuple[np.ndarray, ...]:  # fmt: skip
    y, mean, inv_std = _normalize(x, tuple(range(axis % x.ndim, x.ndim)), epsilon, False)
    if scale.shape == (24,):  # a vector for a row of several dimensions
        scale, bias = scale.reshape(x.shape[axis:]), bias.reshape(x.shape[axis:])
    return y * scale + (0 if bias is None else bias), mean, inv_std


def _rms_norm(x: np.ndarray, scale: np.ndarray, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Any:
    y, _, inv_std = _normalize(x, tuple(range(axis % x.ndim, x.ndim)), epsilon, True)
    return y * scale, inv_std


def _first(f: Any) -> Any:
    return lambda *args, **kw: f(*args, **kw)[0]


def _skip_layer_norm(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, beta: Any = None, bias: Any = None,
                     epsilon: float = 1e-12) -> tuple[np.ndarray, ...]:  # fmt: skip
    total = x + skip + (0 if bias is None else bias)
    y, mean, inv_std = _normalize(total, (x.ndim - 1,), epsilon, False)
    return y * gamma + (0 if beta is None else beta), mean, inv_std, total


def _skip_rms_norm(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, bias: Any = None,
                   epsilon: float = 1e-12) -> tuple[np.ndarray, ...]:  # fmt: skip
    total = x + skip + (0 if bias is None else bias)
    y, mean, inv_std = _normalize(total, (x.ndim - 1,), epsilon, True)
    return y * gamma, mean, inv_std, total


def _batch_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, var: np.ndarray,
                epsilon: float = 1e-5, spatial: int = 1, **_: Any) -> np.ndarray:  # fmt: skip
    def column(v: np.ndarray) -> np.ndarray:
        if x.ndim == 1:
            return v
        return v.reshape(1, -1, *(1,) * (x.ndim - 2)) if spatial else v[None]

    return (x - column(mean)) / np.sqrt(column(var) + epsilon) * column(scale) + column(bias)


def _batch_inputs(shape: Sequence[int], parameters: Sequence[int] | None = None, scale: str = T,
                  statistics: str = T) -> list[Rand]:  # fmt: skip
    channels = parameters or (shape[1] if len(shape) > 1 else 1,)
    return [Rand(shape), Rand(channels, scale), Rand(channels, scale), Rand(channels, statistics),
            Rand(channels, statistics, low=0.5, high=4)]  # fmt: skip


def _each(dtypes: Sequence[str], **case: Any) -> list[Case]:
    """One case for each type, with its tolerance."""
    return [Case(dtypes=(dtype,), tolerance=_TOLERANCE[dtype], **case) for dtype in dtypes]


_LAYER = {"op": "LayerNormalization", "expected": _first(_layer_norm)}
_SKIP: dict[str, Any] = {"op": "SkipLayerNormalization", "domain": MICROSOFT}
_BATCH: dict[str, Any] = {"op": "BatchNormalization", "expected": _batch_norm}

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
    *_each(FLOATS, **_LAYER, inputs=[Rand((3, 5, 16)), Rand((16,)), Rand((16,))]),
    *_each(FLOATS, op="LayerNormalization", expected=_layer_norm, inputs=[Rand((3, 5, 16)), Rand((16,)), Rand((16,))],
           outputs=(T, "float32", "float32"), name="statistics"),
    *_each(("float32",), **_LAYER, inputs=[Rand((4, 6)), Rand((6,))], attrs={"epsilon": 0.1}, name="epsilon"),
    *(case for n in _LENGTHS for case in _each(("float32", "float16"), **_LAYER,
                                               inputs=[Rand((3, n), low=2, high=6), Rand((n,)), Rand((n,))])),
    *(case for dtype, lengths in _STREAMED.items() for n in lengths
      for case in _each((dtype,), op="LayerNormalization", expected=_layer_norm, outputs=(T, "float32", "float32"),
                        inputs=[Rand((2, n), low=2, high=6), Rand((n,)), Rand((n,))])),
    *_each(("float32", "float16"), **_LAYER, inputs=[Rand((300, 512)), Rand((512,)), Rand((512,))]),
    *_each(("float32", "bfloat16"), **_LAYER, inputs=[Rand((9000, 24)), Rand((24,)), Rand((24,))]),
    *(case for shape, axis, scale in _AFFINE for case in _each(("float32", "float16"), **_LAYER,
      inputs=[Rand(shape), Rand(scale), Rand(scale)], attrs={"axis": axis},
      skip={"session": "beyond what the host's own shape checks allow"} if scale == (24,) else {})),
    *(case for shape, axis in (((0, 4), 1), ((3, 0, 4), 2), ((2, 0), 0))
      for case in _each(("float32",), **_LAYER, inputs=[Rand(shape), Rand((4,) if shape[-1] else (0,))],
                        attrs={"axis": axis})),
    *_each(("float32",), **_LAYER, inputs=[Of([[1, 2, np.nan], [1, np.inf, 2], [3, 3, 3]]), Rand((3,))],
           name="specials"),
    Case(**_LAYER | {"expected": None}, inputs=[Rand((2, 3)), Rand((4,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "scale [4] does not broadcast")),
    Case(**_LAYER | {"expected": None}, inputs=[Rand((2, 3, 4)), Rand((2, 1, 4)), Rand((5,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "bias [5] does not broadcast")),
    Case(**_LAYER | {"expected": None}, inputs=[Rand((2, 4, 3, 5)), Rand((2, 1, 3, 5))], dtypes=("float32",),
         attrs={"axis": 0}, error=("NOT_SUPPORTED", "repeats over more than one group")),
    Case(**_LAYER | {"expected": None}, inputs=[Rand((2, 3)), Rand((3,))], dtypes=("float32",),
         attrs={"stash_type": 16}, error=("NOT_SUPPORTED", "stash_type 16")),
    # The host's own version 1, with scale and output of another type than the input.
    *(case for x, y in (("float32", "float32"), ("float32", "float16"), ("float16", "float32"), ("bfloat16", "float32"),
                        ("float32", "bfloat16"), ("float64", "float64"))
      for n in (16, 33, 1024, 40_000)
      for case in _each((y,), op="LayerNormalization", expected=_layer_norm, opset=1, name=f"{x}_{n}",
                        inputs=[Rand((3, n), x), Rand((n,)), Rand((n,))],
                        outputs=(T, *(("float64" if x == "float64" else "float32",) * 2)),
                        skip={"session": "the host infers float statistics"} if x == "float64" else {})),
    # Without a mean
    *_each(FLOATS, op="RMSNormalization", expected=_first(_rms_norm), inputs=[Rand((3, 5, 16)), Rand((16,))]),
    *_each(("float32",), op="RMSNormalization", expected=_first(_rms_norm), inputs=[Rand((3, 4, 5)), Rand((4, 5))],
           attrs={"axis": 1, "epsilon": 0.01}),
    *(case for n in (7, 1024, 40_000) for case in _each(("float32", "float16"), op="SimplifiedLayerNormalization",
      expected=_rms_norm, inputs=[Rand((3, n)), Rand((n,))], outputs=(T, "float32"), opset=1)),
    *(case for dtype, statistics in (("bfloat16", "float32"), ("float64", "float64"))
      for case in _each((dtype,), op="SimplifiedLayerNormalization", expected=_rms_norm,
                        inputs=[Rand((3, 40)), Rand((40,))], outputs=(T, statistics), opset=1,
                        skip={"session": "the host infers float statistics"} if dtype == "float64" else {})),
    # Skip
    *(case for n in (8, 33, 768, 40_000)
      for case in _each(_SKIP_TYPES, **_SKIP, expected=_skip_layer_norm, outputs=(T, "float32", "float32", T),
                        inputs=[Rand((2, 3, n)), Rand((2, 3, n)), Rand((n,)), Rand((n,)), Rand((n,))])),
    *(case for skip in ((1, 3, 8), (3, 8)) for case in _each(("float32", "float16"), **_SKIP, outputs=(T, "", "", T),
      expected=_skip_layer_norm, inputs=[Rand((2, 3, 8)), Rand(skip), Rand((8,)), Rand((8,))])),
    *_each(("float32",), **_SKIP, expected=_first(_skip_layer_norm),
           inputs=[Rand((6, 8)), Rand((6, 8)), Rand((8,)), None, Rand((8,))], attrs={"epsilon": 1e-3}),
    *_each(("float32",), **_SKIP, expected=_first(_skip_layer_norm), inputs=[Rand((0, 8)), Rand((0, 8)), Rand((8,))]),
    *(case for n in (16, 35, 40_000)
      for case in _each(_SKIP_TYPES, op="SkipSimplifiedLayerNormalization", domain=MICROSOFT,
                        expected=_skip_rms_norm, outputs=(T, "", "float32", T),
                        inputs=[Rand((2, 3, n)), Rand((2, 3, n)), Rand((n,)), Rand((n,))])),
    Case(**_SKIP, inputs=[Rand((2, 3, 8)), Rand((2, 2, 8)), Rand((8,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "skip [2,2,8] neither")),
    Case(**_SKIP, inputs=[Rand((2, 3, 8)), Rand((2, 3, 8)), Rand((7,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 2 has shape [7], expected [8]")),
    # BatchNormalization
    *_each(FLOATS, **_BATCH, inputs=_batch_inputs((2, 3, 4, 4)), opset="7+"),
    *(case for shape in ((2, 3), (5,), (2, 3, 5), (2, 5, 8), (1, 3, 4, 5, 6), (0, 3, 2), (2, 3, 0), (3, 64, 33, 31))
      for case in _each(("float32", "float16"), **_BATCH, inputs=_batch_inputs(shape))),
    *_each(("float16", "bfloat16"), **_BATCH, inputs=_batch_inputs((2, 3, 8), None, "float32", "float32")),
    *_each(("float32",), **_BATCH, inputs=_batch_inputs((2, 3, 4), None, "float32", "float64"),
           attrs={"epsilon": 0.5}, name="double_statistics"),
    *_each(("float32",), **_BATCH, inputs=_batch_inputs((2, 3, 4), (3, 4)), attrs={"spatial": 0}, opset=7,
           skip={"session": "the host refuses the attribute"}),
    Case(**_BATCH | {"expected": None}, inputs=_batch_inputs((2, 3, 4)), attrs={"training_mode": 1},
         skip={"session": "the host wants all outputs of training"},
         dtypes=("float32",), error=("NOT_SUPPORTED", "training_mode 1")),
    Case(**_BATCH | {"expected": None}, inputs=_batch_inputs((2, 3, 4), (4,)), dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 1 has shape [4], expected [3]")),
]  # fmt: skip
