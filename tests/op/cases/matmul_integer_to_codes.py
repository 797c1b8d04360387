"""MatMulIntegerToCodes, which compiled regions make of products of codes that end in codes.

Scales are powers of two and sums small, so that all that is computed in fp32 is exact: codes are the reference's.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT


def _coded(numbers: np.ndarray, scale: float, zero: int, lowest: int) -> np.ndarray:
    return np.clip(np.rint(numbers / np.float32(scale)) + np.float32(zero), lowest, lowest + 255)


def _to_codes(a, b, scale, shift=None, bias=None, table=None, *, dtype, **steps):
    """Each product's columns by its own steps."""
    parts, columns = len(steps["y_scale"]), b.shape[1] // len(steps["y_scale"])
    outputs = []
    for i in range(parts):
        of = slice(i * columns, (i + 1) * columns)
        vectors = [None if vector is None else vector[of] for vector in (scale, shift, bias)]
        step = {name: values[i] for name, values in steps.items()}
        outputs.append(_one_to_codes(a, b[:, of], *vectors, table, dtype, **step))
    return outputs[0] if parts == 1 else tuple(outputs)


def _one_to_codes(a, b, scale, shift, bias, table, dtype, y_scale, y_zero, y_lowest, first_scale=0.0, first_zero=0,
                  first_lowest=0):  # fmt: skip
    sums = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32)
    numbers = (sums if shift is None else sums + shift) * scale
    if first_scale:
        numbers = (_coded(numbers, first_scale, first_zero, first_lowest) - np.float32(first_zero)) * first_scale
    if bias is not None:
        numbers = numbers + bias
    codes = _coded(numbers, y_scale, y_zero, y_lowest)
    if table is not None:
        return table[(codes - y_lowest).astype(np.int64)]
    return codes.astype(dtype)


_FIRST = {"first_scale": [0.5], "first_zero": [3], "first_lowest": [-128]}


def _case(a: tuple[int, ...], columns: int, dtype: str = "int8", first: bool = True, shift: bool = True,
          bias: bool = True, table: bool = False, **more: Any) -> Case:  # fmt: skip
    generator = np.random.default_rng(columns)
    weights = generator.integers(-128, 128, (a[-1], columns), np.int8)
    powers = generator.integers(-9, -5, columns)
    inputs: list[Any] = [Rand(a, "int8", full=True), weights, np.exp2(powers).astype(np.float32)]
    inputs.append(generator.integers(-2000, 2000, columns).astype(np.float32) if shift else None)
    inputs.append((generator.integers(-200, 200, columns) * 0.125).astype(np.float32) if bias else None)
    codes = np.int8 if dtype == "int8" else np.uint8
    inputs.append(generator.integers(0, 256, 256, np.uint8).view(codes) if table else None)
    while inputs[-1] is None:
        inputs.pop()
    zero, lowest = (-5, -128) if dtype == "int8" else (131, 0)
    attrs = {"y_scale": [0.25], "y_zero": [zero], "y_lowest": [lowest]}
    attrs |= _FIRST if first else {}
    return Case(op="MatMulIntegerToCodes", domain=FUSED_DOMAIN, inputs=inputs, attrs=attrs, outputs=[dtype],
                constants={1, 2, 3, 4, 5}, expected=partial(_to_codes, dtype=dtype), tolerance=EXACT,
                **more)  # fmt: skip


def _three(a: tuple[int, ...], columns: int, first: bool = True) -> Case:
    """Products of queries, keys and values: as many columns each, by steps of their own."""
    attrs = {"y_scale": [0.25, 0.5, 0.125], "y_zero": [-5, 0, 7], "y_lowest": [-128] * 3}
    if first:
        attrs |= {"first_scale": [0.5, 1.0, 0.25], "first_zero": [3, -1, 0], "first_lowest": [-128] * 3}
    one = _case(a, 3 * columns, first=first)
    return replace(one, attrs=attrs, outputs=["int8"] * 3, name=f"three-{columns}-{int(first)}")


