"""MatMulNBits: weights of 2, 4 and 8 bits with every form of zero point, groups and bias."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from ..harness.tolerances import Tolerance

# Many rows are multiplied with the weights as a matrix of their type, each rounded to it.
_MATRIX_ROWS = 17
_ROUNDED_WEIGHTS = {"float16": Tolerance(1, terms=2.0**12), "bfloat16": Tolerance(1, terms=2.0**15)}


def _unpack(packed: np.ndarray, bits: int, columns: int, count: int) -> np.ndarray:
    """The first `count` elements of each column, whose bytes hold 8 / bits of them from the lowest bits on."""
    data = packed.reshape(columns, -1).astype(np.uint8)
    parts = [(data >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(columns, -1)[:, :count].astype(np.float64)


def _weights(
    b: np.ndarray, scales: np.ndarray, zero_points: np.ndarray | None, g_idx: np.ndarray | None, attrs: dict[str, int]
) -> np.ndarray:
    """The weights as floats, [N, K]. Those of a block that there is not are 0."""
    k, n, bits, block = attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"]
    blocks = -(-k // block)
    group = np.arange(k) // block if g_idx is None else g_idx[:k]
    if zero_points is None:
        zero = np.full((n, blocks), 2.0 ** (bits - 1))
    elif zero_points.dtype == np.uint8:
        zero = _unpack(zero_points, bits, n, blocks)
    else:
        zero = zero_points.reshape(n, blocks)
    inside = (group >= 0) & (group < blocks)
    group = np.where(inside, group, 0)
    return (_unpack(b, bits, n, k) - zero[:, group]) * scales.reshape(n, blocks)[:, group] * inside


def _expected(
    a: np.ndarray,
    b: np.ndarray,
    scales: np.ndarray,
    zero_points: np.ndarray | None = None,
    g_idx: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    of: Callable[[np.ndarray], np.ndarray] = np.asarray,
    **attrs: int,
) -> np.ndarray:
    """The product of `of` the terms: of themselves, or of their magnitudes."""
    y = of(a) @ of(_weights(b, scales, zero_points, g_idx, attrs)).T
    return y if bias is None else y + of(bias)


def _magnitude(*inputs: Any, **attrs: int) -> np.ndarray:
    return _expected(*inputs, of=np.abs, **attrs)


def _with_specials(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers where the first row has a NaN, the third an infinity and the last one of each sign; others are finite."""
    generator = np.random.default_rng(3)
    values = generator.uniform(-1, 1, shape)
    values[0, 5], values[2, 7], values[-1, [0, shape[1] - 1]] = np.nan, np.inf, [-np.inf, np.inf]
    return values


