"""Resize and Upsample: every mode, coordinate transformation, rounding, policy; by scales and by sizes."""

import numpy as np

from ..harness import Case, Of, Rand, Tolerance
from ..harness.dtypes import COMPLEX, FLOATS, NUMERIC

_TYPES = (*FLOATS, "int8", "uint8", "int32")
_ALL_TYPES = (*NUMERIC, "bool", *COMPLEX)
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
# Coordinates are computed in fp32, as the host and the reference do: an ulp of a coordinate is an error of the weights.
_WEIGHTS = {"float32": Tolerance(4, terms=32), "float64": Tolerance(4, terms=32), "float16": Tolerance(0.6, terms=32)}


def _scales(*values):
    return np.array(values, np.float32)


def _sizes(*values):
    return np.array(values, np.int64)


def _largest(x, *_, **__):
    return np.abs(x).max(initial=0)


def _repeat(x, *_, **__):
    return np.repeat(np.repeat(x, 2, axis=2), 3, axis=3)


def _double(x, *_, **__):
    """Twice as many elements along the last two axes, the new ones half way; integers truncated."""
    y = np.asarray(x, np.float64)
    for axis in (2, 3):
        following = np.take(y, np.minimum(np.arange(1, y.shape[axis] + 1), y.shape[axis] - 1), axis)
        y = np.stack([y, (y + following) / 2], axis + 1).reshape(*y.shape[:axis], -1, *y.shape[axis + 1 :])
    return np.trunc(y) if np.asarray(x).dtype.kind in "iu" else y


def _cropped(x, roi, _, sizes, extrapolation_value=0.0, **__):
    """The nearest elements of a region of the last two axes."""
    y = x
    for axis in (2, 3):
        last, count = x.shape[axis] - 1, int(sizes[axis])
        at = last * (roi[axis] + np.arange(count) * (roi[x.ndim + axis] - roi[axis]) / (count - 1))
        y = np.take(y, np.clip(np.ceil(at - 0.5), 0, last).astype(int), axis)
        outside = ((at < 0) | (at > last)).reshape((-1,) + (1,) * (3 - axis))
        y = np.where(outside, np.asarray(extrapolation_value).astype(y.dtype), y)
    return y


def _case(x, attrs, scales=None, sizes=None, roi=None, dtypes=("float32", "float16"), opset=19, **more):
    inputs = [Rand(x), roi, scales, sizes]
    while inputs[-1] is None:
        inputs.pop()
    more.setdefault("expected", "onnx_reference")
    more.setdefault("constants", tuple(i for i, value in enumerate(inputs) if i > 0 and value is not None))
    if attrs.get("mode", "nearest") != "nearest":
        more.setdefault("tolerance", _WEIGHTS)
        more.setdefault("magnitude", _largest)
    return Case(op="Resize", inputs=inputs, attrs=attrs, dtypes=dtypes, opset=opset, **more)


_SHAPE = (1, 2, 4, 5)
_UP, _DOWN, _ODD = _scales(1, 1, 2, 3), _scales(1, 1, 0.5, 0.625), _scales(1, 1, 1.3, 0.8)

