"""Random numbers: the first call of a node with a seed, by Philox4x32-10. Their statistics: tests/session."""

import struct
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, T
from ..harness.dtypes import FLOATS, NUMERIC, code_of, numpy_dtype
from ..harness.tolerances import EXACT, Tolerance

_SKIP = {"graph": "each call draws other numbers, and none is captured"}
# One rounding of a product and a sum in float32, then one to the type.
_UNIFORM = {
    "float64": Tolerance(1, abs=1e-15, reason="the reference rounds twice"),
    "float32": Tolerance(1),
    "float16": Tolerance(0.6),
    "bfloat16": Tolerance(0.6),
}
# Near 0 a cosine of float32 has an error of its own.
_NORMAL = {
    name: Tolerance(ulps, abs=amount, reason="functions of float32 cancel where the cosine is small")
    for name, ulps, amount in (("float64", 16, 1e-14), ("float32", 16, 2e-6), ("float16", 0.6, 2e-6),
                               ("bfloat16", 0.6, 2e-6))
}  # fmt: skip


def philox(key: int, groups: np.ndarray, call: int = 0) -> np.ndarray:
    """Four words of each group."""
    group = groups.astype(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c = [group & low, group >> np.uint64(32), *(np.full_like(group, half) for half in (call & 0xFFFFFFFF, call >> 32))]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), second & low,
             (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), first & low]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, -1)


def key_of(seed: float) -> int:
    """A seed that is a float counts by its bits."""
    return int(struct.unpack("<I", struct.pack("<f", seed))[0])


