"""MatMul and FusedMatMul: promotion of vectors, broadcast batches, transposed operands, empty sizes, integers."""

import numpy as np

from ..harness import MICROSOFT, Case, Rand
from ..harness.dtypes import FLOATS

_INTS = ("int32", "uint32", "int64", "uint64")

_SHAPES = [
    ((3, 5), (5, 4)),
    ((1, 1), (1, 1)),
    ((5,), (5, 4)),
    ((3, 5), (5,)),
    ((5,), (5,)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 4)),
    ((2, 3, 5), (5, 4)),  # one tall product
    ((3, 5), (2, 5, 4)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (1, 3, 5, 4)),  # three launches of two
    ((2, 3, 3, 5), (3, 5, 4)),
    ((2, 3, 3, 5), (2, 1, 5, 4)),
    ((2, 1, 2, 3, 5), (1, 3, 1, 5, 4)),
    ((67, 131), (131, 70)),  # more than a tile of the own kernel, odd
    ((1, 300), (300, 129)),
    ((3, 0), (0, 4)),  # zeros
    ((2, 3, 0), (2, 0, 4)),
    ((0, 5), (5, 4)),
    ((2, 0, 5), (5, 4)),
    ((3, 5), (5, 0)),
    ((0, 3, 5), (0, 5, 4)),
]


def _fused(a, b, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):  # noqa: N803 (attribute names)
    def form(x, transpose, batch):
        if batch and x.ndim > 2:
            x = np.moveaxis(x, 0, -2)
        return np.swapaxes(x, -1, -2) if transpose and x.ndim > 1 else x

    return alpha * np.matmul(form(a, transA, transBatchA), form(b, transB, transBatchB))


_FUSED = [
    ((3, 5), (5, 4), {"alpha": 0.5}),
    ((5, 3), (5, 4), {"transA": 1}),
    ((3, 5), (4, 5), {"transB": 1, "alpha": -2.0}),
    ((5, 3), (4, 5), {"transA": 1, "transB": 1}),
    ((2, 5, 3), (5, 4), {"transA": 1}),
    ((2, 3, 5), (2, 4, 5), {"transB": 1}),
    ((5,), (4, 5), {"transA": 1, "transB": 1}),
    ((3, 2, 5), (2, 5, 4), {"transBatchA": 1}),
    ((5, 2, 6, 3), (2, 6, 5, 4), {"transA": 1, "transBatchA": 1}),
    ((4, 3, 2, 9), (2, 9, 8), {"transBatchA": 1}),  # three of A at once, the next call's 9 elements further
    ((4, 9, 8, 9), (8, 9, 8), {"transBatchA": 1}),  # likewise, all other strides multiples of 16 bytes
    ((2, 3, 5), (5, 2, 4), {"transBatchB": 1}),
    ((2, 3, 5), (4, 2, 5), {"transB": 1, "transBatchB": 1}),
    ((3, 0), (4, 0), {"transB": 1}),
]

CASES = [
    *(  # constant weights, which may be packed for few rows
        Case(
            op="MatMul",
            inputs=[Rand(a), Rand(b, low=-1, high=1)],
            expected=lambda a, b: a @ b,
            magnitude="absolute",
            dtypes=("float16", "bfloat16", "float32"),
            constants={1},
        )
        for a, b in [
            ((5, 40), (40, 24)),
            ((2, 9, 40), (40, 24)),
            ((260, 40), (40, 24)),
            ((40,), (40, 24)),
            ((17, 36), (36, 20)),
            ((2, 5, 40), (2, 40, 24)),
        ]
    ),
    *(
        Case(
            op="MatMul",
            inputs=[Rand(a), Rand(b, low=-1, high=1)],
            expected=np.matmul,
            magnitude="absolute",
            dtypes=("float32", "float16", "int32"),
        )
        for a, b in _SHAPES
    ),
    Case(
        op="MatMul",
        inputs=[Rand((3, 5)), Rand((5, 4))],
        expected=np.matmul,
        magnitude="absolute",
        dtypes=(*FLOATS, *_INTS),
        opset="1+",
    ),
    Case(
        op="MatMul",
        inputs=[Rand((4, 70), full=True), Rand((70, 66), full=True)],
        expected=np.matmul,
        dtypes=_INTS,
        name="wraps",
    ),
    Case(
        op="TransposeMatMul",
        domain=MICROSOFT,
        opset=1,
        inputs=[Rand((2, 5, 3)), Rand((4, 5))],
        attrs={"transA": 1, "transB": 1, "alpha": 0.5},
        expected=_fused,
        magnitude="absolute",
        dtypes=FLOATS,
    ),
    *(
        Case(
            op="FusedMatMul",
            domain=MICROSOFT,
            opset=1,
            inputs=[Rand(a), Rand(b)],
            attrs=attrs,
            expected=_fused,
            magnitude="absolute",
            dtypes=FLOATS if attrs == {"alpha": 0.5} else ("float32", "bfloat16"),
        )
        for a, b, attrs in _FUSED
    ),
    *(
        Case(op="MatMul", inputs=[Rand(a, "float32"), Rand(b, "float32")], error=("INVALID_ARGUMENT", text))
        for a, b, text in [
            ((3, 5), (4, 4), "inner dimensions of A [3,5] and B [4,4] differ: 5 and 4"),
            ((2, 3, 5), (3, 5, 4), "batch dimensions [2] and [3] do not broadcast"),
            ((), (5, 4), "takes no scalar"),
        ]
    ),
]
