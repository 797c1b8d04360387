"""FromHost, which compiled regions put where the device reads what shape arithmetic came to."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT


def _same(x: np.ndarray) -> np.ndarray:
    return x


# No bytes, some, those of one launch and more.
CASES = [
    Case(op="FromHost", domain=FUSED_DOMAIN, inputs=[Rand(shape)], expected=_same, dtypes=FIXED_SIZE, tolerance=EXACT)
    for shape in ((), (0,), (3,), (5, 7), (64,), (1025,))
]
