"""GridSample and AffineGrid: images and volumes, every mode and padding, places outside."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance
from ..harness.dtypes import COMPLEX, FLOATS, NUMERIC
from ..harness.tolerances import EXACT

# Places are computed in the type of the image, at most fp32 for 16 bits: an ulp of a place is an error of the weights.
_WEIGHTS = {
    "float64": Tolerance(8, terms=64),
    "float32": Tolerance(8, terms=64),
    "float16": Tolerance(1, terms=64),
    "bfloat16": Tolerance(1, terms=64),
}


def _largest(x: np.ndarray, *_: Any, **__: Any) -> Any:
    return 2 * np.abs(x).max(initial=0)


def _factors(theta: np.ndarray, *_: Any, **__: Any) -> Any:
    return 4 * np.abs(theta).max(initial=0)


def _pixel(i: int, size: int, padding: str, align: bool) -> int:
    """The pixel that counts for index i, -1 for none."""
    if 0 <= i < size:
        return i
    if padding == "zeros":
        return -1
    if padding == "border":
        return min(max(i, 0), size - 1)
    period = max(2 * (size - 1) if align else 2 * size, 1)
    i %= period
    return i if i < size else (period - i if align else period - 1 - i)


def _cubic(f: float) -> list[float]:
    a = -0.75
    outer = [a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a for t in (f + 1, 2 - f)]
    inner = [(a + 2) * t**3 - (a + 3) * t**2 + 1 for t in (f, 1 - f)]
    return [outer[0], *inner, outer[1]]


def _taps(value: Any, size: int, mode: str, padding: str, align: bool) -> list[tuple[int, float]]:
    """Pixels and weights along one dimension."""
    at = (value + 1) / 2 * (size - 1) if align else ((value + 1) * size - 1) / 2
    if mode == "nearest":
        at = np.rint(at)
    low = int(np.floor(at))
    f = at - low
    weights = {"nearest": [1.0], "linear": [1 - f, f], "cubic": _cubic(f)}[mode]
    first = low - 1 if mode == "cubic" else low
    return [(_pixel(first + i, size, padding, align), weight) for i, weight in enumerate(weights)]


def _sample(x: Any, grid: Any, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Any:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for place in np.ndindex(x.shape[0], *grid.shape[1:-1]):
        values = grid[place][::-1]
        taps = [_taps(v, s, mode, padding_mode, align_corners == 1) for v, s in zip(values, x.shape[2:], strict=True)]
        for choice in np.ndindex(*map(len, taps)):
            picked = [taps[d][i] for d, i in enumerate(choice)]
            if min(pixel for pixel, _ in picked) >= 0:
                value = x[(place[0], slice(None), *(pixel for pixel, _ in picked))]
                if mode != "nearest":
                    value = value * np.prod([weight for _, weight in picked])
                y[(place[0], slice(None), *place[1:])] += value
    return y


def _grid_sample(x: tuple[int, ...], points: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",), opset: Any = 22,
                 grid: str | None = None, reach: float = 1.4, name: str = "", **attrs: Any) -> Case:  # fmt: skip
    label = "x".join(map(str, x)) + "_" + "x".join(map(str, points)) + "".join(f",{k}={v}" for k, v in attrs.items())
    more = {"tolerance": EXACT} if attrs.get("mode") == "nearest" else {"tolerance": _WEIGHTS, "magnitude": _largest}
    places = Rand((x[0], *points, len(x) - 2), grid or "T", low=-reach, high=reach)
    return Case(op="GridSample", inputs=[Rand(x), places], attrs=attrs, dtypes=dtypes, opset=opset,
                expected=attrs.pop("expected", _sample), name=name or label, **more)  # fmt: skip


_MODES = ("nearest", "linear", "cubic")
_PADDINGS = ("zeros", "border", "reflection")
# Exact in every type, and beside the places where nearest changes.
_PLACES = [[[[-0.9, -0.7], [0.25, 0.45], [0.95, -0.3], [1.25, 0.1], [-1.5, 0.75], [0.55, -1.65]]]]
_ANY_TYPE = (*NUMERIC, "bool", *COMPLEX)


def _affine(theta: Any, size: Any = None, align_corners: int = 0) -> Any:
    sizes = [int(s) for s in size[2:]]
    axes = []
    for n in sizes:
        i = np.arange(n)
        axes.append((2 * i / max(n - 1, 1) if align_corners else (2 * i + 1) / n) - 1)
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    return np.einsum("nij,...j->n...i", theta, places)


CASES = [
    *(_grid_sample((2, 3, 5, 6), (4, 7), mode=mode, padding_mode=padding, align_corners=align)
      for mode in _MODES for padding in _PADDINGS for align in (0, 1)),
    *(_grid_sample((2, 2, 3, 4, 5), (2, 3, 4), mode=mode, padding_mode=padding, align_corners=align)
      for mode in _MODES for padding in _PADDINGS for align in (0, 1)),
    # As the CPU provider has it.
    *(Case(op="GridSample", inputs=[Rand((2, 3, 5, 6)), Rand((2, 4, 7, 2), low=-1.6, high=1.6)], dtypes=("float32",),
           attrs={"mode": mode, "padding_mode": padding, "align_corners": align}, opset=opset, expected="ort_cpu",
           tolerance=_WEIGHTS, magnitude=_largest, name=f"as_cpu-{mode}-{padding}-{align}")
      for opset, modes in ((16, ("nearest", "bilinear", "bicubic")), (20, ("linear", "cubic")))
      for mode in modes for padding in _PADDINGS for align in (0, 1)),
    *(_grid_sample((1, 2, 3, 4), (5, 6), reach=9.0, mode=mode, padding_mode="reflection", align_corners=align,
                   name=f"far-{mode}-{align}")
      for mode in _MODES for align in (0, 1)),
    # Types of image and grid.
    *(_grid_sample((2, 3, 5, 6), (4, 7), FLOATS, opset=opset, mode=mode, name=f"types-{mode}")
      for opset, modes in ((16, ("bilinear", "bicubic")), (20, ("linear", "cubic")), (22, ("linear", "cubic")))
      for mode in modes),
    *(_grid_sample((2, 2, 3, 4, 5), (2, 3, 4), ("float16", "float64"), mode=mode, name=f"types_3d-{mode}")
      for mode in ("linear", "cubic")),
    *(_grid_sample((2, 3, 5, 6), (4, 7), ("float32", "float16"), grid=grid, name=f"grid-{grid}") for grid in FLOATS),
    Case(op="GridSample", inputs=[Rand((1, 3, 5, 6), full=True), Of(_PLACES, "float32")], attrs={"mode": "nearest"},
         dtypes=_ANY_TYPE, opset="16+", expected=_sample, tolerance=EXACT, name="nearest_of_any_type"),
    Case(op="GridSample", inputs=[Rand((1, 3, 5, 6)), Of(_PLACES, "float64")], attrs={"mode": "nearest"},
         dtypes=("float32", "int8"), expected=_sample, tolerance=EXACT, name="nearest_by_double"),
    *(Case(op="GridSample", domain=MICROSOFT, opset=1, outputs=("T",),
           inputs=[Rand((2, 3, 5, 6)), Rand((2, 4, 7, 2), low=-1.4, high=1.4)],
           attrs={"mode": mode, "padding_mode": padding}, dtypes=("float32", "float16", "float64"),
           expected=_sample, tolerance=_WEIGHTS, magnitude=_largest)
      for mode, padding in (("bilinear", "zeros"), ("bicubic", "border"), ("bilinear", "reflection"))),
    # Sizes.
    _grid_sample((1, 1, 1, 1), (1, 1)),
    _grid_sample((1, 1, 1, 1), (3, 3), align_corners=1, padding_mode="reflection"),
    _grid_sample((1, 300, 3, 4), (2, 2)),
    _grid_sample((1, 2, 9, 11), (20, 30)),
    _grid_sample((0, 3, 5, 6), (4, 7)),
    _grid_sample((2, 3, 5, 6), (0, 7)),
    _grid_sample((2, 0, 5, 6), (3, 7)),
    *(Case(op="GridSample", inputs=[Rand(x), Rand(grid)], dtypes=(dtype,), attrs=attrs, error=(code, text),
           opset=20, name=f"refused_{text}")
      for x, grid, dtype, attrs, code, text in [
          ((1, 2, 3, 4), (1, 5, 6, 2), "float32", {"mode": "area"}, "INVALID_ARGUMENT", "mode is 'area'"),
          ((1, 2, 3, 4), (1, 5, 6, 2), "float32", {"padding_mode": "wrap"}, "INVALID_ARGUMENT", "is 'wrap'"),
          ((1, 2, 3, 4), (1, 5, 6, 3), "float32", {}, "INVALID_ARGUMENT", "grid [1,5,6,3] does not fit X [1,2,3,4]"),
          ((2, 2, 3, 4), (1, 5, 6, 2), "float32", {}, "INVALID_ARGUMENT", "does not fit X [2,2,3,4]"),
          ((1, 2, 0, 4), (1, 5, 6, 2), "float32", {}, "INVALID_ARGUMENT", "is empty and has no samples"),
          ((1, 2, 3), (1, 5, 1), "float32", {}, "NOT_SUPPORTED", "X with 3 dimensions"),
      ]),
    Case(op="GridSample", inputs=[Rand((1, 2, 3, 4)), Rand((1, 5, 6, 2), "float32")], dtypes=("int32",), opset=20,
         error=("NOT_SUPPORTED", "interpolation of element type int32"), skip={"session": "no CPU kernel either"}),
    Case(op="GridSample", domain=MICROSOFT, opset=1, inputs=[Rand((1, 2, 3, 4)), Rand((1, 5, 6, 2))],
         outputs=("float64",), dtypes=("float32",), error=("NOT_SUPPORTED", "samples of float as double"),
         skip={"session": "no CPU kernel either"}),
    *(Case(op="AffineGrid", inputs=[Rand((2, 2, 3)), Of([2, 3, h, w], "int64")], attrs={"align_corners": align},
           dtypes=FLOATS if w == 5 else ("float32",), expected=_affine, magnitude=_factors, tolerance=_WEIGHTS,
           name=f"2d-{h}x{w}-{align}")
      for h, w in ((4, 5), (1, 1), (7, 300), (0, 3)) for align in (0, 1)),
    *(Case(op="AffineGrid", inputs=[Rand((2, 3, 4)), Of([2, 3, 3, 4, 5], "int64")], attrs={"align_corners": align},
           dtypes=("float32", "float16"), expected=_affine, magnitude=_factors, tolerance=_WEIGHTS,
           name=f"3d-{align}")
      for align in (0, 1)),
    *(Case(op="AffineGrid", inputs=[Rand(theta), Of(size, "int64")], dtypes=("float32",),
           error=("INVALID_ARGUMENT", text), name=f"refused_{text}")
      for theta, size, text in [
          ((2, 2, 3), [2, 3, 4], "size [2,3,4] must have four or five"),
          ((2, 3, 4), [2, 3, 4, 5], "theta has shape [2,3,4], expected [2,2,3]"),
      ]),
]  # fmt: skip
