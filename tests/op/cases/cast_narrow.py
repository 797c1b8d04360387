"""Cast and CastLike from and to 8-bit floats and types of 2 and 4 bits, and BitCast."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import (
    COMPLEX,
    FIXED_SIZE,
    FLOAT8,
    INTS,
    NUMERIC,
    SMALL_FLOATS,
    SMALL_INTS,
    SUB_BYTE,
    code_of,
    from_storage,
    numpy_dtype,
    to_storage,
)
from ..harness.tolerances import EXACT

_WIDE = (*NUMERIC, "bool")
_NARROW = (*SMALL_FLOATS, *SMALL_INTS)


def _power(x: float, saturate: bool, mode: str) -> float:
    """The power of two of float8e8m0 for a number."""
    if math.isnan(x) or (not saturate and not 2.0**-127 <= x <= 2.0**127):
        return math.nan
    if not 2.0**-127 < x < 2.0**127:
        return 2.0**127 if x > 1 else 2.0**-127
    fraction, exponent = math.frexp(x)  # fraction in [0.5, 1)
    up = {"up": fraction > 0.5, "down": False, "nearest": fraction >= 0.75}[mode]
    return math.ldexp(1.0, exponent - (0 if up else 1))


def _to_narrow_float(x: np.ndarray, to: str, saturate: bool, mode: str) -> np.ndarray:
    if to == "float8_e8m0fnu":
        values = [_power(float(v), saturate, mode) for v in x.reshape(-1)]
        return np.array(values).reshape(x.shape).astype(numpy_dtype(to))
    info = ml_dtypes.finfo(to)
    limit, smallest, digits = float(info.max), int(info.minexp), int(info.nmant)
    with np.errstate(all="ignore"):  # to nearest, ties to even: ml_dtypes rounds float64 twice
        exponent = np.maximum(np.frexp(x)[1] - 1, smallest)
        unit = np.ldexp(1.0, np.where(np.isfinite(x), exponent, 0) - digits)
        rounded = np.rint(x / unit) * unit
        if to == "float4_e2m1fn" or saturate:
            rounded = np.clip(rounded, -limit, limit)
        return np.where(np.abs(rounded) > limit, np.sign(rounded) * np.inf, rounded).astype(numpy_dtype(to))


def _wrapped(x: np.ndarray, to: str) -> np.ndarray:
    """Integers keep their lowest bits."""
    bits = SUB_BYTE[to]
    low = x.astype(np.int64) & (2**bits - 1)
    if to.startswith("int"):
        low = np.where(low >= 2 ** (bits - 1), low - 2**bits, low)
    return low.astype(numpy_dtype(to))


def _convert(x: np.ndarray, to: str, saturate: int = 1, round_mode: str = "up") -> np.ndarray:
    if to in SMALL_FLOATS:
        return _to_narrow_float(x.astype(np.float64), to, bool(saturate), round_mode)
    if to == "bool":
        return x.astype(np.float64) != 0
    if x.dtype.kind == "f":
        if to in FIXED_SIZE and to not in INTS:
            return x.astype(numpy_dtype(to))
        limits = np.iinfo(np.int32 if to in SMALL_INTS else to)
        whole = [0 if math.isnan(v) else int(min(max(v, limits.min), limits.max)) for v in x.reshape(-1)]
        x = np.array(whole, dtype=limits.dtype).reshape(x.shape)
    if to in SMALL_INTS:
        return _wrapped(x, to)
    return x.astype(np.int64).astype(numpy_dtype(to))


def _to(to: str) -> Callable[..., Any]:
    def convert(x: np.ndarray, *_: Any, **attrs: Any) -> np.ndarray:
        attrs.pop("to", None)
        return _convert(x, to, **attrs)

    return convert


def _cast(to: str, source: Rand | Of | np.ndarray, attrs: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(op="Cast", inputs=[source], attrs={"to": code_of(to)} | (attrs or {}), outputs=[to], expected=_to(to),
                tolerance=EXACT, **more)  # fmt: skip


_HARD = [0.0, -0.0, 1e-9, 2e-3, -3e-3, 0.0546, 0.25, 0.75, 1.3, -2.5, 3.5, 5.1, 7.0, -17.0, 231.9, 247.9, 448.0, 464.0,
         464.1, 57344.0, 61440.0, 1e6, -1e6, 2.0**-127, 1.5 * 2.0**-127, 3e38, np.inf, -np.inf, np.nan]  # fmt: skip

CASES = [
    *(_cast(to, Rand((5, 33)), dtypes=(*_WIDE, *_NARROW), name=f"to_{to}") for to in _NARROW),
    *(_cast(to, Rand((5, 33)), dtypes=_NARROW, name=f"to_{to}") for to in _WIDE),
    *(_cast(to, Of(_HARD), {"saturate": saturate}, dtypes=("float32", "float64", "bfloat16"),
            name=f"hard_to_{to}_saturate{saturate}")
      for to in SMALL_FLOATS for saturate in (0, 1)),
    *(_cast(to, Rand((1000,), low=-70, high=70), dtypes=("float32", "float16"), name=f"rounded_to_{to}")
      for to in SMALL_FLOATS),
    # the nearest fp32 is a tie that lies on the other side
    _cast("float8_e4m3fn", Of([1 + 2**-4 + 2**-40, 1 + 2**-4 - 2**-40, -1 - 2**-4 - 2**-40]), dtypes=("float64",),
          name="once_rounded"),
    *(_cast("float8_e8m0fnu", Rand((64,), low=0.01, high=100), {"round_mode": mode, "saturate": saturate},
            dtypes=("float32",), name=f"powers_{mode}_saturate{saturate}")
      for mode in ("up", "down", "nearest") for saturate in (0, 1)),
    *(_cast("float8_e8m0fnu", Of([*_HARD, 1.0, 2.0, 1.4999, 1.5, 3.0, 2.0**-126, 1.7e38]),
            {"round_mode": mode, "saturate": saturate},
            dtypes=("float32",), name=f"hard_powers_{mode}_saturate{saturate}")
      for mode in ("up", "down", "nearest") for saturate in (0, 1)),
    *(_cast(to, Rand((77,), full=True), dtypes=("int64", "uint8", "int32", *SMALL_INTS), name=f"full_range_to_{to}")
      for to in (*SMALL_INTS, "uint64", "int8")),
    # every code
    *(_cast("float32", np.arange(256, dtype=np.uint8).view(numpy_dtype(name)), name=f"codes_of_{name}")
      for name in (*FLOAT8, "float8_e8m0fnu")),
    _cast("float64", Of(np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn), "float4_e2m1fn"),
          name="codes_of_float4"),
    *(_cast(to, Rand(shape), dtypes=("float32",))
      for to in ("int4", "int2", "float8_e5m2") for shape in ((), (0,), (1,), (3,), (6,), (4097,), (3, 8193))),
    *(_cast("float16", Rand(shape), dtypes=("uint4", "uint2")) for shape in ((), (0,), (2,), (7,), (4099,))),
    *(_cast(to, Rand((3, 5)), dtypes=(source,), opset=opset, name=f"versions_{source}_to_{to}")
      for source, to, opset in (("float32", "float8_e4m3fn", "19+"), ("float8_e5m2", "float32", "19+"),
                                ("int4", "float16", "21+"), ("float32", "uint4", "21+"),
                                ("float4_e2m1fn", "float32", "23+"), ("float8_e8m0fnu", "float32", "24+"))),
    *(Case(op="CastLike", inputs=[Rand((3, 7)), Rand((2,), to)], outputs=[to], expected=_to(to), tolerance=EXACT,
           dtypes=("float32", "float8_e4m3fn", "int4"), name=f"like_{to}")
      for to in _NARROW),
    Case(op="CastLike", inputs=[Rand((3, 7)), Rand((2,), "float16")], outputs=["float16"], expected=_to("float16"),
         tolerance=EXACT, dtypes=_NARROW, name="like_float16"),
    Case(op="CastLike", inputs=[Of(_HARD), Rand((2,), "float8_e5m2")], outputs=["float8_e5m2"], attrs={"saturate": 0},
         expected=_to("float8_e5m2"), tolerance=EXACT, dtypes=("float32",), opset="19+", name="like_unsaturated"),
    Case(op="Cast", inputs=[Rand((3,))], attrs={"to": 24, "round_mode": "odd"}, outputs=["float8_e8m0fnu"],
         dtypes=("float32",), error=("INVALID_ARGUMENT", "round_mode 'odd'")),
]  # fmt: skip

# Each type to the next one of its width.
_RINGS = (
    ("uint8", "int8", *FLOAT8, "float8_e8m0fnu"),
    ("uint16", "int16", "float16", "bfloat16"),
    ("uint32", "int32", "float32"),
    ("uint64", "int64", "float64", "complex64"),
    ("complex128",),
    ("uint4", "int4", "float4_e2m1fn"),
    ("uint2", "int2"),
)


def _bit_cast(source: str, to: str, shape: tuple[int, ...] = (3, 7), **more: Any) -> Case:
    def reinterpret(x: np.ndarray, **_: Any) -> np.ndarray:
        return from_storage(to_storage(x.astype(numpy_dtype(source))), to, x.shape)

    return Case(op="BitCast", inputs=[Rand(shape, source, **more)], attrs={"to": code_of(to)}, outputs=[to],
                expected=reinterpret, opset=26, tolerance=EXACT, name=f"{source}_to_{to}_{'x'.join(map(str, shape))}",
                skip={"session": "numpy has no such tensor"} if to in COMPLEX else {})  # fmt: skip


CASES += [
    *(_bit_cast(source, to) for ring in _RINGS for source, to in zip(ring, (*ring[1:], ring[0]), strict=True)),
    _bit_cast("bool", "uint8"),
    _bit_cast("int8", "bool", low=0, high=1),
    *(_bit_cast("float32", "int32", shape) for shape in ((), (0,), (1,), (1025,))),
    Case(op="BitCast", inputs=[Rand((3,))], attrs={"to": 7}, outputs=["int64"], dtypes=("float32",), opset=26,
         error=("INVALID_ARGUMENT", "float has 32 bits and int64 64"), skip={"session": "the host refuses the model"}),
    Case(op="BitCast", inputs=[Rand((3,))], attrs={"to": 8}, outputs=["float32"], dtypes=("float32",), opset=26,
         error=("NOT_SUPPORTED", "to string"), skip={"session": "the host takes no such model"}),
]  # fmt: skip
