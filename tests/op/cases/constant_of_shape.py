"""ConstantOfShape: every type of value."""

from typing import Any

import ml_dtypes
import numpy as np

from ..harness import Case, Of
from ..harness.dtypes import FLOAT8, NUMERIC, SUB_BYTE
from ..harness.tolerances import EXACT


def _fill(shape: np.ndarray, value: np.ndarray | None = None) -> np.ndarray:
    value = np.zeros(1, np.float32) if value is None else value
    return np.full(tuple(shape), value.reshape(-1)[0], value.dtype)


def _case(shape: list[int], value: Any = None, dtype: str = "float32", **more: Any) -> Case:
    attrs = {} if value is None else {"value": np.array([value]).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))}
    return Case(
        op="ConstantOfShape",
        inputs=[Of(np.array(shape, np.int64), "int64")],
        outputs=(dtype,),
        attrs=attrs,
        expected=_fill,
        tolerance=EXACT,
        name=f"{'x'.join(map(str, shape)) or 'scalar'}-{dtype}-{value}",
        **more,
    )


CASES = [
    *(_case(shape, 7, "int64") for shape in [[], [1], [0], [5], [3, 0, 2], [3, 5, 7], [1023], [4097]]),
    _case([4, 5], opset="9+"),
    *(_case([3, 17], 1 if dtype == "int2" else 3, dtype) for dtype in (*NUMERIC, *FLOAT8, *SUB_BYTE)),
    _case([3, 17], 4, "float8_e8m0fnu"),
    _case([3, 17], True, "bool"),
    _case([3, 17], -2.5, "float16"),
    _case([2, 9], np.nan, "float32"),
    Case(op="ConstantOfShape", inputs=[Of(np.array([2, -1]), "int64")], outputs=("float32",),
         error=("INVALID_ARGUMENT", "negative"), name="negative"),
    Case(op="ConstantOfShape", inputs=[Of(np.array([2]), "int64")], outputs=("float32",),
         attrs={"value": np.ones(2, np.float32)}, error=("INVALID_ARGUMENT", "one element"), name="two_values"),
]  # fmt: skip