def _ties(first: bool) -> Case:
    """Every other sum lies in the middle of two codes, of the first quantization or the last."""
    weights = np.random.default_rng(3).integers(-3, 4, (32, 48), np.int8)
    attrs = {"y_scale": [1.0], "y_zero": [1], "y_lowest": [-128]} | (_FIRST | {"first_scale": [1.0]} if first else {})
    return Case(op="MatMulIntegerToCodes", domain=FUSED_DOMAIN, attrs=attrs, constants={1, 2}, outputs=["int8"],
                inputs=[Rand((40, 32), "int8", full=True), weights, np.full(48, 0.5, np.float32)],
                expected=partial(_to_codes, dtype="int8"), tolerance=EXACT, name=f"ties-{int(first)}")  # fmt: skip


def _zeros() -> Case:
    """Rows of what stands for zero: large sums of weights go exactly, and what is left is the bias, at ties."""
    weights = np.random.default_rng(5).integers(100, 128, (256, 32), np.int8)
    shift = (-weights.sum(0, dtype=np.int64) * 127).astype(np.float32)
    inputs = [np.full((3, 256), 127, np.int8), weights, np.full(32, 0.0371, np.float32), shift,
              (np.arange(32) - 16).astype(np.float32) * np.float32(0.125)]  # fmt: skip
    return Case(op="MatMulIntegerToCodes", domain=FUSED_DOMAIN, inputs=inputs, constants={1, 2, 3, 4}, outputs=["int8"],
                attrs={"y_scale": [0.25], "y_zero": [0], "y_lowest": [-128]}, tolerance=EXACT, name="zeros",
                expected=partial(_to_codes, dtype="int8"))  # fmt: skip


def _refused(text: str, *inputs: Any, code: str = "INVALID_ARGUMENT", **attrs: Any) -> Case:
    given = {"y_scale": [0.25], "y_zero": [0], "y_lowest": [-128]} | attrs
    return Case(op="MatMulIntegerToCodes", domain=FUSED_DOMAIN, inputs=list(inputs or (_A, _B, _SCALE)),
                outputs=["int8"], attrs=given, error=(code, text))  # fmt: skip


_A, _B, _SCALE = Rand((4, 16), "int8"), Rand((16, 16), "int8"), Rand((16,), "float32")

CASES = [
    # one tile of the kernel of warpgroups and parts of it, several tiles, inner dimensions of one box and more
    _case((1, 16), 16), _case((3, 45, 144), 32), _case((130, 320), 208), _case((2, 2, 70, 48), 16),
    *(_case((37, 64), 48, dtype, first, shift, bias, table, name=f"{dtype}-{first:d}{shift:d}{bias:d}{table:d}")
      for dtype, first, shift, bias, table in (("uint8", True, True, True, True), ("int8", True, True, True, True),
                                               ("uint8", False, True, True, False), ("int8", False, False, True, True),
                                               ("int8", True, False, False, False),
                                               ("uint8", False, True, False, True))),
    # columns of whole 8, not 16
    _case((3, 64), 8), _case((33, 2, 144), 200, "uint8", table=True), _case((5, 2048), 1000, first=False),
    # rows and columns that the kernel of warpgroups does not take: sums go through memory
    _case((5, 16), 10), _case((7, 24), 9, "uint8", table=True), _case((9, 3), 16), _case((2, 3, 33), 40, bias=False),
    _ties(first=False), _ties(first=True), _zeros(),
    # three in one launch, each in its own, by way of sums
    _three((37, 64), 192), _three((130, 48), 64, first=False), _three((5, 32), 48), _three((70, 32), 56),
    _three((4, 24), 10),
    # nothing to compute
    _case((0, 16), 16), _case((3, 16), 0),
    _refused("the product of", Rand((4, 15), "int8"), _B, _SCALE),
    _refused("no element for each column", _A, _B, Rand((15,), "float32")),
    _refused("no element for each column", _A, _B, _SCALE, None, Rand((17,), "float32")),
    _refused("a table of 255 codes", _A, _B, _SCALE, None, None, Rand((255,), "int8")),
    _refused("have no value for product 0", y_zero=[]),
    _refused("y_scale must be a positive number", y_scale=[0.0]),
    _refused("2^-60 to 2^60 are offered", code="NOT_SUPPORTED", y_scale=[1e-30]),
    _refused("first_scale 1.00000002e+30", code="NOT_SUPPORTED", first_scale=[1e30], first_zero=[0],
             first_lowest=[-128]),
    _refused("y_lowest must be -128 or 0", y_lowest=[-1]),
    _refused("first_zero 200 is no code", first_scale=[1.0], first_zero=[200], first_lowest=[-128]),
]  # fmt: skip