CASES = [
    *(
        _case(_SHAPE, {"mode": "nearest", "coordinate_transformation_mode": how, "nearest_mode": rounding}, scales)
        for how in _COORDINATES
        for rounding in _ROUNDINGS
        for scales in (_UP, _ODD if how == "half_pixel_symmetric" else _DOWN)  # no ties that rounding decides
    ),
    *(
        _case(_SHAPE, {"mode": mode, "coordinate_transformation_mode": how}, scales, dtypes=("float32",))
        for mode in ("linear", "cubic")
        for how in _COORDINATES
        for scales in (_UP, _DOWN, _ODD)
    ),
    *(
        _case(_SHAPE, {"mode": mode, **attrs}, scales, dtypes=("float32",))
        for mode in ("linear", "cubic")
        for attrs in ({"exclude_outside": 1}, {"antialias": 1}, {"antialias": 1, "exclude_outside": 1})
        for scales in (_UP, _DOWN, _ODD)
    ),
    _case((2, 3, 4), {"mode": "cubic", "cubic_coeff_a": -0.5}, _scales(1, 1.5, 2), dtypes=("float32",)),
    *(  # the reference lacks it
        _case(
            _SHAPE,
            {"mode": mode, "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
            scales,
            dtypes=("float32",),
            expected="ort_cpu",
        )
        for mode in ("nearest", "linear", "cubic")
        for scales in (_UP, _DOWN)
    ),
    *(  # weights that fp32 holds exactly, so that integers are truncated alike
        _case(
            _SHAPE,
            {"mode": mode, "coordinate_transformation_mode": "asymmetric"},
            _scales(1, 1, 2, 2),
            dtypes=dtypes,
            expected=expected,
            name=f"{mode}_types",
        )
        for mode, dtypes, expected in (
            ("nearest", _TYPES, "onnx_reference"),
            ("linear", FLOATS, "onnx_reference"),
            ("linear", ("int8", "uint8", "int32"), "ort_cpu"),  # truncates; the reference rounds
            ("cubic", FLOATS, "onnx_reference"),
        )
    ),
    *(
        _case(
            _SHAPE,
            {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
            _scales(1, 1, 2, 2),
            dtypes=NUMERIC,
            expected=_double,
            opset=opset,
            roi=roi,
            name="linear_any_number",
        )
        for opset, roi in ((11, _scales()), (19, None))
    ),
    _case(
        _SHAPE,
        {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0},
        sizes=_sizes(1, 2, 3, 4),
        roi=_scales(0, 0, -0.4, 0.6, 1, 1, 1.3, 1.7),
        dtypes=("int16", "uint64", "bool", "complex64", "complex128"),
        expected=_cropped,
        name="extrapolates_any_type",
    ),
    # Any rank, any axes.
    _case((7,), {"mode": "linear"}, _scales(2.5), dtypes=("float32",), name="rank_1"),
    _case((3, 4), {"mode": "nearest"}, _scales(3, 1)),
    _case((3, 4, 5), {"mode": "linear"}, _scales(2, 1.5, 0.8), dtypes=("float32",)),
    _case((1, 1, 3, 4, 5), {"mode": "linear"}, _scales(1, 1, 2, 2, 2), dtypes=("float32",)),
    _case((2, 3, 4, 3, 2), {"mode": "nearest"}, _scales(2, 1, 2, 1, 2)),
    _case((2, 1, 2, 3, 2, 1, 2, 3), {"mode": "nearest"}, _scales(1, 2, 1, 2, 1, 2, 1, 2)),
    _case((1, 6, 8, 3), {"mode": "nearest"}, _scales(1, 2, 2, 1), name="channels_last"),
    _case((1, 6, 8, 3), {"mode": "linear"}, _scales(1, 2, 2, 1), dtypes=("float32",), name="channels_last"),
    _case(
        (1, 2, 17, 23),
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        _scales(1, 1, 2, 2),
        dtypes=_TYPES,
    ),
    # Planes: columns of several elements, one dimension alone, rows in reverse and far apart.
    *(
        _case(x, {"mode": mode}, scales, name=f"planes_{name}")
        for mode in ("nearest", "linear", "cubic")
        for x, scales, name in (
            ((2, 5, 4, 3), _scales(1, 1.5, 2, 1), "channels_last"),
            ((2, 5, 7), _scales(1, 2, 1), "rows_alone"),
            ((3, 2, 9), _scales(1, 1, 2), "columns_alone"),
            ((2, 9, 8), _scales(1, 0.25, 0.3), "far_apart"),
        )
    ),
    _case(
        (4, 3),
        {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"},
        sizes=_sizes(6, 5),
        roi=_scales(1, 0.9, -0.2, 0),
        name="reversed",
    ),
    *(  # several rows and planes a thread
        _case(
            x,
            {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            scales,
            dtypes=("float16",),
            expected=expected,
            name="many",
        )
        for x in ((4096, 1, 6, 40), (3, 1, 500, 440))
        for mode, scales, expected in (("nearest", _UP, _repeat), ("linear", _scales(1, 1, 2, 2), _double))
    ),
    # By sizes.
    _case(_SHAPE, {"mode": "nearest"}, sizes=_sizes(1, 2, 7, 9)),
    _case(_SHAPE, {"mode": "linear"}, sizes=_sizes(1, 2, 3, 11), dtypes=("float32",)),
    *(
        _case(
            _SHAPE,
            {"mode": "linear", "axes": axes, "keep_aspect_ratio_policy": policy},
            sizes=_sizes(9, 7),
            dtypes=("float32",),
        )
        for axes in ([2, 3], [3, 2])
        for policy in ("stretch", "not_larger", "not_smaller")
    ),
    _case(_SHAPE, {"mode": "nearest", "axes": [3]}, _scales(2)),
    _case(
        _SHAPE,
        {"mode": "nearest", "axes": [-1, -2]},
        _scales(2, 3),
        expected=lambda x, *_, **__: np.repeat(np.repeat(x, 2, axis=3), 3, axis=2),
    ),
    # Crops.
    *(
        _case(
            _SHAPE,
            {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.5},
            sizes=_sizes(1, 2, 3, 4),
            roi=roi,
            dtypes=("float32",),
        )
        for mode in ("nearest", "linear", "cubic")
        for roi in (_scales(0, 0, 0.2, 0.3, 1, 1, 0.7, 0.9), _scales(0, 0, -0.4, 0.6, 1, 1, 1.3, 1.7))
    ),
    # Older versions.
    *(
        _case(_SHAPE, {"mode": mode}, scales, dtypes=("float32",), opset=opset, roi=_scales())
        for opset in (11, 13, 18)
        for mode in ("nearest", "linear")
        for scales in (_UP, _DOWN)
    ),
    *(
        Case(
            op=op,
            inputs=[Rand(_SHAPE), scales],
            attrs={"mode": mode},
            dtypes=("float32",),
            expected="ort_cpu",
            opset=opset,
            tolerance=_WEIGHTS,
            magnitude=_largest,
        )
        for op, opset in (("Resize", 10), ("Upsample", 9))
        for mode in ("nearest", "linear")
        for scales in ((_UP, _DOWN) if op == "Resize" else (_UP,))
    ),
    *(
        Case(
            op="Upsample",
            inputs=[Rand(_SHAPE)],
            attrs={"mode": mode, "scales": [1.0, 1.0, 2.0, 1.5]},
            dtypes=("float32",),
            expected="ort_cpu",
            opset=7,
            tolerance=_WEIGHTS,
            magnitude=_largest,
        )
        for mode in ("nearest", "linear")
    ),
    # Every type of every version.
    Case(
        op="Resize",
        inputs=[Rand(_SHAPE), _scales(), _UP],
        attrs={"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        dtypes=_ALL_TYPES,
        opset="11+",
        expected=_repeat,
    ),
    *(
        Case(op=op, inputs=[Rand(_SHAPE), _UP], dtypes=_ALL_TYPES, opset=opset, expected=_repeat, skip=skip)
        for op, opset, skip in (
            ("Resize", 10, {}),
            ("Upsample", 9, {}),
            ("Upsample", 10, {"session": "no model may use it"}),
        )
    ),
    Case(
        op="Upsample",
        inputs=[Rand(_SHAPE)],
        attrs={"scales": [1.0, 1.0, 2.0, 3.0]},
        dtypes=_ALL_TYPES,
        opset=7,
        expected=_repeat,
    ),
    *(
        Case(
            op="Resize",
            inputs=[Rand(_SHAPE, "float32"), Of((0, 0, 0.25, 0.5, 1, 1, 0.75, 1), dtype), None, _sizes(1, 2, 3, 4)],
            attrs={"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
            opset="11+" if dtype != "float32" else 13,
            expected="onnx_reference",
            tolerance=_WEIGHTS,
            magnitude=_largest,
            skip={"session": "the host reads sizes before it knows them"},
        )
        for dtype in ("float64", "float16", "float32")
    ),
    *(  # innermost dimensions that stay: bytes of all alignments, moved in the widest units there are
        _case((2, 4, 5, inner), {"mode": "nearest"}, scales, dtypes=("float32", "float16", "uint8", "int64"))
        for inner in (1, 2, 8, 12, 16, 33)
        for scales in (_scales(1, 2, 2, 1), _scales(1, 0.5, 1.3, 1))
    ),
    # Empty.
    _case((0, 2, 4, 5), {"mode": "nearest"}, _UP, expected=lambda *_, **__: np.zeros((0, 2, 8, 15))),
    _case(_SHAPE, {"mode": "linear"}, sizes=_sizes(1, 2, 0, 5), expected=lambda *_, **__: np.zeros((1, 2, 0, 5))),
    *(
        Case(
            op="Resize",
            inputs=[Rand(_SHAPE, "float32"), None, *more],
            attrs=attrs,
            error=("INVALID_ARGUMENT", text),
            opset=19,
        )
        for more, attrs, text in [
            ([_scales(1, 1, 2)], {}, "input scales has 3 values, 4 are needed"),
            ([_scales(1, 1, 0, 2)], {}, "the scale 0 of axis 2"),
            ([_UP, _sizes(1, 2, 3, 4)], {}, "exactly one of the inputs scales and sizes"),
            ([_UP], {"mode": "area"}, "mode is 'area'"),
            ([_UP], {"nearest_mode": "up"}, "nearest_mode is 'up'"),
            ([_UP], {"coordinate_transformation_mode": "tf_crop_and_resize"}, "input roi has 0 values"),
            ([_scales(2, 2)], {"axes": [1, -3]}, "names axis 1 twice"),
            ([_scales(2)], {"axes": [4]}, "attribute axes"),
        ]
    ),
    Case(
        op="Resize",
        inputs=[Rand(_SHAPE), None, _UP],
        attrs={"mode": "linear"},
        dtypes=("bool", "complex64"),
        error=("NOT_SUPPORTED", "interpolation of element type"),
        opset=19,
        skip={"session": "no CPU kernel either"},
    ),
]
