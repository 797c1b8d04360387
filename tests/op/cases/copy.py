"""MemcpyFromHost and MemcpyToHost, which the host puts between devices."""

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT

_SKIP = {
    "session": "only the host itself makes such nodes",
    "graph": "the driver's host tensors are pageable, which a capture refuses",
}
_SHAPES = ((), (7,), (0, 3), (3, 5, 2), (50_001,))

CASES = [
    *(Case(op=op, inputs=[Rand((3, 5))], dtypes=FIXED_SIZE, opset=1, expected=lambda x: x, tolerance=EXACT,
           skip=_SKIP) for op in ("MemcpyFromHost", "MemcpyToHost")),
    *(Case(op=op, inputs=[Rand(shape)], dtypes=("float32",), opset=1, expected=lambda x: x, tolerance=EXACT,
           skip=_SKIP) for op in ("MemcpyFromHost", "MemcpyToHost") for shape in _SHAPES),
]  # fmt: skip
