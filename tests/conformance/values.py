"""Values between ONNX's messages, the host and numpy, for all element types, those of two and four bits too."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime as ort

from tests.op.harness.dtypes import FLOATS, INTS

from .node_cases import Proto

_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Types whose elements share bytes: how many lie in one.
_PER_BYTE = {
    **dict.fromkeys((onnx.TensorProto.UINT4, onnx.TensorProto.INT4, onnx.TensorProto.FLOAT4E2M1), 2),
    **dict.fromkeys((onnx.TensorProto.UINT2, onnx.TensorProto.INT2), 4),
}
_PLAIN = {np.dtype(name) for name in (*FLOATS, *INTS, "bool") if name != "bfloat16"}


class CannotFeedError(Exception):
    """A value that the host's Python interface does not take."""


def to_host(proto: Proto, *, plain: bool) -> Any:
    """What a session of the host is fed with: an OrtValue, or a numpy array or a list of them if it must be `plain`."""
    if isinstance(proto, onnx.TensorProto) and not plain:
        return _tensor(proto)
    return to_numpy(proto)


def to_numpy(proto: Proto) -> Any:
    """The expected value: an array, a list of values, or None."""
    if isinstance(proto, onnx.TensorProto):
        return onnx.numpy_helper.to_array(proto)
    if isinstance(proto, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(proto)
    return onnx.numpy_helper.to_optional(proto)


def from_host(value: ort.OrtValue) -> Any:
    """A copy of what a session gave."""
    if not value.has_value():
        return None
    code, shape = value.element_type(), list(value.shape())
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    if code == onnx.TensorProto.STRING or dtype in _PLAIN:
        return np.array(value.numpy())
    count = int(np.prod(shape, dtype=np.int64))
    per_byte = _PER_BYTE.get(code, 1)
    size = -(-count // per_byte) * (dtype.itemsize if per_byte == 1 else 1)
    raw = bytes((ctypes.c_uint8 * size).from_address(value.data_ptr())) if size else b""
    return onnx.numpy_helper.to_array(onnx.TensorProto(dims=shape, data_type=code, raw_data=raw))


def difference(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """Why two values are not equal within the tolerance; empty when they are."""
    if expected is None or actual is None:
        return "" if expected is actual else f"{actual} instead of {expected}"
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"a sequence of {len(expected)} was expected"
        return next(filter(None, (difference(a, e, rtol, atol) for a, e in zip(actual, expected, strict=True))), "")
    a, e = np.asarray(actual), np.asarray(expected)
    if a.shape != e.shape:
        return f"shape {a.shape} instead of {e.shape}"
    if e.dtype.kind in "OSU" or a.dtype.kind in "OSU":
        return "" if a.astype(str).tolist() == e.astype(str).tolist() else "other text"
    if a.dtype != e.dtype:
        return f"type {a.dtype} instead of {e.dtype}"
    half = e.dtype in (np.float16, ml_dtypes.bfloat16)
    wide = np.complex128 if e.dtype.kind == "c" else np.float64
    if e.dtype.kind not in "iub":
        a, e = a.astype(wide), e.astype(wide)
    if half:  # another order of roundings is a unit or two away
        rtol = max(rtol, 2 * float(ml_dtypes.finfo(expected.dtype).eps))
    close = np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True) if e.dtype.kind in "fc" else a == e
    if np.all(close):
        return ""
    at = tuple(int(i) for i in np.argwhere(~np.asarray(close))[0])
    return f"{int(np.sum(~np.asarray(close)))} of {e.size} values differ, at {at} {a[at]} instead of {e[at]}"


def _tensor(proto: onnx.TensorProto) -> ort.OrtValue:
    code = proto.data_type
    array = onnx.numpy_helper.to_array(proto)
    if array.dtype in _PLAIN:
        return ort.OrtValue.ortvalue_from_numpy(np.array(array))
    if code in (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
        raise CannotFeedError(f"elements of type {onnx.TensorProto.DataType.Name(code)}")
    if code in _PER_BYTE:
        # The host reads the packed bytes from the front of a buffer that has one byte an element.
        packed = onnx.numpy_helper.from_array(array).raw_data
        holder = np.zeros(array.shape, np.uint8)
        holder.reshape(-1)[: len(packed)] = np.frombuffer(packed, np.uint8)
    else:
        holder = np.array(array).view(_WIDTHS[array.dtype.itemsize])
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(holder, code)
