"""Dropout."""

import numpy as np

from ..harness import Case, Rand, T
from ..harness.dtypes import FLOAT8, FLOATS

CASES = [
    # the mask says that nothing was dropped; before version 12 it is what the host gives
    Case(op="Dropout", inputs=[Rand((3, 5))], expected=lambda x, *_: (x, np.ones_like(x, bool)), outputs=(T, "bool"),
         dtypes=(*FLOATS, *FLOAT8), opset="12+"),
    *(
        Case(op="Dropout", inputs=[Rand((3, 5)), Rand((), ratio)],
             expected=lambda x, *_: (x, np.ones_like(x, bool)), outputs=(T, "bool"), dtypes=("float32",), opset="12+")
        for ratio in (*FLOATS, *FLOAT8)
    ),
    Case(op="Dropout", inputs=[Rand((3, 5))], attrs={"ratio": 0.9}, dtypes=FLOATS, opset=10, outputs=(T, "bool"),
         expected=lambda x, **_: (x, np.zeros_like(x, bool))),
    Case(op="Dropout", inputs=[Rand((3, 5))], dtypes=FLOATS, opset=7, outputs=(T, T),
         expected=lambda x: (x, np.zeros_like(x))),
    *(
        Case(op="Dropout", inputs=[Rand(shape, "float32")], expected=lambda x: x, opset="7+")
        for shape in [(3, 5), (), (0, 3)]
    ),
]  # fmt: skip
