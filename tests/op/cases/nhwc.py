"""Operators on channels-last tensors, which the host puts into graphs for a provider that prefers them.

Sessions with them are in tests/session/layout_suite.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE, FLOATS
from ..harness.tolerances import EXACT
from . import conv, convtranspose, depth_to_space, globalpool, lrn, norm, pool, sample

_NHWC = "com.ms.internal.nhwc"
_TYPES = tuple(name for name in FLOATS if name != "bfloat16")  # which the host has no such schemas of
_FIXED = tuple(name for name in FIXED_SIZE if name != "bfloat16")
_SKIP = {"session": "no model has them"}


def _last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def _channels_last(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The same operator, on tensors whose channels come last; indices keep the other order."""

    def turned(x: np.ndarray, *rest: Any, **attrs: Any) -> Any:
        result = reference(np.moveaxis(x, -1, 1), *rest, **attrs)
        if isinstance(result, tuple):
            return _last(result[0]), *result[1:]
        return _last(result) if np.ndim(result) > 2 else result  # one magnitude for all

    return turned


def _turned(cases: Sequence[Case]) -> list[Case]:
    """Cases that are right, with the first input and the first result channels last."""
    found = []
    for case in cases:
        x = case.inputs[0]
        if not isinstance(x, Rand) or not callable(case.expected) or len(x.shape) < 3:
            continue
        more: dict[str, Any] = {"dtypes": [name for name in case.dtypes if name != "bfloat16"]}
        if case.dtypes and not more["dtypes"]:
            continue
        if callable(case.magnitude):
            more["magnitude"] = _channels_last(case.magnitude)
        shape = (x.shape[0], *x.shape[2:], x.shape[1])
        found.append(replace(case, domain=_NHWC, inputs=[replace(x, shape=shape), *case.inputs[1:]], skip=_SKIP,
                             expected=_channels_last(case.expected), **more))  # fmt: skip
    return found


def _nhwc_conv(cases: Sequence[Case]) -> list[Case]:
    """Cases of channels-last Conv as NhwcConv, which models may have."""
    return [
        replace(case, op="NhwcConv", domain="com.microsoft", opset="1+", skip={})
        for case in cases
        if not case.options  # as the driver numbers them
    ]


def _of(table: Any, op: str, every: int = 1) -> list[Case]:
    return _turned([case for case in table.CASES if case.op == op and not case.domain][::every])


# Whole packs of channels in all types: windows that are unrolled, and others.
_POOLED = [
    ((2, 9, 8, 16), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 9, 8, 32), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 8, 7, 16), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((1, 11, 48), {"kernel_shape": [3], "strides": [2]}),
    ((1, 5, 6, 4, 16), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 1, 0, 1, 0]}),
]
# Whole packs of channels, more than a block has: widths that are unrolled, and others, rows that end within a strip.
_DEPTHWISE = [
    ((2, channels, 9, 11), (channels, 1, taps, width), {"group": channels, **attrs})
    for channels, taps, width, attrs in (
        (8, 3, 3, {"pads": [1, 1, 1, 1]}),
        (72, 3, 3, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        (136, 5, 5, {"pads": [2, 2, 2, 2]}),
        (16, 5, 5, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        (40, 7, 7, {"pads": [3, 3, 3, 3]}),
        (24, 2, 4, {"pads": [0, 1, 1, 2], "strides": [3, 1]}),
        (16, 3, 3, {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
        (16, 2, 3, {"pads": [1, 1, 1, 1], "dilations": [2, 1], "strides": [2, 1]}),
        (33, 3, 3, {"pads": [1, 1, 1, 1]}),
    )
]

_BATCH: dict[str, Any] = {
    "op": "BatchNormalization", "domain": _NHWC, "skip": _SKIP, "expected": _channels_last(norm._batch_norm),
    "magnitude": _channels_last(lambda *args, **attrs: norm._batch_norm(*args, **attrs, terms=True)),
}  # fmt: skip


def _batch_inputs(shape: tuple[int, ...], statistics: str) -> list[Rand]:
    of_channels = (shape[-1],)
    return [Rand(shape), Rand(of_channels), Rand(of_channels), Rand(of_channels, statistics),
            Rand(of_channels, statistics, low=0.5, high=4)]  # fmt: skip


CASES = [
    *(Case(op=op, domain=_NHWC, inputs=[Rand(shape)], dtypes=_TYPES, skip=_SKIP, opset="1+",
           expected=_channels_last(globalpool._REFERENCES[op]), magnitude=globalpool._MAGNITUDES.get(op))
      for op in globalpool._REFERENCES for shape in ((2, 6, 5, 3), (1, 7, 7, 40), (0, 3, 5, 4), (2, 9, 64))),
    *(Case(op="DepthToSpace", domain=_NHWC, inputs=[Rand(_last(np.empty(shape)).shape)], skip=_SKIP, tolerance=EXACT,
           attrs={"blocksize": size, "mode": mode}, dtypes=_FIXED, opset="1+",
           expected=_channels_last(depth_to_space._to_space))
      for shape, size in depth_to_space._DEPTHS for mode in ("DCR", "CRD")),
    *(Case(op="SpaceToDepth", domain=_NHWC, inputs=[Rand(_last(np.empty(shape)).shape)], skip=_SKIP, tolerance=EXACT,
           attrs={"blocksize": size}, dtypes=_FIXED, opset="1+", expected=_channels_last(depth_to_space._to_depth))
      for shape, size in depth_to_space._SPACES),
    *(Case(**_BATCH, dtypes=_TYPES, opset="7+", inputs=_batch_inputs(shape, "T")) for shape in
      ((2, 4, 4, 3), (2, 5, 8), (1, 4, 5, 6, 3), (0, 2, 3), (3, 33, 31, 64))),
    *(Case(**_BATCH, dtypes=("float16", "float32"), inputs=_batch_inputs((2, 4, 4, 3), statistics), opset="7+",
           name=f"{statistics}_statistics") for statistics in ("float32", "float64")),
    *_of(conv, "Conv"),
    *_turned(conv._cases(_DEPTHWISE, dtypes=("float32", "float16"))),
    *_nhwc_conv(_of(conv, "Conv", every=2)),
    *_of(convtranspose, "ConvTranspose", every=2),
    *_of(pool, "MaxPool", every=2),
    *_of(pool, "AveragePool", every=2),
    *(Case(op="MaxPool", domain=_NHWC, inputs=[Rand(shape, full=True, specials=True)], skip=_SKIP,
           dtypes=(*_TYPES, "int8", "uint8"), attrs=attrs, outputs=["T"], expected=_channels_last(pool._max_pool),
           name=f"packs-{i}")
      for i, (shape, attrs) in enumerate(_POOLED)),
    *(Case(op="AveragePool", domain=_NHWC, inputs=[Rand(shape)], skip=_SKIP, dtypes=_TYPES,
           attrs={**attrs, "count_include_pad": count}, expected=_channels_last(pool._average_pool),
           magnitude="absolute", name=f"packs-{i}-{count}")
      for i, (shape, attrs) in enumerate(_POOLED) for count in (0, 1)),
    *_of(sample, "GridSample", every=3),
    *_of(lrn, "LRN"),
]  # fmt: skip
