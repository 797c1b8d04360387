"""Tensors of more than 2^31 elements, as far as a GPU's memory goes: one case for each way in which kernels count.

Elsewhere the mode `sliced` of the operator cases stands in for them.
"""

import numpy as np
import pytest

from ..op.harness import Case, Of, Rand, driver
from ..op.harness.case import BoundCase, expand
from ..op.harness.check import run_case
from ..op.harness.tolerances import EXACT

_HALF = (1 << 30) + 24  # twice as many are more than 32 bits with a sign can count
_ODD = (1 << 30) + 3  # rows that packs straddle


def _case(op: str, **more: object) -> Case:
    return Case(op=op, dtypes=("int8",), tolerance=EXACT, **more)  # type: ignore[arg-type]


CASES = [
    _case("Add", inputs=[Rand((2, _HALF)), Rand((2, _HALF))], expected=np.add),
    _case("Add", inputs=[Rand((2, _ODD)), Rand((2, 1))], expected=np.add, name="broadcast"),
    _case("Cast", inputs=[Rand((2, _HALF))], attrs={"to": 2}, outputs=["uint8"],
          expected=lambda x, to: x.astype(np.uint8)),
    _case("Transpose", inputs=[Rand((_HALF, 2))], attrs={"perm": (1, 0)}, expected=lambda x, perm: x.T),
    _case("Expand", inputs=[Rand((1, _ODD)), np.array([2, _ODD])], expected=lambda x, _: np.repeat(x, 2, 0)),
    _case("Slice", inputs=[Rand((2, _ODD)), np.array([1]), np.array([_ODD]), np.array([1])],
          expected=lambda x, *_: x[:, 1:]),
    _case("Concat", inputs=[Rand((2, _ODD)), Rand((2, 8))], attrs={"axis": 1},
          expected=lambda a, b, axis: np.concatenate([a, b], axis)),
    _case("Gather", inputs=[Rand((2, _ODD)), Of([1, 0], "int64")], attrs={"axis": 0},
          expected=lambda x, i, axis: x[::-1]),
    *(
        _case("ReduceMax", inputs=[Rand(shape, full=True), np.array([axis])],
              expected=lambda x, axis: x.max(axis[0], keepdims=True))
        for shape, axis in (((2, _HALF), 1), ((_HALF, 2), 0))
    ),
]  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bound", expand("large", CASES), ids=lambda bound: bound.id)
def test_beyond_32_bits(bound: BoundCase) -> None:
    library = driver.load()
    if library.backend == "simulated":
        pytest.skip("the library under test simulates its device")
    if library.device_count() == 0:
        pytest.skip("no GPU")
    run_case(bound, "user_stream")
