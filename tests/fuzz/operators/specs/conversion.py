"""Casts, Resize and Upsample."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.op.cases import cast_narrow
from tests.op.harness.dtypes import SUB_BYTE, code_of, is_float, numpy_dtype
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node


def _castable(d: Draw, source: str, target: str) -> np.ndarray:
    """Values that the target can hold where it is an integer: what others become is open; so are NaN and infinities."""
    shape = d.elements()
    if source == "bool" or target == "bool" or is_float(target):
        if is_float(source) or source == "bool":
            return d.values(source, shape, -4, 4)
        return d.values(source, shape)
    to: Any = ml_dtypes.iinfo(numpy_dtype(target))
    if not is_float(source):
        return d.values(source, shape)  # wraps
    low, high = max(int(to.min), -60), min(int(to.max), 60)
    return np.clip(d.values(source, shape, low, high, specials=False), low, high).astype(numpy_dtype(source))


def _cast(d: Draw) -> Node:
    source, target = d.type("T1"), d.type("T2")
    attrs = {"to": code_of(target)}
    if "saturate" in d.schema.attributes and target.startswith("float8"):
        attrs.update(d.attrs(saturate=[0, 1, None]))
    formula = None
    if source == "float8_e8m0fnu" and target in SUB_BYTE:  # no one else has the two together

        def formula(x: np.ndarray, **_: Any) -> np.ndarray:
            return cast_narrow._convert(x.astype(np.float64), target)

    return Node([_castable(d, source, target)], attrs, widen=False, formula=formula)


def _cast_like(d: Draw) -> Node:
    source, target = d.type("T1"), d.type("T2")
    return Node([_castable(d, source, target), d.values(target, d.dims(1))], widen=False)


def _bit_cast(d: Draw) -> Node:
    source = d.type("T1")
    width = np.dtype(numpy_dtype(source)).itemsize
    packed = ("int4", "uint4", "float4_e2m1fn", "int2", "uint2")
    allowed = sorted(d.schema.types["T2"] & d.row.types.get("T2", d.schema.types["T2"]))
    alike = [
        name for name in allowed
        if np.dtype(numpy_dtype(name)).itemsize == width and name != "bool" and not name.startswith("complex")
        and name not in packed
    ]  # fmt: skip
    if source in packed or source == "bool" or not alike:
        alike = [source]
    return Node([d.moved(source, d.elements())], {"to": code_of(d.pick(alike))}, widen=False)


_HOST_RESIZES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8")  # or in float32
_WHERE = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
# Coordinates are computed in float32: an ulp of one is an error of the weights, which are up to some 1.
_WEIGHTS = Tolerance(4, terms=64, abs=1e-5, reason="weights of float32 coordinates, times values up to 1")
# What float32 holds exactly, so that a coordinate lies on the same side of a tie for everyone.
_SCALES = (0.5, 1.0, 2.0, 4.0, 0.25, 1.5, 3.0)


def _resize(d: Draw) -> Node:
    # Integers of moderate size: the reference interpolates in float64, also where it need not.
    rank = d.pick([2, 3, 4, 4])
    dtype = d.type(d.schema.inputs[0].type)
    mode = d.pick(["nearest", "nearest", "linear", "cubic"] if d.version >= 11 else ["nearest", "linear"])
    if not is_float(dtype):
        mode = "nearest"  # how others round to an integer is not said
    shape = d.dims(rank, 2, elems=300)
    moving = list(range(rank))[-(d.integer(1, 2)) :] if mode != "nearest" else d.subset(range(rank), 1)
    if mode == "cubic":  # the CPU provider and the reference know it of the last two of four dimensions
        rank, moving = 4, [2, 3]
        shape = [1, 2, *d.dims(2, 2, elems=100)]
    attrs: dict[str, Any] = {"mode": mode}
    scales = np.ones(rank, np.float32)
    for axis in moving:
        scales[axis] = d.pick(_SCALES)
    if d.version < 11:
        x = d.values(dtype, shape, -1, 1, specials=False) if is_float(dtype) else d.values(dtype, shape, full=False)
        scales = np.maximum(scales, 1) if d.row.op == "Upsample" else scales
        return Node([x, scales], attrs, keep=frozenset({1}), tolerance=_WEIGHTS)
    attrs["coordinate_transformation_mode"] = where = d.pick(_WHERE[:1] + _WHERE[2:] if d.version < 19 else _WHERE)
    if mode == "nearest":
        attrs.update(d.attrs(nearest_mode=["floor", "ceil", "round_prefer_floor", "round_prefer_ceil", None]))
        if where in ("align_corners", "half_pixel_symmetric"):  # a quotient that float32 rounds across a tie
            attrs["coordinate_transformation_mode"] = "asymmetric"
    # The reference alone has other types, and it takes one pixel for several where the scale makes it a fraction more.
    if where == "pytorch_half_pixel" and dtype not in _HOST_RESIZES:
        attrs["coordinate_transformation_mode"] = "half_pixel"
    if mode == "cubic":
        attrs.update(d.attrs(cubic_coeff_a=[-0.75, -0.5, None], exclude_outside=[0, 1, None]))
    if d.version >= 18 and mode != "nearest":
        attrs.update(d.attrs(antialias=[0, 0, 1, None]))
    x = d.values(dtype, shape, -1, 1, specials=False) if is_float(dtype) else d.values(dtype, shape, full=False)
    keep = frozenset({1, 2})
    if d.chance(0.3) and mode != "nearest":
        sizes = np.array([max(1, int(n * s)) for n, s in zip(shape, scales, strict=True)], np.int64)
        return Node([x, None, None, sizes], attrs, keep=keep, tolerance=_WEIGHTS)
    roi = np.zeros(0, np.float32) if d.version < 13 or d.chance(0.2) else None
    return Node([x, roi, scales], attrs, keep=keep, tolerance=_WEIGHTS)


def _upsample(d: Draw) -> Node:
    if d.version >= 9:
        return _resize(d)
    dtype = d.type("T")
    shape = d.dims(4, 1, elems=300)
    scales = [1.0, 1.0, d.pick([1.0, 2.0, 3.0]), d.pick([1.0, 2.0, 1.5])]
    mode = d.pick(["nearest", "linear"]) if is_float(dtype) else "nearest"
    return Node([d.values(dtype, shape, -1, 1, specials=False)], {"mode": mode, "scales": scales}, tolerance=_WEIGHTS)


SPECS = {
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast_like,
    ("", "BitCast"): _bit_cast,
    ("", "Resize"): _resize,
    ("", "Upsample"): _upsample,
}
