"""GatherBlockQuantized: every type of data, axes, shared scales, packed bytes and zero points."""

import math
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.dtypes import FLOAT8
from ..harness.inputs import Input
from ..harness.tolerances import EXACT

_FLOATS = (*FLOAT8, "float4_e2m1fn")


def _unpacked(values: np.ndarray, bits: int, last: int) -> np.ndarray:
    """Bytes of several numbers, the first in the lowest bits."""
    parts = [(values >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)[..., :last]


def _gather(data: np.ndarray, indices: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None, bits: int = 4,
            gather_axis: int = 0, quantize_axis: int = 1, block_size: int = 128) -> Any:  # fmt: skip
    default = 0
    if data.dtype == np.uint8:
        default = 2 ** (bits - 1)
        data = _unpacked(data, bits, data.shape[-1] * 8 // bits)
        zeros = None if zeros is None else _unpacked(zeros, bits, scales.shape[-1])
    axis = quantize_axis % data.ndim
    whole = [*data.shape[:axis], scales.shape[axis], *data.shape[axis + 1 :]]

    def spread(values: np.ndarray) -> np.ndarray:
        wide = np.broadcast_to(values.astype(np.float64), whole)
        return np.repeat(wide, block_size or data.shape[axis], axis)[tuple(slice(n) for n in data.shape)]

    numbers = (data.astype(np.float64) - (default if zeros is None else spread(zeros))) * spread(scales)
    size = data.shape[gather_axis]
    inside = (indices >= -size) & (indices < size)
    taken = np.take(numbers, np.where(inside, indices, 0), axis=gather_axis)
    axis = gather_axis % data.ndim
    shape = [*[1] * axis, *indices.shape, *[1] * (data.ndim - axis - 1)]
    return np.where(inside.reshape(shape), taken, 0).astype(np.float32)


def _case(dtype: str, shape: tuple[int, ...], indices: tuple[int, ...] = (5,), gather: int = 0, quantize: int = -1,
          block: int = 16, bits: int = 8, zeros: bool = False, scales: tuple[int, ...] | None = None,
          of: Input = None, index: str = "int64", **more: Any) -> Case:  # fmt: skip
    per_byte = 8 // bits if dtype == "uint8" else 1
    stored = (*shape[:-1], shape[-1] // per_byte)
    axis = quantize % len(shape)
    own = tuple(math.ceil(n / (block or n)) if d == axis else n for d, n in enumerate(shape))
    given = own if scales is None else scales
    size = shape[gather]
    inputs: list[Input] = [
        Rand(stored, dtype, full=True),
        of or Rand(indices, index, low=-size, high=size - 1),
        Rand(given, low=0.1, high=2),
    ]  # fmt: skip
    if zeros:
        inputs.append(Rand((*own[:-1], math.ceil(own[-1] / per_byte)), dtype, full=True))
    attrs = {"gather_axis": gather, "quantize_axis": quantize, "block_size": block}
    if dtype == "uint8":
        attrs["bits"] = bits
    name = f"{dtype}_{shape}_{indices}_{gather}_{quantize}_{block}_{bits}_{zeros}_{given}_{index}"
    options: dict[str, Any] = {"dtypes": ("float32",)} | more
    return Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, inputs=inputs, attrs=attrs, expected=_gather,
                constants=(0, 2, *((3,) if zeros else ())), tolerance=EXACT,
                name=name.replace(", ", "x").replace(",", ""), **options)  # fmt: skip


_TYPES = ("float32", "float16", "bfloat16")

CASES = [
    *(_case(dtype, (9, 48), zeros=zeros, dtypes=_TYPES) for dtype in ("int4", "uint4") for zeros in (False, True)),
    *(_case("uint8", (9, 48), bits=bits, zeros=zeros, dtypes=_TYPES) for bits in (2, 4, 8) for zeros in (False, True)),
    *(_case(dtype, (9, 48), dtypes=_TYPES) for dtype in _FLOATS),
    *(_case("uint4", (3, 20, 36), (2, 3), gather, quantize, zeros=True, index=index)
      for gather in (0, 1, -1) for quantize in (0, 1, 2) for index in ("int32", "int64")),
    *(_case("int4", (7, n), block=block) for n in (1, 3, 50, 515) for block in (16, 128)),
    _case("int4", (70,), (2, 3), quantize=0, skip={"session": "the host's inference wants two dimensions"}),
    _case("int4", (7, 32), (2, 0, 3)), _case("int4", (7, 32), ()),
    _case("uint8", (5, 3, 40), (2, 2), 0, 1, 16, bits=4, zeros=True,
          skip={"session": "the host's inference takes packed data for the last axis alone"}),
    _case("uint8", (5, 3, 40), (2, 2), 0, 2, 16, bits=2, zeros=True),
    _case("float8_e4m3fn", (9, 48), block=0),
    _case("float8_e4m3fn", (9, 48), scales=(1, 3)), _case("float4_e2m1fn", (9, 48), block=0, scales=(1, 1)),
    _case("float8_e5m2", (9, 48, 5), quantize=1, scales=(9, 3, 1)),
    _case("int4", (9, 32), of=Of([-9, 9, 8, -10, 100], "int64")),
    # refusals
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, attrs={"block_size": 17}, dtypes=("float32",),
         inputs=[Rand((9, 32), "int4"), Rand((2,), "int64"), Rand((9, 2))],
         error=("INVALID_ARGUMENT", "block_size 17 must be"), name="block"),
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, attrs={"block_size": 16}, dtypes=("float32",),
         inputs=[Rand((9, 32), "int4"), Rand((2,), "int64"), Rand((9, 3))],
         error=("INVALID_ARGUMENT", "scales [9,3] fit no blocks"), name="scales"),
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, attrs={"block_size": 16}, dtypes=("float32",),
         inputs=[Rand((9, 32), "int4"), Rand((2,), "int64"), Rand((9, 2)), Rand((9, 1), "int4")],
         error=("INVALID_ARGUMENT", "zero points [9,1] should be [9,2]"), name="zeros"),
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, attrs={"block_size": 16, "bits": 3},
         dtypes=("float32",), inputs=[Rand((9, 32), "uint8"), Rand((2,), "int64"), Rand((9, 2))],
         error=("INVALID_ARGUMENT", "bits 3"), name="bits"),
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, dtypes=("float32",), name="axis",
         attrs={"block_size": 16, "gather_axis": 1, "quantize_axis": 0},
         inputs=[Rand((9, 32), "uint8"), Rand((2,), "int64"), Rand((1, 64))],
         error=("NOT_SUPPORTED", "gather_axis 1 of uint8")),
    Case(op="GatherBlockQuantized", domain=MICROSOFT, opset=1, attrs={"block_size": 16}, dtypes=("float32",),
         inputs=[Rand((9, 32), "float8_e5m2"), Rand((2,), "int64"), Rand((9, 2)), Rand((9, 2), "float8_e5m2")],
         error=("INVALID_ARGUMENT", "zero points of float8e5m2"), name="float_zeros"),
]  # fmt: skip
