"""NonMaxSuppression, RoiAlign, MaxRoiPool: boxes and regions."""

from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, Tolerance
from ..harness.dtypes import FLOATS
from ..harness.tolerances import EXACT

_RNG = np.random.default_rng(7)


def _boxes(batches: int, count: int, center: bool = False) -> np.ndarray:
    """Boxes that overlap now and then, corners in any order."""
    corner, size = _RNG.uniform(0, 4, (batches, count, 2)), _RNG.uniform(0.3, 2, (batches, count, 2))
    if center:
        return np.concatenate([corner, size], -1).astype(np.float32)
    ends = np.stack([corner, corner + size], 2)
    flip = _RNG.integers(0, 2, (batches, count, 1, 1)) == 1
    return np.where(flip, ends[:, :, ::-1], ends).reshape(batches, count, 4).astype(np.float32)


def _scores(batches: int, classes: int, count: int) -> np.ndarray:
    """Different scores, in any order."""
    return _RNG.permutation(batches * classes * count).reshape(batches, classes, count).astype(np.float32) / 100


def _suppress(boxes: np.ndarray, scores: np.ndarray, most: int | None = 3, overlap: float | None = 0.3,
              score: float | None = None, name: str = "", **more: Any) -> Case:  # fmt: skip
    inputs = [boxes, scores,
              None if most is None else np.array([most], np.int64),
              None if overlap is None else np.array([overlap], np.float32),
              None if score is None else np.array([score], np.float32)]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    more.setdefault("expected", "ort_cpu")
    return Case(op="NonMaxSuppression", inputs=inputs, tolerance=EXACT,
                name=f"{'x'.join(map(str, scores.shape))}-{most}-{overlap}-{score}{name}", **more)  # fmt: skip


_EQUAL = np.float32(np.arange(40) % 4).reshape(1, 2, 20)
_WITH_NAN = np.where(_RNG.random((1, 2, 30)) < 0.2, np.nan, _scores(1, 2, 30)).astype(np.float32)
# Zero sizes, a box twice, and overlaps of exactly 1/3 and 1.
_ODD = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0.5, 1, 1.5], [2, 2, 2, 3], [2, 2, 2, 3], [0, 0, 0, 0]]])

# None of them overlaps another one.
_APART = np.float32([[[3 * i, 0, 3 * i + 1, 1] for i in range(20)]])


def _by_falling_scores(_: np.ndarray, scores: np.ndarray, *__: Any) -> np.ndarray:
    order = np.argsort(np.where(np.isnan(scores), -np.inf, -scores), axis=-1, kind="stable")
    places = np.argwhere(np.ones_like(order))
    return np.concatenate([places[:, :2], order.reshape(-1, 1)], 1)


# Coordinates are computed in the type of the tensors here and in fp32 or wider by references: a sample that lies
# elsewhere by an ulp of its coordinate has other weights.
_WEIGHTS = {
    "float64": Tolerance(8, terms=64),
    "float32": Tolerance(8, terms=64),
    "float16": Tolerance(1, terms=64),
    "bfloat16": Tolerance(1, terms=64),
}


def _largest(x: np.ndarray, *_: Any, **__: Any) -> Any:
    return np.abs(x).max(initial=0)


def _sample(plane: Any, y: Any, x: Any) -> Any:
    """The four weighted corners around a place; zeros outside."""
    height, width = plane.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros((4, plane.shape[0]))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = int(y), int(x)
    y1, x1, fy, fx = min(y0 + 1, height - 1), min(x0 + 1, width - 1), y - y0, x - x0
    return np.stack([(1 - fy) * (1 - fx) * plane[:, y0, x0], (1 - fy) * fx * plane[:, y0, x1],
                     fy * (1 - fx) * plane[:, y1, x0], fy * fx * plane[:, y1, x1]])  # fmt: skip