def _case(
    a: tuple[int, ...], n: int, bits: int, block: int, zero: str = "", groups: bool = False, bias: bool = False,
    constant: bool = True, flat: bool = False, outside: int = 0, fed: int | None = None, specials: bool = False,
    **more: Any,
) -> Case:  # fmt: skip
    """fed: the one of the constants that is an input instead. specials: numbers of some rows that are not finite."""
    k = a[-1]
    blocks = -(-k // block)
    row = -(-blocks * bits // 8)
    zeros: Input = None
    if zero == "packed":
        zeros = Rand((n * row,) if flat else (n, row), "uint8", full=True)
    elif zero == "floating":
        zeros = Rand((n, blocks), low=0, high=2**bits)
    left: Input = Of(_with_specials(a)) if specials else Rand(a, low=-1, high=1)
    inputs: list[Input] = [left, Rand((n, blocks, block * bits // 8), "uint8", full=True)]
    inputs += [Rand((n * blocks,) if flat else (n, blocks), low=0.1, high=1), zeros]
    inputs.append(Of(np.random.default_rng(1).integers(-outside, blocks + outside, k), "int32") if groups else None)
    inputs.append(Rand((n,)) if bias else None)
    while inputs[-1] is None:
        inputs.pop()
    name = f"{'x'.join(map(str, a))}-n{n}-bits{bits}-block{block}-{zero}{'-groups' * groups}{'-bias' * bias}"
    options: dict[str, Any] = {"dtypes": ("float32", "float16")} | more
    if int(np.prod(a[:-1])) >= _MATRIX_ROWS and not groups:
        options["tolerance"] = _ROUNDED_WEIGHTS
    fixed = {1, 2, *((3,) if zero else ()), *((5,) if bias else ())} if constant else set()
    fixed -= {fed}
    return Case(op="MatMulNBits", domain=MICROSOFT, opset=1, inputs=inputs, expected=_expected, magnitude=_magnitude,
                attrs={"K": k, "N": n, "bits": bits, "block_size": block}, constants=fixed,
                name=name + "-fed" * (not constant) + ("" if fed is None else f"-fed{fed}")
                + "-outside" * outside + "-specials" * specials, **options)  # fmt: skip


CASES = [
    *(_case((3, 64), 40, bits, block, zero)
      for bits in (2, 4, 8) for block in (16, 32) for zero in ("", "packed", "floating")),
    _case((1, 256), 96, 4, 128, dtypes=("float32", "float16", "bfloat16")),
    _case((1, 512), 33, 4, 64, "packed", dtypes=("float32", "float16", "bfloat16")),
    _case((2, 5, 96), 65, 4, 32, "floating", dtypes=("float32", "float16", "bfloat16")),
    _case((2, 3, 70), 31, 4, 32, "packed"),  # K is no multiple of the block
    _case((9, 50), 7, 8, 16, flat=True, zero="packed"),
    _case((4, 96), 20, 4, 32, "packed", groups=True),
    _case((4, 96), 20, 8, 32, groups=True, bias=True),
    _case((4, 96), 20, 4, 32, "packed", groups=True, outside=1),
    _case((17, 128), 24, 4, 32, "packed", bias=True, dtypes=("float32", "float16", "bfloat16")),  # as a matrix
    _case((16, 160), 70, 4, 32, "packed", bias=True),
    *(_case((1, 128), 70, bits, 16, zero) for bits in (2, 4, 8) for zero in ("packed", "floating")),
    *(_case((19, 70), 70, bits, 16, zero) for bits in (2, 4, 8) for zero in ("", "packed", "floating")),
    _case((1, 8224), 33, 4, 32, "packed"),  # more than a block's memory holds of A
    _case((2, 2080), 33, 8, 32, "floating"),
    _case((18, 64), 40, 4, 32, "packed", constant=False),
    _case((18, 96), 20, 4, 32, "packed", groups=True),
    _case((3, 64), 40, 4, 32, "packed", constant=False),
    # tensor cores: narrow blocks and wide ones, one group of rows and two, several steps of a warp, ends of all of them
    *(_case((m, 1120), 40, 4, 32, zero, dtypes=("float16", "bfloat16"), bias=True)
      for m in (1, 9) for zero in ("", "packed")),
    *(_case((m, 64), 2200, bits, 32, dtypes=("float16",)) for m in (2, 12) for bits in (4, 8)),
    *(_case((m, 140), 40, 8, 64, "packed", dtypes=("float16", "bfloat16")) for m in (8, 16)),
    _case((5, 64), 72, 8, 32, constant=False, dtypes=("float16",)),
    # up to 64 rows: every group of them, all widths and blocks, ends of chunks, of columns and of the inner dimension
    *(_case((m, 1184), 100, bits, block, zero, dtypes=("float16", "bfloat16"), bias=m == 40)
      for m, block in ((1, 64), (7, 128), (16, 64), (17, 128), (40, 64), (64, 256)) for bits in (2, 4, 8)
      for zero in ("", "packed")),
    *(_case((m, 4128), 36, bits, 32, "packed", dtypes=("float16",)) for m in (1, 12, 25, 33) for bits in (4, 8)),
    *(_case((m, 150), 36, 8, 16, zero, dtypes=("float16", "bfloat16")) for m in (3, 31, 63) for zero in ("", "packed")),
    *(_case((m, 64), 2200, 4, 32, dtypes=("float16",)) for m in (30, 50)),
    # as a matrix, written from packed constants
    *(_case((66, k), 36, bits, block, zero, dtypes=("float16", "bfloat16"))
      for k, block in ((70, 16), (200, 128)) for bits in (2, 4, 8) for zero in ("", "packed")),
    # few rows in shared memory: not in packs, of several chunks, of many columns, and more than has room there
    *(_case((m, 140), 44, 4, 64, zero, dtypes=("float16", "bfloat16"), bias=m == 4)
      for m in (1, 2, 4, 5, 7) for zero in ("", "packed")),
    *(_case((m, k), n, 4, 32, "packed", dtypes=("float16",), bias=m == 3)
      for m, k, n in ((3, 2080, 1100), (2, 64, 9000), (8, 4128, 68), (8, 16416, 36))),
    _case((40, 128), 34, 4, 32, "packed", dtypes=("float16",)),  # columns not by fours
    _case((40, 96), 33, 4, 32, "packed", bias=True, dtypes=("float16", "bfloat16")),
    _case((19, 70), 36, 4, 16, "floating", dtypes=("bfloat16",)),
    # nothing packed, or not all of it: other kernels
    *(_case((m, 140), 36, bits, 64, "packed", constant=False, dtypes=("float16", "bfloat16"))
      for m in (5, 40, 66) for bits in (2, 4, 8)),
    *(_case((m, 128), 36, 4, 32, "packed", fed=fed, dtypes=("float16",)) for m in (5, 40, 66) for fed in (1, 2, 3)),
    # what is not finite stays in its row
    *(_case((m, 140), 36, bits, 64, "packed", specials=True, dtypes=("float32", "float16", "bfloat16"))
      for m in (4, 12, 40, 66) for bits in (2, 4, 8)),
    _case((64,), 24, 4, 32),
    _case((0, 64), 24, 4, 32),
    Case(op="MatMulNBits", domain=MICROSOFT, opset=1, dtypes=("float32",), error=("INVALID_ARGUMENT", "A [2,65]"),
         attrs={"K": 64, "N": 8, "bits": 4, "block_size": 32}, name="wrong_k",
         inputs=[Rand((2, 65)), Rand((8, 2, 16), "uint8"), Rand((8, 2))]),
    Case(op="MatMulNBits", domain=MICROSOFT, opset=1, dtypes=("float32",), error=("INVALID_ARGUMENT", "scales [8,3]"),
         attrs={"K": 64, "N": 8, "bits": 4, "block_size": 32}, name="wrong_scales",
         inputs=[Rand((2, 64)), Rand((8, 2, 16), "uint8"), Rand((8, 3))]),
    Case(op="MatMulNBits", domain=MICROSOFT, opset=1, dtypes=("float32",), error=("NOT_SUPPORTED", "bits 3"),
         attrs={"K": 64, "N": 8, "bits": 3, "block_size": 32}, name="three_bits",
         inputs=[Rand((2, 64)), Rand((8, 2, 16), "uint8"), Rand((8, 2))]),
]  # fmt: skip
