"""BiasDropout and BiasAdd of com.microsoft."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, T
from ..harness.dtypes import FLOATS

_DROPOUT: dict[str, Any] = {"op": "BiasDropout", "domain": "com.microsoft"}
_ADD: dict[str, Any] = {"op": "BiasAdd", "domain": "com.microsoft"}


def _dropped(x: np.ndarray, bias: np.ndarray, *rest: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    residual = rest[0] if rest and rest[0] is not None else 0
    return x + bias + residual, np.ones_like(x, bool)


CASES = [
    Case(**_DROPOUT, inputs=[Rand((2, 3, 8)), Rand((8,)), Rand((2, 3, 8))], expected=_dropped, outputs=(T, "bool"),
         magnitude="absolute", dtypes=FLOATS),
    *(
        Case(**_DROPOUT, inputs=[Rand((3, 7), "float32"), Rand((7,), "float32"), None, Rand((), ratio)],
             expected=_dropped, outputs=("float32", "bool"), magnitude="absolute")
        for ratio in FLOATS
    ),
    Case(**_DROPOUT, inputs=[Rand((0, 7)), Rand((7,))], expected=_dropped, outputs=(T, "bool"), dtypes=("float32",)),
    Case(**_DROPOUT, inputs=[Rand((3, 7)), Rand((7,))], expected=lambda x, b: x + b, magnitude="absolute",
         dtypes=("float32",)),
    Case(**_DROPOUT, inputs=[Rand((3, 7)), Rand((3,))], dtypes=("float32",), error=("INVALID_ARGUMENT", "bias")),
    Case(**_DROPOUT, inputs=[Rand((3, 7)), Rand((7,)), Rand((7,))], dtypes=("float32",),
         error=("INVALID_ARGUMENT", "residual")),
    Case(**_DROPOUT, inputs=[Rand((3, 7)), Rand((7,)), None, None, np.array(True)], dtypes=("float32",),
         error=("NOT_SUPPORTED", "training_mode"), skip={"session": "no CPU kernel either"}),
    Case(**_ADD, inputs=[Rand((2, 5, 320)), Rand((320,)), Rand((2, 5, 320))], expected=lambda x, b, s: x + b + s,
         magnitude="absolute", dtypes=("float32", "float16")),
]  # fmt: skip
