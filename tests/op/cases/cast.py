"""Cast and CastLike, each type to each."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import FLOATS, INTS, NUMERIC, code_of, numpy_dtype
from ..harness.tolerances import EXACT

_TYPES = (*NUMERIC, "bool")


def _convert(x: np.ndarray, to: str) -> np.ndarray:
    """Floats beyond an integer's range saturate and NaN becomes 0; integers wrap."""
    target = numpy_dtype(to)
    if x.dtype.kind == "f" and to in INTS:
        limits = np.iinfo(target)
        whole = [0 if np.isnan(v) else limits.max if v > limits.max else max(v, limits.min) for v in x.reshape(-1)]
        return np.array([int(v) for v in whole], dtype=target).reshape(x.shape)
    if to == "bfloat16" and x.dtype.kind != "f":
        return x.astype(np.float32).astype(ml_dtypes.bfloat16)
    return x.astype(target)


def _to(to: str) -> Callable[..., Any]:
    return lambda x, *_, **__: _convert(x, to)


def _cast(to: str, source: Rand | Of, **more: Any) -> Case:
    return Case(op="Cast", inputs=[source], attrs={"to": code_of(to)}, outputs=[to], expected=_to(to),
                tolerance=EXACT, **more)  # fmt: skip


CASES = [
    *(_cast(to, Rand((5, 33)), dtypes=_TYPES, name=f"to_{to}") for to in _TYPES),
    *(_cast(to, Rand((3, 5)), dtypes=("float32", "int32"), opset="6+", name=f"versions_to_{to}")
      for to in ("float16", "int64", "bool")),
    *(_cast(to, Rand((77,), full=True), dtypes=INTS, name=f"full_range_to_{to}") for to in (*INTS, "float32")),
    *(_cast(to, Rand((301,), specials=True), dtypes=FLOATS, name=f"specials_to_{to}") for to in _TYPES),
    *(_cast(to, Rand((301,), low=-1e6, high=1e6), dtypes=FLOATS, name=f"large_to_{to}") for to in _TYPES),
    *(_cast(to, Of([3e9, -3e9, 1e19, -1e19, 2e19, 127.9, -128.9, 255.5, -0.9]), dtypes=FLOATS, name=f"limits_to_{to}")
      for to in INTS),
    # The nearest fp32 lies between two fp16 and two bf16 values: a second rounding would go the wrong way.
    *(_cast(to, Of([1 + 2**-11 + 2**-30, 1 + 2**-8 + 2**-30, 1 + 2**-11 - 2**-30, -1 - 2**-8 + 2**-30]),
            dtypes=("float64",), name=f"once_rounded_to_{to}")
      for to in ("float16",)),
    *(_cast("float16", Rand(shape), dtypes=("float32", "uint8", "int64")) for shape in ((), (0,), (1,), (7,), (4097,))),
    *(Case(op="CastLike", inputs=[Rand((3, 7)), Rand((2,), to)], outputs=[to], expected=_to(to), tolerance=EXACT,
           dtypes=_TYPES, opset="15+" if to == "float16" else 15, name=f"like_{to}")
      for to in _TYPES),
    _cast("float32", Of([1.0]), dtypes=("float32",), constants=(0,), name="constant"),
    Case(op="Cast", inputs=[Rand((3,))], attrs={"to": 8}, outputs=["float32"], dtypes=("float32",),
         error=("NOT_SUPPORTED", "from float to string"), skip={"session": "the host places it elsewhere"}),
]  # fmt: skip
