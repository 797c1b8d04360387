"""Element types by numpy name, with their ONNX codes and type strings."""

import functools
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

# name -> (code in TensorProto.DataType, name inside ONNX's "tensor(...)")
_TABLE: dict[str, tuple[int, str]] = {
    "float32": (1, "float"),
    "uint8": (2, "uint8"),
    "int8": (3, "int8"),
    "uint16": (4, "uint16"),
    "int16": (5, "int16"),
    "int32": (6, "int32"),
    "int64": (7, "int64"),
    "bool": (9, "bool"),
    "float16": (10, "float16"),
    "float64": (11, "double"),
    "uint32": (12, "uint32"),
    "uint64": (13, "uint64"),
    "complex64": (14, "complex64"),
    "complex128": (15, "complex128"),
    "bfloat16": (16, "bfloat16"),
    "float8_e4m3fn": (17, "float8e4m3fn"),
    "float8_e4m3fnuz": (18, "float8e4m3fnuz"),
    "float8_e5m2": (19, "float8e5m2"),
    "float8_e5m2fnuz": (20, "float8e5m2fnuz"),
    "uint4": (21, "uint4"),
    "int4": (22, "int4"),
    "float4_e2m1fn": (23, "float4e2m1"),
    "float8_e8m0fnu": (24, "float8e8m0"),
    "uint2": (25, "uint2"),
    "int2": (26, "int2"),
}
_NAME_OF_CODE = {code: name for name, (code, _) in _TABLE.items()}
_NAME_OF_TYPE = {f"tensor({text})": name for name, (_, text) in _TABLE.items()}

_EXTENSIONS = {"bfloat16", *(name for name, (code, _) in _TABLE.items() if code >= 17)}  # of ml_dtypes

FLOATS = ("float32", "float16", "bfloat16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTS
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
SUB_BYTE = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}  # bits; numpy takes a byte for each
SMALL_INTS = ("uint4", "int4", "uint2", "int2")
SMALL_FLOATS = (*FLOAT8, "float8_e8m0fnu", "float4_e2m1fn")
COMPLEX = ("complex64", "complex128")
FIXED_SIZE = (*NUMERIC, "bool", *COMPLEX, *FLOAT8)  # all that data movement can carry
STORED = (*FIXED_SIZE, *SUB_BYTE, "float8_e8m0fnu")  # all that a tensor can hold
NARROW = ("float16", "bfloat16", *SMALL_FLOATS)  # computed in float32


def code_of(name: str) -> int:
    """ONNX code of a type; 0 for an absent tensor, whose name is empty."""
    return _TABLE[name][0] if name else 0


def name_of_code(code: int) -> str:
    """Name of the type with an ONNX code; empty for codes without a fixed size."""
    return _NAME_OF_CODE.get(code, "")


def name_of_type(text: str) -> str:
    """Name of ONNX's "tensor(...)" type; empty for anything else (strings, sequences)."""
    return _NAME_OF_TYPE.get(text, "")


def numpy_dtype(name: str) -> np.dtype:
    """The numpy type, an extension type for those numpy lacks."""
    return np.dtype(getattr(ml_dtypes, name)) if name in _EXTENSIONS else np.dtype(name)


def bits_of(name: str) -> int:
    """Bits of an element as tensors store it; 0 for an absent tensor, whose name is empty."""
    return SUB_BYTE.get(name) or (numpy_dtype(name).itemsize * 8 if name else 0)


def name_of(array: np.ndarray) -> str:
    """Name of an array's type."""
    return _name(array.dtype)


@functools.cache  # numpy makes it anew each time
def _name(dtype: np.dtype) -> str:
    return dtype.name


def is_float(name: str) -> bool:
    """Whether a type is a real floating point type."""
    return name in FLOATS or name in SMALL_FLOATS


def to_storage(array: np.ndarray) -> np.ndarray:
    """The bytes of an array as the runtime stores it: elements of 2 and 4 bits share one, the first in its lowest."""
    bits = SUB_BYTE.get(name_of(array))
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if bits is None:
        return flat
    codes = np.zeros(-(-flat.size * bits // 8) * (8 // bits), np.uint8)
    codes[: flat.size] = flat & (2**bits - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    packed: np.ndarray = np.bitwise_or.reduce(codes.reshape(-1, 8 // bits) << shifts, axis=1).astype(np.uint8)
    return packed


def from_storage(raw: np.ndarray, name: str, shape: Sequence[int]) -> np.ndarray:
    """The array of a type and shape that `raw` bytes store."""
    bits = SUB_BYTE.get(name)
    if bits is not None:
        codes = (raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & (2**bits - 1)
        if name in ("int4", "int2"):  # numpy's form extends the sign
            codes = np.where(codes >> (bits - 1), codes | (256 - 2**bits), codes)
        raw = codes.reshape(-1)[: math.prod(shape)].astype(np.uint8)
    values: np.ndarray = raw.view(numpy_dtype(name)).reshape(shape)
    return values