def _roi_align(x: Any, rois: Any, indices: Any, output_height: int = 1, output_width: int = 1, mode: str = "avg",
               sampling_ratio: int = 0, spatial_scale: float = 1.0,
               coordinate_transformation_mode: str = "half_pixel") -> Any:  # fmt: skip
    half = coordinate_transformation_mode == "half_pixel"
    y = np.zeros((len(rois), x.shape[1], output_height, output_width))
    for n, (image, roi) in enumerate(zip(indices, rois * spatial_scale - 0.5 * half, strict=True)):
        least = -np.inf if half else 1
        bins = [max(roi[3] - roi[1], least) / output_height, max(roi[2] - roi[0], least) / output_width]
        counts = [sampling_ratio if sampling_ratio > 0 else max(int(np.ceil(b)), 0) for b in bins]
        for place in np.ndindex(output_height, output_width):
            found = [
                _sample(x[image], *(roi[1 - d] + (place[d] + (at[d] + 0.5) / counts[d]) * bins[d] for d in range(2)))
                for at in np.ndindex(*counts)
            ]
            if found:
                values = np.stack(found)
                y[(n, slice(None), *place)] = values.sum(1).mean(0) if mode == "avg" else values.max((0, 1))
    return y


_ROIS = np.array([[0.5, 0.25, 6.5, 5.75], [1, 1, 3, 9], [-2, -3, 2.5, 4], [4, 4, 4.5, 4.25], [6, 5, 2, 1],
                  [8, 9, 30, 31]])  # fmt: skip
_INDICES = np.array([0, 1, 1, 0, 0, 1], np.int64)


def _align(rois: Any = _ROIS, indices: Any = _INDICES, shape: tuple[int, ...] = (2, 3, 9, 11),
           size: tuple[int, int] = (3, 2), dtypes: tuple[str, ...] = ("float32",), opset: Any = 16,
           **attrs: Any) -> Case:  # fmt: skip
    expected = attrs.pop("expected", _roi_align)
    name = attrs.pop("name", "x".join(map(str, (*shape, *size))) + "".join(f",{k}={v}" for k, v in attrs.items()))
    return Case(op="RoiAlign", inputs=[Rand(shape), Of(rois), np.array(indices, np.int64)],
                attrs={"output_height": size[0], "output_width": size[1], **attrs}, dtypes=dtypes, expected=expected,
                magnitude=_largest, tolerance=_WEIGHTS, opset=opset, name=name)  # fmt: skip


def _but_the_last_box(x: Any, rois: Any, indices: Any, **attrs: Any) -> Any:
    y = _roi_align(x, rois[:-1], indices[:-1], **attrs)
    return np.concatenate([y, np.zeros_like(y[:1])])  # of whose samples hardly any lies in the image


_POOLED = np.array([[0, 1, 1, 6, 7], [1, 0, 0, 10, 8], [1, -3, 2, 4, 5], [0, 5, 5, 5, 5], [0, 7, 6, 3, 2],
                    [1, 20, 20, 25, 25], [0, 0.5, 1.5, 6.5, 4.4]])  # fmt: skip


def _max_pool(x: np.ndarray, rois: np.ndarray, pooled_shape: Any = (), spatial_scale: float = 1.0) -> np.ndarray:
    y = np.zeros((len(rois), x.shape[1], *pooled_shape))
    for n, roi in enumerate(rois):
        left, top, right, bottom = (int(np.trunc(v + np.copysign(0.5, v))) for v in roi[1:] * spatial_scale)
        ranges = []
        for low, high, bins, size in ((top, bottom, pooled_shape[0], x.shape[2]),
                                      (left, right, pooled_shape[1], x.shape[3])):  # fmt: skip
            step = np.float32(max(high - low + 1, 1)) / np.float32(bins)
            ranges.append([np.clip([low + int(np.floor(b * step)), low + int(np.ceil((b + 1) * step))], 0, size)
                           for b in range(bins)])  # fmt: skip
        for place in np.ndindex(*pooled_shape):
            rows, columns = ranges[0][place[0]], ranges[1][place[1]]
            if not 0 <= roi[0] < len(x):
                continue
            part = x[int(roi[0]), :, rows[0] : rows[1], columns[0] : columns[1]]
            if part.size:
                y[(n, slice(None), *place)] = part.max(axis=(1, 2))
    return y


