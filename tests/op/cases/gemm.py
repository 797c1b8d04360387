"""Gemm: transposed operands, every broadcast of C, scales, empty sizes, integers."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FLOATS

_INTS = ("int32", "uint32", "int64", "uint64")
_SOME = ("float32", "float16", "int32")


def _gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):  # noqa: N803 (attribute names)
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    if a.dtype.kind == "f":
        return alpha * product + (0 if c is None else beta * c)
    if alpha == int(alpha) and beta == int(beta):
        kind = a.dtype.type
        scale = np.array([int(alpha), int(beta)]).astype(kind)
        return scale[0] * product + (kind(0) if c is None else scale[1] * c)
    return np.trunc(alpha * product + (0 if c is None else beta * c)).astype(a.dtype)


_TRANSPOSES = [
    ((3, 5), (5, 4), {}),
    ((5, 3), (5, 4), {"transA": 1}),
    ((3, 5), (4, 5), {"transB": 1}),
    ((5, 3), (4, 5), {"transA": 1, "transB": 1}),
    ((69, 33), (33, 130), {}),
    ((33, 69), (130, 33), {"transA": 1, "transB": 1}),
]
_C_SHAPES = [(), (1,), (4,), (1, 1), (1, 4), (3, 1), (3, 4)]

CASES = [
    *(
        Case(
            op="Gemm",
            inputs=[Rand(a), Rand(b, low=-1, high=1), None],
            attrs=attrs,
            expected=_gemm,
            magnitude="absolute",
            dtypes=_SOME,
        )
        for a, b, attrs in _TRANSPOSES
    ),
    *(
        Case(
            op="Gemm",
            inputs=[Rand((3, 5)), Rand((5, 4)), Rand(c)],
            attrs=attrs,
            expected=_gemm,
            magnitude="absolute",
            dtypes=_SOME if c else (*FLOATS, *_INTS),
        )
        for c in _C_SHAPES
        for attrs in ({}, {"alpha": 0.5, "beta": -2.0}, {"alpha": 3.0, "beta": 0.0})
    ),
    Case(
        op="Gemm",
        inputs=[Rand((3, 5)), Rand((5, 4)), Rand((4,))],
        expected=_gemm,
        magnitude="absolute",
        dtypes=(*FLOATS, *_INTS),
        opset="7+",
    ),
    Case(
        op="Gemm",
        inputs=[Rand((3, 5)), Rand((4, 5)), Rand((3, 4))],
        attrs={"alpha": -2.0, "beta": 3.0, "transB": 1},
        expected=_gemm,
        magnitude="absolute",
        dtypes=("int32", "int64"),
        name="whole_scales",
    ),
    *(  # constant weights, which may be packed for few rows
        Case(
            op="Gemm",
            inputs=[
                Rand((rows, 40)),
                Rand((24, 40) if attrs.get("transB") else (40, 24), low=-1, high=1),
                c and Rand(c),
            ],
            attrs=attrs,
            expected=_gemm,
            magnitude="absolute",
            dtypes=("float16", "bfloat16", "float32"),
            constants={1},
        )
        for rows in (5, 17, 260)
        for attrs in ({}, {"transB": 1}, {"alpha": 0.5}, {"beta": -2.0})
        for c in (None, (24,), (rows, 24), (rows, 1))
    ),
    *(
        Case(op="Gemm", inputs=[Rand(a), Rand(b), Rand(c)], attrs={"beta": beta}, expected=_gemm, dtypes=_SOME[:2])
        for a, b, c in [
            ((3, 0), (0, 4), (4,)),
            ((3, 0), (0, 4), (3, 1)),
            ((0, 5), (5, 4), (4,)),
            ((3, 5), (5, 0), (1,)),
        ]
        for beta in (1.0, 0.5)
    ),
    *(
        Case(op="Gemm", inputs=[Rand(shape, "float32") for shape in shapes], error=("INVALID_ARGUMENT", text))
        for shapes, text in [
            (((3, 5), (4, 4)), "inner dimensions of A [3,5] and B [4,4] differ"),
            (((2, 3, 5), (5, 4)), "Gemm takes matrices, not A [2,3,5]"),
            (((3, 5), (5, 4), (3,)), "C [3] does not broadcast to [3,4]"),
            (((3, 5), (5, 4), (1, 3, 4)), "C [1,3,4] does not broadcast to [3,4]"),
        ]
    ),
]
