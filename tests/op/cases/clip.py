"""Clip: bounds as attributes before version 11, as optional inputs since."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, NUMERIC


def _clip(x: np.ndarray, low: np.ndarray | None = None, high: np.ndarray | None = None) -> Any:
    """Lower bound first: where the bounds are crossed, the upper one is the result."""
    result = x if low is None else np.maximum(x, low.reshape(()))
    return result if high is None else np.minimum(result, high.reshape(()))


CASES = [
    Case(op="Clip", inputs=[Rand((3, 7)), Of(1), Of(3)], expected=_clip, dtypes=NUMERIC, opset="11+"),
    Case(op="Clip", inputs=[Rand((3, 7)), Of(1), Of(3)], expected=_clip, dtypes=NUMERIC, constants=(1, 2),
         name="constant"),
    *(Case(op="Clip", inputs=[Rand((n,), specials=True), None, Of(2)], expected=_clip, dtypes=FLOATS)
      for n in (0, 1, 7, 257, 5001)),
    Case(op="Clip", inputs=[Rand((257,), specials=True), Of(-1)], expected=_clip, dtypes=FLOATS),
    Case(op="Clip", inputs=[Rand((257,), specials=True)], expected=_clip, dtypes=FLOATS),
    Case(op="Clip", inputs=[Rand((), specials=True), Of([1]), Of([2])], expected=_clip, dtypes=FLOATS),
    Case(op="Clip", inputs=[Rand((9,)), Of(3), Of(1)], expected=_clip, dtypes=NUMERIC, name="crossed"),
    Case(op="Clip", inputs=[Rand((9,)), Of(np.nan), Of(1)], expected=_clip, dtypes=FLOATS, name="nan_bound"),
    Case(op="Clip", inputs=[Rand((9,)), Of(-np.inf), Of(np.inf)], expected=_clip, dtypes=FLOATS,
         name="infinite_bounds"),
    Case(op="Clip", inputs=[Rand((33,), full=True), Of(2), Of(100)], expected=_clip, dtypes=NUMERIC[4:],
         name="full_range"),
    Case(op="Clip", inputs=[Rand((57,), specials=True)], attrs={"min": -1.5, "max": 1.5}, opset=6, dtypes=FLOATS,
         expected=lambda x, min, max: np.clip(x, min, max)),
    Case(op="Clip", inputs=[Rand((57,))], attrs={"max": 1.5}, opset=10, dtypes=FLOATS,
         expected=lambda x, max: np.minimum(x, max)),
    Case(op="Clip", inputs=[Rand((5,)), Rand((2,))], dtypes=("float32",), error=("INVALID_ARGUMENT", "[2]")),
]  # fmt: skip
