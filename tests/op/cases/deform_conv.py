"""DeformConv: groups and offset groups, strides, padding, dilation, bias and mask, taps outside of the image."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.dtypes import FLOATS

# Columns are rounded to 16 bits before the product, which may add to the bias.
_ERRORS = {
    "float64": Tolerance(16, terms=512),
    "float32": Tolerance(16, terms=512),
    "float16": Tolerance(1, terms=2.0**13),
    "bfloat16": Tolerance(1, terms=2.0**16),
}


def _between(plane: Any, y: Any, x: Any) -> Any:
    """The image at places between its pixels, 0 outside; places are arrays of the output's shape."""
    height, width = plane.shape[-2:]
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    total = 0.0
    for dy, dx in np.ndindex(2, 2):
        weight = (1 - np.abs(y - (y0 + dy))) * (1 - np.abs(x - (x0 + dx)))
        inside = (y0 + dy >= 0) & (y0 + dy < height) & (x0 + dx >= 0) & (x0 + dx < width)
        value = plane[..., np.clip(y0 + dy, 0, height - 1), np.clip(x0 + dx, 0, width - 1)]
        total = total + np.where(inside, weight, 0) * value
    return total


def _deform(x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, group: int = 1, offset_group: int = 1,
            strides: Any = (1, 1), pads: Any = (0, 0, 0, 0), dilations: Any = (1, 1), kernel_shape: Any = None,
            size: bool = False) -> Any:  # fmt: skip
    del kernel_shape
    (n, channels), (rows, columns), taps = x.shape[:2], offset.shape[2:], w.shape[2] * w.shape[3]
    offset = offset.reshape(n, offset_group, taps, 2, rows, columns)
    weighed = (n, offset_group, taps, rows, columns)
    mask = np.ones(weighed) if mask is None else mask.reshape(weighed)
    if size:
        x, w, mask, b = np.abs(x), np.abs(w), np.abs(mask), None if b is None else np.abs(b)
    y = np.zeros((n, w.shape[0], rows, columns))
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    per_offset, per_group, outs = channels // offset_group, w.shape[1], w.shape[0] // group
    for image, channel, tap in np.ndindex(n, channels, taps):
        part = channel // per_offset
        down = i * strides[0] - pads[0] + tap // w.shape[3] * dilations[0] + offset[image, part, tap, 0]
        across = j * strides[1] - pads[1] + tap % w.shape[3] * dilations[1] + offset[image, part, tap, 1]
        value = _between(x[image, channel], down, across) * mask[image, part, tap]
        first = channel // per_group * outs
        weights = w[first : first + outs, channel % per_group].reshape(outs, taps)[:, tap]
        y[image, first : first + outs] += weights[:, None, None] * value
    return y if b is None else y + b.reshape(-1, 1, 1)


def _sizes(*inputs: Any, **attrs: Any) -> Any:
    return 1 + _deform(*inputs, **attrs, size=True)


def _case(x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, int], bias: bool = False, mask: bool = False,
          dtypes: tuple[str, ...] = ("float32",), opset: Any = 22, name: str = "", **attrs: Any) -> Case:  # fmt: skip
    moved = attrs.get("offset_group", 1) * w[2] * w[3]
    given = [
        Rand(x),
        Rand(w, low=-1, high=1),
        Rand((x[0], 2 * moved, *out), low=-2, high=2),
        Rand((w[0],)) if bias else None,
        Rand((x[0], moved, *out), low=0, high=1) if mask else None,
    ]
    while given[-1] is None:
        given.pop()
    label = f"{'x'.join(map(str, x))}_{'x'.join(map(str, w))}" + "-bias" * bias + "-mask" * mask + "".join(
        f",{k}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in attrs.items())  # fmt: skip
    return Case(op="DeformConv", inputs=given, attrs=attrs, dtypes=dtypes, opset=opset, expected=_deform,
                magnitude=_sizes, tolerance=_ERRORS, name=name or label)  # fmt: skip


CASES = [
    _case((2, 4, 7, 8), (6, 2, 3, 3), (7, 8), bias=True, mask=True, dtypes=FLOATS, opset="19+", group=2, offset_group=2,
          pads=[1, 1, 1, 1], name="types"),
    _case((1, 3, 7, 8), (4, 3, 3, 3), (5, 6)),
    _case((1, 3, 7, 8), (4, 3, 3, 3), (5, 6), bias=True, dtypes=("float32", "float16")),
    _case((1, 3, 7, 8), (4, 3, 3, 3), (5, 6), mask=True),
    _case((2, 4, 7, 8), (4, 1, 3, 2), (5, 7), group=4, offset_group=2, mask=True),
    _case((2, 4, 7, 8), (6, 4, 2, 3), (6, 6), offset_group=4),
    _case((1, 2, 9, 10), (3, 2, 3, 3), (4, 7), strides=[2, 1], pads=[0, 1, 1, 0], dilations=[1, 2], kernel_shape=[3, 3],
          bias=True),
    _case((2, 3, 7, 8), (4, 3, 1, 1), (7, 8)),
    _case((2, 3, 1, 1), (4, 3, 1, 1), (1, 1), bias=True),
    _case((1, 2, 40, 50), (3, 2, 3, 3), (38, 48)),
    _case((1, 2, 130, 140), (3, 2, 1, 1), (130, 140)),
    _case((1, 40, 70, 70), (1, 40, 5, 5), (66, 66), dtypes=("float64",), name="two_chunks"),
    _case((0, 3, 7, 8), (4, 3, 3, 3), (5, 6)),
    _case((2, 0, 7, 8), (4, 0, 3, 3), (5, 6), bias=True, name="no_channels"),
    *(Case(op="DeformConv", inputs=[Rand((1, 4, 7, 8)), Rand((6, 4, 3, 3)), Rand(offset), None, *mask], attrs=attrs,
           dtypes=("float32",), error=("INVALID_ARGUMENT", text), name=f"refused_{text}", opset=19)
      for offset, mask, attrs, text in [
          ((1, 18, 5, 5), [], {}, "input offset has shape [1,18,5,5], expected [1,18,5,6]"),
          ((1, 18, 5, 6), [Rand((1, 18, 5, 6))], {}, "input mask has shape [1,18,5,6], expected [1,9,5,6]"),
          ((1, 54, 5, 6), [], {"offset_group": 3}, "4 channels of X [1,4,7,8] do not divide into 3 offset groups"),
          ((1, 18, 5, 6), [], {"offset_group": 0}, "offset_group is 0"),
          ((1, 18, 5, 6), [], {"group": 3}, "do not fit the 4 channels"),
      ]),
    Case(op="DeformConv", inputs=[Rand((1, 4, 7)), Rand((6, 4, 3)), Rand((1, 3, 5))], dtypes=("float32",), opset=19,
         error=("NOT_SUPPORTED", "X with 3 dimensions")),
]  # fmt: skip
