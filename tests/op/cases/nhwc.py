"""Operators on channels-last tensors, which the host puts into graphs for a provider that prefers them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE, FLOATS
from ..harness.tolerances import EXACT
from . import depth_to_space, globalpool, norm

_NHWC = "com.ms.internal.nhwc"
_SKIP = {"session": "no model has them, and prefer_nhwc=1 is refused"}
_POOLED = ("float16", "float32", "float64")


def _last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def _channels_last(reference: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The same operator, on tensors whose channels come last."""
    return lambda x, *rest, **attrs: _last(reference(np.moveaxis(x, -1, 1), *rest, **attrs))


_BATCH: dict[str, Any] = {
    "op": "BatchNormalization", "domain": _NHWC, "skip": _SKIP, "expected": _channels_last(norm._batch_norm),
    "magnitude": _channels_last(lambda *args, **attrs: norm._batch_norm(*args, **attrs, terms=True)),
}  # fmt: skip


def _batch_inputs(shape: tuple[int, ...], statistics: str) -> list[Rand]:
    of_channels = (shape[-1],)
    return [Rand(shape), Rand(of_channels), Rand(of_channels), Rand(of_channels, statistics),
            Rand(of_channels, statistics, low=0.5, high=4)]  # fmt: skip


CASES = [
    *(Case(op=op, domain=_NHWC, inputs=[Rand(shape)], dtypes=_POOLED, skip=_SKIP, opset="1+",
           expected=_channels_last(globalpool._REFERENCES[op]), magnitude=globalpool._MAGNITUDES.get(op))
      for op in globalpool._REFERENCES for shape in ((2, 6, 5, 3), (1, 7, 7, 40), (0, 3, 5, 4), (2, 9, 64))),
    *(Case(op="DepthToSpace", domain=_NHWC, inputs=[Rand(_last(np.empty(shape)).shape)], skip=_SKIP, tolerance=EXACT,
           attrs={"blocksize": size, "mode": mode}, dtypes=FIXED_SIZE, opset="1+",
           expected=_channels_last(depth_to_space._to_space))
      for shape, size in depth_to_space._DEPTHS for mode in ("DCR", "CRD")),
    *(Case(op="SpaceToDepth", domain=_NHWC, inputs=[Rand(_last(np.empty(shape)).shape)], skip=_SKIP, tolerance=EXACT,
           attrs={"blocksize": size}, dtypes=FIXED_SIZE, opset="1+", expected=_channels_last(depth_to_space._to_depth))
      for shape, size in depth_to_space._SPACES),
    *(Case(**_BATCH, dtypes=FLOATS, opset="7+", inputs=_batch_inputs(shape, "T")) for shape in
      ((2, 4, 4, 3), (2, 5, 8), (1, 4, 5, 6, 3), (0, 2, 3), (3, 33, 31, 64))),
    *(Case(**_BATCH, dtypes=("float16", "float32"), inputs=_batch_inputs((2, 4, 4, 3), statistics), opset="7+",
           name=f"{statistics}_statistics") for statistics in ("float32", "float64")),
]  # fmt: skip