def _words(key: int, elems: int, wide: bool) -> np.ndarray:
    """A word for each element, or 53 bits of two."""
    per_group = 2 if wide else 4
    words = philox(key, np.arange(-(-elems // per_group), dtype=np.int64))
    if wide:
        return (((words[:, ::2] << np.uint64(32)) | words[:, 1::2]) >> np.uint64(11)).reshape(-1)
    return words.reshape(-1)


def _uniform(key: int, shape: tuple[int, ...], wide: bool) -> np.ndarray:
    elems = int(np.prod(shape))
    words = _words(key, elems, wide)
    real = words * 2.0**-53 if wide else (words >> np.uint64(8)) * 2.0**-24
    return real[:elems].reshape(shape)


def _normal(key: int, shape: tuple[int, ...], wide: bool) -> np.ndarray:
    elems = int(np.prod(shape))
    words = _words(key, elems + 1, wide)
    words = words[: len(words) // 2 * 2]
    if wide:
        u, v = 1 - words[::2] * 2.0**-53, words[1::2] * 2.0**-53
    else:
        u = (words[::2].astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)).astype(np.float64)
        v = (words[1::2] >> np.uint64(8)) * 2.0**-24
    radius = np.sqrt(-2 * np.log(u))
    pairs = np.stack([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)], -1)
    return pairs.reshape(-1)[:elems].reshape(shape)


def _last_below(high: float, dtype: str) -> float:
    """The interval is half-open after rounding to the type too."""
    kind = numpy_dtype(dtype)
    nearest = np.asarray(high, kind)
    return float(nearest if float(nearest) < high else np.nextafter(nearest, np.asarray(-np.inf, kind)))


def _case(op: str, dtype: str, shape: tuple[int, ...], like: str = "", seed: float = 3.5, stated: bool = True,
          **more: Any) -> Case:  # fmt: skip
    """`like`: the type of the input, without which the shape is an attribute."""
    normal = op.startswith("RandomNormal")
    given = more.pop("attrs", {"mean": 0.5, "scale": 2.0} if normal else {"low": -2.0, "high": 3.0})
    attrs = {"seed": seed, **given, **({"dtype": code_of(dtype)} if stated else {})}
    wide = dtype == "float64"

    def expected(*_: Any, **__: Any) -> np.ndarray:
        if normal:
            return given.get("mean", 0) + given.get("scale", 1) * _normal(key_of(seed), shape, wide)
        low, high = given.get("low", 0), given.get("high", 1)
        return np.minimum(low + (high - low) * _uniform(key_of(seed), shape, wide), _last_below(high, dtype))

    if not like:
        attrs["shape"] = list(shape)
    return Case(op=op, inputs=[Rand(shape, like)] if like else [], attrs=attrs, expected=expected, outputs=[dtype],
                tolerance=_NORMAL if normal else _UNIFORM, skip=_SKIP,
                name=f"{dtype}_{'x'.join(map(str, shape))}_{like}_{stated}_{len(given)}", **more)  # fmt: skip


def _bernoulli(to: str, stated: bool = True) -> Any:
    def expected(p: np.ndarray, seed: float, **_: Any) -> np.ndarray:
        return (_uniform(key_of(seed), p.shape, False) < p).astype(numpy_dtype(to))

    return expected


def _chances(shape: tuple[int, ...], to: str, of: str = "float32", **more: Any) -> Case:
    return Case(op="Bernoulli", inputs=[Rand(shape, of, low=0, high=1)], attrs={"seed": 7.25, "dtype": code_of(to)},
                expected=_bernoulli(to), outputs=[to], opset="15+", skip=_SKIP, tolerance=EXACT,
                name=f"{of}_{to}_{len(shape)}", **more)  # fmt: skip


def _dropped(key: int) -> Any:
    def expected(x: np.ndarray, ratio: Any = None, *_: Any, seed: int = key, wide: bool = False) -> Any:
        drop = 0.5 if ratio is None else float(ratio)
        kept = _uniform(seed, x.shape, wide) >= drop
        return x * kept / (1 - drop), kept

    return expected


def _wide(x: np.ndarray, ratio: Any, *_: Any, seed: int) -> Any:
    return _dropped(seed)(x, ratio, seed=seed, wide=True)


_DROPOUT: dict[str, Any] = {"op": "Dropout", "attrs": {"seed": 2**40 + 12345}, "outputs": (T, "bool"), "skip": _SKIP}
_TRAINS = np.array(True)
_SCALED = {"float32": Tolerance(2), "float64": Tolerance(2)}
_RANDOM = ("RandomNormal", "RandomUniform")

CASES = [
    *(_case(op, dtype, (5, 7), opset=22) for op in _RANDOM for dtype in FLOATS),
    *(_case(op, dtype, (5, 7), opset=7) for op in _RANDOM for dtype in ("float32", "float64", "float16")),
    *(_case(op, "float32", shape, opset=22, stated=False, attrs={}) for op in _RANDOM
      for shape in ((), (0, 3), (1,), (4099,))),
    *(_case(f"{op}Like", dtype, (3, 5), like="int64", opset=22) for op in _RANDOM for dtype in FLOATS),
    *(_case(f"{op}Like", "float64", (33,), like=like, opset=22, stated=like != "float64") for op in _RANDOM
      for like in (*NUMERIC, "bool", "complex64", "complex128")),
    *(_case(f"{op}Like", dtype, (2, 3), like="float32", opset=7) for op in _RANDOM
      for dtype in ("float32", "float64", "float16")),
    *(_case("RandomUniform", "float32", (9,), seed=seed, opset=22, attrs={"low": seed}) for seed in (0.0, -1.0)),
    # Ends whose distance is no finite number, and the largest ones of narrow types.
    *(_case("RandomUniform", dtype, (700,), opset=22, attrs={"low": -end, "high": end})
      for dtype, end in (("float32", 3.4e38), ("bfloat16", 3.38e38), ("float16", 65504.0))),
    # Some of these numbers are nearer to the end than to any number of the type below it.
    *(_case("RandomUniform", dtype, (20000,), opset=22, attrs={"low": low, "high": high}, seed=1.5)
      for dtype in ("float16", "bfloat16") for low, high in ((1.0, 2.0), (-1.0, 0.0), (-3.0, -2.0))),
    # Bernoulli: every type of both
    *(_chances((3, 13), to) for to in (*NUMERIC, "bool")),
    *(_chances((70,), "float32", of) for of in ("float16", "bfloat16")),
    Case(op="Bernoulli", inputs=[Rand((70,), "float64", low=0, high=1)], attrs={"seed": 7.25}, opset="15+", skip=_SKIP,
         outputs=["float64"], tolerance=EXACT,
         expected=lambda p, seed: (_uniform(key_of(seed), p.shape, True) < p) * 1.0),
    Case(op="Bernoulli", inputs=[Of([0, 1, np.nan, 1, 0, 1, 1, 0, 1], "float32")], attrs={"seed": 1.0}, skip=_SKIP,
         outputs=["float32"],
         expected=lambda p, seed: np.nan_to_num(p), tolerance=EXACT, name="certain"),
    _chances((0,), "int32"), _chances((), "uint8"),
    # Dropout in training
    *(Case(**_DROPOUT, inputs=[Rand((3, 13)), Of(0.25, ratio), _TRAINS], expected=_dropped(0), opset="12+",
           dtypes=("float32", "float16", "bfloat16"), tolerance=_SCALED, name=f"trains_{ratio}") for ratio in FLOATS),
    Case(**_DROPOUT, inputs=[Rand((131,)), Of(0.75, "float32"), _TRAINS], expected=_wide, dtypes=("float64",),
         tolerance=_SCALED),
    Case(**_DROPOUT, inputs=[Rand((50,)), None, _TRAINS], expected=_dropped(0), dtypes=("float32",), tolerance=_SCALED),
    *(Case(**_DROPOUT, inputs=[Rand(shape), Of(0.0, "float32"), _TRAINS], dtypes=("float32",), tolerance=EXACT,
           expected=lambda x, *_, **__: (x, np.ones_like(x, bool))) for shape in ((9,), (0, 2), ())),
    Case(op="Dropout", inputs=[Rand((3, 5)), Of(0.4, "float32"), np.array(False)], dtypes=FLOATS, outputs=(T, "bool"),
         opset="12+", expected=lambda x, *_: (x, np.ones_like(x, bool)), name="runs"),
    # refusals
    *(Case(op="RandomUniform", inputs=[], attrs={"shape": [2], end: value, "dtype": code_of(dtype)}, outputs=[dtype],
           name=f"{end}_{value}_{dtype}", error=("INVALID_ARGUMENT", f"attribute {end} is "), opset=22,
           skip={"session": "the host's own kernel takes it"})
      for dtype, end, value in (("float16", "high", 7e4), ("float16", "low", -7e4), ("bfloat16", "high", 3.4e38),
                                ("float32", "high", float("inf")), ("float64", "low", float("nan")))),
    Case(op="RandomNormal", inputs=[], attrs={"shape": [2, -1]}, outputs=["float32"], name="shape",
         error=("INVALID_ARGUMENT", "negative"), skip={"session": "the host refuses it first"}),
    Case(op="RandomUniformLike", inputs=[Rand((2,), "int32")], outputs=["int32"], name="type",
         error=("NOT_SUPPORTED", "output of int32"), skip={"session": "the host refuses it first"}),
    Case(op="Dropout", inputs=[Rand((3,), "float32"), Of(1.0, "float32"), _TRAINS],
         error=("INVALID_ARGUMENT", "ratio 1 must be in [0, 1)"), name="ratio"),
    Case(op="Dropout", inputs=[Rand((3,), "float32"), Of([0.1, 0.2], "float32"), _TRAINS],
         error=("INVALID_ARGUMENT", "ratio [2] must be one"), name="ratios"),
    Case(op="Dropout", inputs=[Rand((3,), "float32"), None, np.array([True, False])],
         error=("INVALID_ARGUMENT", "training_mode [2] must be one"), name="modes"),
    Case(op="Dropout", inputs=[Rand((3,), "float8_e4m3fn"), None, _TRAINS], name="float8",
         error=("NOT_SUPPORTED", "input training_mode with"), skip={"session": "no CPU kernel either"}),
]  # fmt: skip
