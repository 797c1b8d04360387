"""Products around a layer normalisation, which compiled regions make: MatMulNorm and NormedMatMul.

Rows that are kept for the products that read them are gamma * y / 2 in y's place, with mean and variance of each 32
elements of y; numbers here are such that both are exact.
"""

from typing import Any

import numpy as np

from ..harness import Case, Tolerance
from ..harness.dtypes import numpy_dtype
from ..harness.schemas import FUSED_DOMAIN
from .fused_matmul import _ACTIVATIONS

_EPSILON, _SCALE, _PART = 0.25, 2.0, 32
# Products by tiles of 64 rows, on a device of few multiprocessors too: columns, inner elements, activation, residual.
_TILES = [64, 64, 0, 1, 128, 64, 2, 0]
_OF_64 = [(20, 64), (64, 64), (64,), (20, 64), (64,), (64,)]  # A, B, bias, residual, scale and shift
_WIDE = [*_TILES, 1 << 16, 64, 0, 0]  # with one that is not
_TOLERANCE = {
    "float16": Tolerance(1, terms=2.0**11),
    "bfloat16": Tolerance(1, terms=2.0**14),
    "float32": Tolerance(4, terms=2.0**10),
}


def _some(shape: tuple[int, ...], seed: int, step: float = 1 / 16, most: int = 48) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape) * step


class _Rows:
    """Rows of a mean that differs, normalised and kept."""

    def __init__(self, shape: tuple[int, ...], seed: int, mean: float = 1.0) -> None:
        width = shape[-1]
        self.y = _some(shape, seed) + np.round(mean * np.arange(shape[-2])[:, None] % 3)
        self.gamma = 2.0 ** np.random.default_rng(seed + 1).integers(-1, 2, width)
        self.beta = _some((width,), seed + 2)
        self.normalised = _layer_norm(self.y, self.gamma, self.beta)
        self.kept = self.y * self.gamma / _SCALE
        self.moments = _moments(self.y)


