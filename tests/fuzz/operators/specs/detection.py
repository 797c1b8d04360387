"""Regions of images, sampling, and boxes."""

from __future__ import annotations

import numpy as np

from tests.op.cases import deform_conv, detect
from tests.op.harness.dtypes import FLOATS
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node


def _boxes(d: Draw, count: int, height: float, width: float) -> np.ndarray:
    """Corners x1, y1, x2, y2."""
    low = d.free.uniform(0, 0.6, (count, 2))
    high = low + d.free.uniform(0.1, 0.4, (count, 2))
    return np.concatenate([low, high], axis=1) * np.array([width, height] * 2)


def _roi_align(d: Draw) -> Node:
    dtype = d.type("T1")
    n, c, h, w = d.any(1, 3), d.any(1, 3), d.any(3, 12), d.any(3, 12)
    scale = d.pick([1.0, 0.5, 0.25])
    count = d.any(0, 5)
    rois = (_boxes(d, count, h, w) / scale).astype(np.float32)
    attrs = {"spatial_scale": scale, **d.attrs(mode=["avg", "max", None], sampling_ratio=[0, 1, 2, None])}
    attrs.update(output_height=d.integer(1, 4), output_width=d.integer(1, 4))
    if d.version >= 16:
        attrs.update(d.attrs(coordinate_transformation_mode=["half_pixel", "output_half_pixel", None]))
    x = d.values(dtype, [n, c, h, w], -1, 1, specials=False)
    # The places of samples are products of corners: an ulp of one is an error of the weights.
    return Node([x, rois.astype(x.dtype), d.indices("int64", [count], n, negative=False)], attrs, scale=16.0)


def _max_roi_pool(d: Draw) -> Node:
    dtype = d.type("T")
    n, c, h, w = d.any(1, 3), d.any(1, 3), d.any(3, 12), d.any(3, 12)
    count = d.any(1, 5)
    corners = np.round(_boxes(d, count, h - 1, w - 1))  # whole, for they are rounded
    rois = np.concatenate([d.free.integers(0, n, (count, 1)), corners], axis=1)
    x = d.values(dtype, [n, c, h, w], -9, 9, specials=False)
    return Node([x, rois.astype(x.dtype)], {"pooled_shape": [d.integer(1, 4), d.integer(1, 4)]},
                formula=detect._max_pool)  # fmt: skip  # of the newest version nobody else has it


def _non_max_suppression(d: Draw) -> Node:
    batch, classes, count = d.any(1, 2), d.any(1, 3), d.any(1, 20)
    boxes = np.stack([_boxes(d, count, 1, 1) for _ in range(batch)])
    center = d.pick([0, 1, None])
    if center:
        low, high = boxes[..., :2], boxes[..., 2:]
        boxes = np.concatenate([(low + high) / 2, high - low], axis=-1)
    scores = d.free.permutation(batch * classes * count).reshape(batch, classes, count) / (batch * classes * count)
    most = np.array([d.any(0, count)], np.int64) if d.chance(0.8) else None
    overlap = np.array([d.free.uniform(0.1, 0.8)], np.float32) if d.chance(0.8) else None
    least = np.array([d.free.uniform(0.1, 0.6)], np.float32) if d.chance(0.5) else None
    attrs = {} if center is None else {"center_point_box": center}
    return Node([boxes.astype(np.float32), scores.astype(np.float32), most, overlap, least], attrs, widen=False)


_PLACES = Tolerance(4, abs=1e-5, reason="the reference computes places in float32")


def _grid_sample(d: Draw) -> Node:
    image = d.integer(2, 2 if d.version < 20 else 3)
    n, c, sizes = d.any(1, 2), d.any(1, 3), [d.any(2, 7) for _ in range(image)]
    linear = "bilinear" if d.version < 20 else "linear"
    cubic = "bicubic" if d.version < 20 else "cubic"
    modes = [linear, *([cubic] if image == 2 else []), None]  # nearest has ties that float32 decides
    attrs = d.attrs(mode=modes, padding_mode=["zeros", "border", "reflection", None], align_corners=[0, 1, None])
    data = d.type("T1", of=FLOATS)  # what others are between two pixels is not said
    own = d.row.domain == ""
    kinds = data, d.type("T2", of=(data,) if d.chance(0.8) else None) if own else data
    grid = d.values(kinds[1], [n, *(d.any(1, 5) for _ in range(image)), image], -1.3, 1.3, specials=False)
    return Node([d.values(kinds[0], [n, c, *sizes], -1, 1, specials=False), grid], attrs, scale=16.0,
                tolerance=_PLACES if data == "float64" else None)  # fmt: skip


def _affine_grid(d: Draw) -> Node:
    image = d.integer(2, 3)
    n = d.any(1, 3)
    size = np.array([n, d.any(1, 3), *(d.any(2, 6) for _ in range(image))], np.int64)
    theta = d.small(d.type("T1"), [n, image, image + 1])
    return Node([theta, size], d.attrs(align_corners=[0, 1, None]), scale=3.0)


def _det(d: Draw) -> Node:
    size = d.integer(1, 5)
    matrices = d.small(d.type("T"), [*d.dims(d.integer(0, 2), 1, elems=12), size, size])
    return Node([matrices], scale=4.0)


def _deform_conv(d: Draw) -> Node:
    dtype, kernel = d.type("T"), [d.integer(1, 3), d.integer(1, 3)]
    group, moves = d.pick([1, 1, 2]), d.pick([1, 1, 2])
    strides, pads = [d.integer(1, 2), d.integer(1, 2)], [d.integer(0, k - 1) for k in (*kernel, *kernel)]
    n, channels, image = d.any(1, 2), group * moves * d.integer(1, 2), [k + d.any(0, 5) for k in kernel]
    out = [(image[i] + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in range(2)]
    outer = group * d.integer(1, 3)
    places = moves * kernel[0] * kernel[1]
    offset = d.values(dtype, [n, 2 * places, *out], -1.5, 1.5, specials=False)
    bias = d.small(dtype, [outer]) if d.chance(0.5) else None
    mask = d.values(dtype, [n, places, *out], 0, 1, specials=False) if d.chance(0.5) else None
    attrs = {"strides": strides, "pads": pads, "group": group, "offset_group": moves}
    x, w = d.small(dtype, [n, channels, *image]), d.small(dtype, [outer, channels // group, *kernel])
    return Node([x, w, offset, bias, mask], attrs, scale=8.0, tolerance=deform_conv._ERRORS.get(dtype))


SPECS = {
    ("", "RoiAlign"): _roi_align,
    ("", "MaxRoiPool"): _max_roi_pool,
    ("", "NonMaxSuppression"): _non_max_suppression,
    ("", "GridSample"): _grid_sample,
    ("com.microsoft", "GridSample"): _grid_sample,
    ("", "AffineGrid"): _affine_grid,
    ("", "Det"): _det,
    ("", "DeformConv"): _deform_conv,
}
