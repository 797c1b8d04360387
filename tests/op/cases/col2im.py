"""Col2Im."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand
from ..harness.dtypes import NUMERIC
from ..harness.tolerances import Tolerance


def _col2im(
    x: np.ndarray,
    image: np.ndarray,
    block: np.ndarray,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> np.ndarray:
    rank = len(image)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * (2 * rank)
    padded = [int(n) + pads[d] + pads[d + rank] for d, n in enumerate(image)]
    blocks = [(n - (int(k) - 1) * e - 1) // s + 1 for n, k, e, s in zip(padded, block, dilations, strides, strict=True)]
    taps = int(np.prod(block))
    columns = x.reshape(x.shape[0], x.shape[1] // taps, taps, x.shape[2])
    out = np.zeros((*columns.shape[:2], *padded), x.dtype)
    for tap, offset in enumerate(np.ndindex(*block.tolist())):
        for number, at in enumerate(np.ndindex(*blocks)):
            where = tuple(a * s + o * e for a, s, o, e in zip(at, strides, offset, dilations, strict=True))
            out[(slice(None), slice(None), *where)] += columns[:, :, tap, number]
    inner = tuple(slice(pads[d], pads[d] + int(image[d])) for d in range(rank))
    return out[(slice(None), slice(None), *inner)]


# input, image, block, attributes
_IMAGES: list[tuple[tuple[int, ...], list[int], list[int], dict[str, Any]]] = [
    ((1, 5, 5), [5, 5], [1, 5], {}),
    ((2, 12, 12), [4, 5], [2, 2], {}),
    ((1, 8, 20), [5, 6], [2, 2], {}),
    ((1, 9, 4), [5, 5], [3, 3], {"strides": [2, 2]}),
    ((1, 9, 20), [4, 5], [3, 3], {"pads": [1, 1, 1, 1]}),
    ((2, 12, 6), [5, 6], [2, 3], {"strides": [2, 1], "pads": [0, 1, 1, 0], "dilations": [2, 2]}),
    ((1, 6, 5), [9], [3], {"dilations": [2]}),
    ((1, 16, 8), [3, 3, 3], [2, 2, 2], {}),
    ((1, 4, 3), [9], [2], {"strides": [3]}),
    ((0, 4, 12), [4, 5], [2, 2], {}),
    ((3, 27, 81), [9, 9], [3, 3], {"pads": [1, 1, 1, 1]}),
]


def _case(
    shape: Sequence[int], image: list[int], block: list[int], attrs: dict[str, Any], dtypes: Sequence[str], **more: Any
) -> Case:
    label = f"{'x'.join(map(str, image))}_by_{'x'.join(map(str, block))}_{'_'.join(attrs)}"
    return Case(**({"op": "Col2Im", "inputs": [Rand(shape), Of(image, "int64"), Of(block, "int64")], "attrs": attrs,
                    "expected": _col2im, "dtypes": dtypes, "magnitude": "absolute",
                    "tolerance": {t: Tolerance(1) for t in ("float32", "float64", "float16", "bfloat16")},
                    "name": label} | more))  # fmt: skip


def _refused(text: str, shape: Sequence[int], image: list[int], block: list[int], **attrs: Any) -> Case:
    return Case(op="Col2Im", inputs=[Rand(shape), Of(image, "int64"), Of(block, "int64")], attrs=attrs,
                dtypes=("float32",), error=("INVALID_ARGUMENT", text))  # fmt: skip


CASES = [
    *(_case(*row, ("float32", "float16")) for row in _IMAGES),
    _case(*_IMAGES[4], NUMERIC, opset="18+", name="types"),
    _case(*_IMAGES[5], ("float32",), constants=(1, 2), name="constant"),
    _refused("expected [N, a multiple of 4, 12]", (1, 4, 11), [4, 5], [2, 2]),
    _refused("expected [N, a multiple of 4, 12]", (1, 5, 12), [4, 5], [2, 2]),
    _refused("a block of 6 does not fit in 5", (1, 6, 1), [5], [6]),
    _refused("differ in their number of dimensions", (1, 4, 12), [4, 5], [4]),
    _refused("differ in their number of dimensions", (1, 4, 12), [4, 5], [2, 2], strides=[1]),
    _refused("strides and dilations must be positive, not 0", (1, 4, 12), [4, 5], [2, 2], strides=[1, 0]),
    _refused("pads must not be negative", (1, 4, 12), [4, 5], [2, 2], pads=[-1, 0, 0, 0]),
]  # fmt: skip