CASES = [
    *(_suppress(_boxes(b, n), _scores(b, c, n), most, overlap, score)
      for b, c, n, most, overlap, score in [
          (1, 1, 6, 3, 0.5, 0.0),
          (1, 1, 1, 3, 0.5, 0.0),
          (2, 3, 50, 5, 0.3, None),
          (2, 3, 50, 5, 0.3, 0.9),
          (1, 2, 50, 1, 0.3, 0.2),
          (1, 2, 50, 100, 0.0, None),
          (1, 2, 50, 100, 1.0, None),
          (1, 2, 50, 100, None, None),
          (1, 1, 700, 700, 0.4, 1.5),
          (1, 3, 300, 40, 0.1, None),
          (5, 70, 9, 4, 0.2, 3.0),
      ]),
    _suppress(_boxes(1, 40, center=True), _scores(1, 2, 40), 10, 0.2, attrs={"center_point_box": 1}, name="-center"),
    _suppress(_boxes(1, 40), _scores(1, 2, 40), 10, 0.2, opset=10, name="-old"),
    _suppress(_boxes(1, 20), _EQUAL, 20, 0.2, name="-equal_scores"),
    _suppress(_boxes(1, 30), _WITH_NAN, 30, 0.4, 0.0, name="-nan"),
    # Without a threshold NaN comes before all numbers, as in TopK. The CPU provider keeps a heap whose comparison is
    # no order then: what it gives depends on where the NaN stand.
    _suppress(_APART, _WITH_NAN[:, :, :20], 20, 0.4, name="-nan", expected=_by_falling_scores),
    _suppress(_ODD, np.float32([[[6, 5, 4, 3, 2, 1]]]), 9, 1 / 3, name="-odd"),
    _suppress(_ODD, np.float32([[[6, 5, 4, 3, 2, 1]]]), 9, 1.0, name="-odd"),
    # Nothing to keep.
    _suppress(_boxes(1, 20), _scores(1, 1, 20), 0),
    _suppress(_boxes(1, 20), _scores(1, 1, 20), None, None),
    _suppress(_boxes(1, 20), _scores(1, 1, 20), 5, 0.5, 99.0, name="-all_below"),
    _suppress(np.zeros((1, 0, 4), np.float32), np.zeros((1, 2, 0), np.float32),
              expected=lambda *_, **__: np.zeros((0, 3), np.int64)),
    *(Case(op="NonMaxSuppression", inputs=[np.zeros(boxes, np.float32), np.zeros(scores, np.float32),
                                           np.array([3] * count, np.int64), np.array([overlap], np.float32)],
           attrs=attrs, error=("INVALID_ARGUMENT", text), name=f"refused_{text}")
      for boxes, scores, count, overlap, attrs, text in [
          ((1, 5, 3), (1, 1, 5), 1, 0.5, {}, "boxes [1,5,3] and scores [1,1,5]"),
          ((1, 5, 4), (1, 1, 6), 1, 0.5, {}, "boxes [1,5,4] and scores [1,1,6]"),
          ((1, 5, 4), (1, 1, 5), 2, 0.5, {}, "max_output_boxes_per_class has shape [2]"),
          ((1, 5, 4), (1, 1, 5), 1, 1.5, {}, "iou_threshold 1.5"),
          ((1, 5, 4), (1, 1, 5), 1, 0.5, {"center_point_box": 2}, "center_point_box is 2"),
      ]),
    # RoiAlign.
    *(_align(mode=mode, sampling_ratio=ratio, coordinate_transformation_mode=coordinates)
      for mode in ("avg", "max") for ratio in (0, 2) for coordinates in ("half_pixel", "output_half_pixel")),
    *(_align(mode=mode, opset=10, expected="ort_cpu", name=f"old-{mode}") for mode in ("avg", "max")),
    _align(opset="16+", dtypes=FLOATS, sampling_ratio=2, name="types"),
    _align(opset=10, dtypes=FLOATS, sampling_ratio=2, expected="ort_cpu", name="old_types"),
    _align(spatial_scale=0.25, rois=_ROIS * 4, dtypes=("float32", "float16"), sampling_ratio=1),
    _align(size=(1, 1), shape=(2, 1, 1, 1), name="one_pixel"),
    _align(size=(7, 7), shape=(2, 20, 9, 11)),
    _align(rois=np.zeros((0, 4)), indices=[], expected=lambda *_, **__: np.zeros((0, 3, 3, 2)), name="none"),
    _align(rois=np.vstack([_ROIS[:2], [[-3e5, -3e5, 3e5, 3e5]]]), indices=[0, 1, 0], expected=_but_the_last_box,
           name="far_beyond_the_image"),
    _align(shape=(2, 0, 9, 11), expected=lambda *_, **__: np.zeros((6, 0, 3, 2)), name="no_channels"),
    *(Case(op="RoiAlign", inputs=[Rand(x), Rand(rois), np.zeros(indices, np.int64)], dtypes=("float32",), attrs=attrs,
           opset=16, error=("INVALID_ARGUMENT", text), name=f"refused_{text}")
      for x, rois, indices, attrs, text in [
          ((1, 2, 3), (4, 4), (4,), {}, "input X has shape [1,2,3]"),
          ((1, 2, 3, 3), (4, 5), (4,), {}, "input rois has shape [4,5]"),
          ((1, 2, 3, 3), (4, 4), (5,), {}, "input batch_indices has shape [5]"),
          ((1, 2, 0, 3), (4, 4), (4,), {}, "is empty and has no regions"),
          ((1, 2, 3, 3), (4, 4), (4,), {"mode": "sum"}, "mode is 'sum'"),
          ((1, 2, 3, 3), (4, 4), (4,), {"output_width": 0}, "output_height and output_width are 1 and 0"),
          ((1, 2, 3, 3), (4, 4), (4,), {"sampling_ratio": -1}, "sampling_ratio is -1"),
          ((1, 2, 3, 3), (4, 4), (4,), {"coordinate_transformation_mode": "none"}, "is 'none'"),
      ]),
    # MaxRoiPool.
    *(Case(op="MaxRoiPool", inputs=[Rand(shape), Of(_POOLED / scale)],
           attrs={"pooled_shape": pooled, "spatial_scale": scale}, dtypes=("float32",), expected=_max_pool)
      for shape, pooled, scale in [((2, 3, 9, 11), [3, 2], 1.0), ((2, 3, 9, 11), [1, 1], 0.25),
                                   ((2, 20, 9, 11), [7, 7], 1.0)]),
    Case(op="MaxRoiPool", inputs=[Rand((2, 3, 9, 11)), Of(_POOLED)], attrs={"pooled_shape": [2, 3]}, dtypes=FLOATS,
         expected=_max_pool, opset="1+", tolerance=EXACT, name="types"),
    Case(op="MaxRoiPool", inputs=[Rand((2, 3, 9, 11)), Of(_POOLED)], attrs={"pooled_shape": [2, 3]},
         dtypes=("float32",), expected="ort_cpu", opset=1, tolerance=EXACT, name="as_cpu",
         skip={"graph": "the host refuses images that do not exist"}),
    Case(op="MaxRoiPool", inputs=[Rand((2, 3, 9, 11)), Rand((0, 5))], attrs={"pooled_shape": [2, 3]},
         dtypes=("float32",), expected=_max_pool, tolerance=EXACT, name="none"),
    *(Case(op="MaxRoiPool", inputs=[Rand((2, 3, 9, 11)), Rand((2, 4))], attrs=attrs, dtypes=("float32",),
           opset=1, error=("INVALID_ARGUMENT", text), name=f"refused_{text}")
      for attrs, text in [
          ({"pooled_shape": [2, 2]}, "input rois has shape [2,4], expected [regions, 5]"),
          ({"pooled_shape": [2]}, "pooled_shape is [2]"),
          ({"pooled_shape": [2, 0]}, "pooled_shape is [2,0]"),
      ]),
]  # fmt: skip
