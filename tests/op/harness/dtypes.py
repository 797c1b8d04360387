"""Element types by numpy name, with their ONNX codes and type strings."""

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
}
_NAME_OF_CODE = {code: name for name, (code, _) in _TABLE.items()}
_NAME_OF_TYPE = {f"tensor({text})": name for name, (_, text) in _TABLE.items()}

FLOATS = ("float32", "float16", "bfloat16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTS
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
COMPLEX = ("complex64", "complex128")
FIXED_SIZE = (*NUMERIC, "bool", *COMPLEX, *FLOAT8)  # all that data movement can carry
NARROW = ("float16", "bfloat16", *FLOAT8)  # computed in float32


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
    return np.dtype(getattr(ml_dtypes, name)) if name in ("bfloat16", *FLOAT8) else np.dtype(name)


def name_of(array: np.ndarray) -> str:
    """Name of an array's type."""
    return array.dtype.name


def is_float(name: str) -> bool:
    """Whether a type is a real floating point type."""
    return name in FLOATS or name in FLOAT8