def _moments(y: np.ndarray) -> np.ndarray:
    parts = y.reshape(*y.shape[:-1], y.shape[-1] // _PART, _PART)
    return np.stack([parts.mean(-1), parts.var(-1)], -1)


def _statistics(moments: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of rows, from those of their parts; rows of one number have none."""
    noise = 2.0**-24 if dtype == "float16" else 2.0**-18
    mean = moments[..., 0].mean(-1, keepdims=True)
    variance = (moments[..., 1] + (moments[..., 0] - mean) ** 2).mean(-1, keepdims=True)
    deviation = np.sqrt(np.maximum(variance, 0) + _EPSILON)
    return mean, np.where(variance < mean**2 * noise, np.inf, deviation)


def _layer_norm(y: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    off = y - y.mean(-1, keepdims=True)
    return off / np.sqrt((off**2).mean(-1, keepdims=True) + _EPSILON) * gamma + beta


def _read(
    dtype: str, shape: tuple[int, ...], columns: int, *, kept: bool, activation: str = "none", **more: Any
) -> Case:
    """Of NormedMatMul."""
    rows = _Rows(shape, 1)
    b, bias = _some((shape[-1], columns), 5, 1 / 32, 16), _some((columns,), 6)
    turned = more.pop("turned", False)
    values = [rows.kept if kept else rows.normalised, b.T if turned else b, bias, None, rows.moments]
    values.append(np.stack([rows.gamma @ b, rows.beta @ b + bias]))

    def sums(a, b, bias, moments, columns):
        product = a @ (b.T if turned else b)
        if not kept:
            return product, 0, bias
        mean, deviation = _statistics(moments, dtype)
        return _SCALE * product / deviation, -mean / deviation * columns[0], columns[1]

    def expected(a, b, bias, _, moments, columns, **attrs):
        return _ACTIVATIONS[activation](sum(sums(a, b, bias, moments, columns)))

    def magnitude(a, b, bias, _, moments, columns, **attrs):
        parts = sums(np.abs(a), np.abs(b), np.abs(bias), moments, np.abs(columns))
        return sum(np.abs(part) for part in parts)

    attrs = {"epsilon": _EPSILON, "norm_scale": _SCALE, "own_weights": 1} | ({"transB": 1} if turned else {})
    attrs |= {"activation": activation} if activation != "none" else {}
    return Case(
        op="NormedMatMul",
        domain=FUSED_DOMAIN,
        inputs=_typed(values, dtype, floats=(4, 5)),
        attrs=attrs | {"norm_products": more.pop("products", _TILES)},
        constants=(1, 2, 5),
        expected=expected,
        magnitude=magnitude,
        tolerance=_TOLERANCE,
        name=f"{dtype}-{list(shape)}-{columns}-{'kept' if kept else 'normalised'}-{activation}-{turned}",
        **more,
    )


def _make(dtype: str, shape: tuple[int, ...], *, keeps: bool, kept: bool, also_sum: bool) -> Case:
    """Of MatMulNorm: a residual that is kept or not, and a result that is."""
    width, inner = 64, shape[-1]
    residual = _Rows((*shape[:-1], width), 1)
    a, b, bias = _some(shape, 4, 1 / 16, 16), _some((inner, width), 5, 1 / 32, 16), _some((width,), 6)
    gamma, beta = 2.0 ** np.random.default_rng(7).integers(-1, 2, width), _some((width,), 8)
    columns = np.stack([bias, gamma / _SCALE, *([residual.gamma, residual.beta] if kept else [])])
    values = [a, b, bias, residual.kept if kept else residual.y, gamma, beta, columns]
    attrs: dict[str, Any] = {"own_weights": 1, "epsilon": _EPSILON, "norm_scale": _SCALE}
    attrs["norm_products"] = _TILES if keeps else []
    if kept:
        values.append(residual.moments)
        attrs |= {"residual_products": _TILES, "residual_epsilon": _EPSILON, "residual_scale": _SCALE}

    def added(residual, columns, moments):
        if not kept:
            return residual
        mean, deviation = _statistics(moments, dtype)
        return (_SCALE * residual - mean * columns[2]) / deviation + columns[3]

    def expected(a, b, bias, residual, gamma, beta, columns, moments=None, **attrs):
        y = a @ b + bias + added(residual, columns, moments)
        return y * columns[1] if keeps else _layer_norm(y, gamma, beta), _moments(y), y

    def magnitude(a, b, bias, residual, gamma, beta, columns, moments=None, **attrs):
        size = np.abs(a) @ np.abs(b) + np.abs(bias) + np.abs(added(residual, columns, moments)) + 4 * np.abs(residual)
        rows = size if keeps else size * 4 / np.sqrt(_EPSILON)
        return rows, np.repeat(_moments(size)[..., :1] ** 2, 2, -1), size

    return Case(
        op="MatMulNorm",
        domain=FUSED_DOMAIN,
        inputs=_typed(values, dtype, floats=(6, 7)),
        attrs=attrs,
        constants=(1, 2, 4, 5, 6),
        outputs=(dtype, "float32" if keeps else "", dtype if also_sum else ""),
        expected=expected,
        magnitude=magnitude,
        tolerance=_TOLERANCE,
        name=f"{dtype}-{list(shape)}-{'keeps' if keeps else 'normalises'}-{'kept' if kept else 'plain'}-{also_sum}",
    )


def _typed(values: list[np.ndarray | None], dtype: str, floats: tuple[int, ...]) -> list[np.ndarray | None]:
    types = ["float32" if i in floats else dtype for i in range(len(values))]
    return [v if v is None else v.astype(numpy_dtype(t)) for v, t in zip(values, types, strict=True)]


CASES = [
    *(
        case
        for dtype in ("float16", "bfloat16")
        for case in (
            _read(dtype, (40, 64), 128, kept=True, activation="gelu"),
            _read(dtype, (2, 20, 64), 128, kept=True),
            _read(dtype, (17, 64), 64, kept=True, activation="relu", turned=True),
            _read(dtype, (40, 64), 128, kept=False, activation="gelu", products=[]),
            _read(dtype, (40, 64), 128, kept=False, products=_WIDE),
            _read(dtype, (16, 64), 128, kept=False),  # too few rows
            _read(dtype, (0, 64), 128, kept=False),
            *(
                _make(dtype, shape, keeps=keeps, kept=kept, also_sum=also_sum)
                for shape in ((40, 96), (2, 17, 32))
                for keeps in (False, True)
                for kept in (False, True)
                for also_sum in (False, True)
            ),
        )
    ),
    *(
        Case(
            op=op,
            domain=FUSED_DOMAIN,
            inputs=[np.zeros(shape, np.float16) for shape in shapes],
            attrs={"norm_products": products},
            error=("INVALID_ARGUMENT", text),
        )
        for op, shapes, products, text in [
            ("NormedMatMul", [(20, 64), (64, 64)], [64, 64, 0], "norm_products has 3 numbers"),
            ("NormedMatMul", [(20, 64), (64, 64)], [0, 64, 0, 0], "a product of 0 columns, 64 inner elements"),
            ("NormedMatMul", [(20, 64), (64, 64)], [64, 64, 7, 0], "activation 7"),
            ("NormedMatMul", [(20, 64), (64, 64)], [64, 64, 256, 0], "activation 256"),
            ("NormedMatMul", [(20, 64), (64, 64)], _TILES, "NormedMatMul misses its moments"),
            ("NormedMatMul", [(20, 64), (64, 64), (64,), (20, 64)], _TILES, "NormedMatMul has no residual"),
            ("MatMulNorm", [(20, 64), (64, 40), (40,), (20, 40), (40,), (40,)], [], "moments of rows of 40 elements"),
            ("MatMulNorm", [(20, 64), (64, 64), (64,)], [], "MatMulNorm misses an input or output"),
            ("MatMulNorm", [(20, 64), (64, 64), (64,), (20, 64), (64,), (32,)], [], "must have 64 elements"),
        ]
    ),
    *(
        Case(
            op="MatMulNorm",
            domain=FUSED_DOMAIN,
            inputs=_typed([np.zeros(s) for s in (*_OF_64, columns)], "float16", floats=(6,)),
            attrs={"norm_products": _TILES, "own_weights": 1},
            constants=constants,
            outputs=("float16", "float32", "float16"),
            error=("INVALID_ARGUMENT", text),
        )
        for columns, constants, text in [
            ((2, 32), (1, 6), "input 6 [2,32] must be [2,64]"),
            ((2, 64), (6,), "want a matrix of weights and input 6 to be constants"),
            ((2, 64), (1,), "want a matrix of weights and input 6 to be constants"),
        ]
    ),
]
