"""Operators on windows of an image: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"


class _Windows:
    """Kernel, strides, dilations and pads of so many spatial dimensions, and an image that they fit."""

    def __init__(self, d: Draw, spatial: int, dilate: bool, most: int = 4) -> None:
        self.kernel = [d.integer(1, most) for _ in range(spatial)]
        self.attrs: dict[str, Any] = {}
        self.strides = [d.integer(1, 3) for _ in range(spatial)] if d.chance(0.6) else [1] * spatial
        self.dilations = [d.integer(1, 2) for _ in range(spatial)] if dilate and d.chance(0.4) else [1] * spatial
        self.reach = [(k - 1) * step + 1 for k, step in zip(self.kernel, self.dilations, strict=True)]
        auto = d.pick(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", None, None])
        # The reference and the CPU provider do not agree on SAME with dilations; nor on steps over windows, which would
        # make pads negative.
        skips = any(step > reach for step, reach in zip(self.strides, self.reach, strict=True))
        if auto in ("SAME_UPPER", "SAME_LOWER") and (max(self.dilations) > 1 or skips):
            auto = None
        self.auto = auto or "NOTSET"
        if auto is not None:
            self.attrs["auto_pad"] = auto
        if max(self.strides) > 1 or d.chance(0.3):
            self.attrs["strides"] = self.strides
        if dilate and (max(self.dilations) > 1 or d.chance(0.3)):
            self.attrs["dilations"] = self.dilations
        self.pads = [0] * (2 * spatial)
        if self.auto == "NOTSET" and d.chance(0.6):
            self.pads = [d.integer(0, self.kernel[i % spatial] - 1) for i in range(2 * spatial)]
            self.attrs["pads"] = self.pads

    def image(self, d: Draw) -> list[int]:
        """Spatial dimensions of this feed, of one window at least."""
        room = {1: 30, 2: 9, 3: 4}[len(self.kernel)]
        return [reach + d.any(0, room) for reach in self.reach]


def _conv(d: Draw) -> Node:
    spatial = d.pick([1, 2, 2, 2, 3])
    windows = _Windows(d, spatial, dilate=True)
    group = d.pick([1, 1, 1, 2, 3])
    inner, outer = d.integer(1, 4), group * d.integer(1, 4)
    if d.chance(0.2):  # depthwise
        group, inner, outer = d.pick([(3, 1, 3), (4, 1, 8), (8, 1, 8)])
    attrs = {**windows.attrs, **({"group": group} if group > 1 or d.chance(0.2) else {})}
    if d.chance(0.5):
        attrs["kernel_shape"] = windows.kernel
    dtype = d.type()
    x = d.small(dtype, [d.any(1, 3), group * inner, *windows.image(d)])
    w = d.small(dtype, [outer, inner, *windows.kernel])
    return Node([x, w, d.small(dtype, [outer]) if d.chance(0.5) else None], attrs)


def convolved(x: np.ndarray, w: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """By the reference, in float64: exact."""
    names = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, None) for name in "xwy"]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attrs)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "conv", names[:2], names[2:]))
    feeds = {"x": x.astype(np.float64), "w": w.astype(np.float64)}
    return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0])


def _nhwc_conv(d: Draw) -> Node:
    node = _conv(d)
    x = node.inputs[0]
    assert x is not None
    return Node([np.moveaxis(x, 1, -1).copy(), *node.inputs[1:]], node.attrs, formula=_nhwc_formula)


def _nhwc_formula(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, **attrs: Any) -> np.ndarray:
    y = np.moveaxis(convolved(np.moveaxis(x, -1, 1), w, attrs), 1, -1)
    return y if bias is None else y + bias


def _conv_transpose(d: Draw) -> Node:
    spatial = d.pick([1, 2, 2, 3])
    windows = _Windows(d, spatial, dilate=True, most=3)
    dtype = d.type()
    group, inner, outer = d.pick([1, 1, 2]), d.integer(1, 3), d.integer(1, 3)
    if dtype == "float64":  # the reference alone has it, and groups wrong
        group = 1
    attrs = {**windows.attrs, **({"group": group} if group > 1 else {})}
    if windows.auto != "NOTSET":
        attrs.pop("auto_pad")  # the versions differ in what SAME means here
    if d.chance(0.5):
        attrs["kernel_shape"] = windows.kernel
    if d.chance(0.3):
        attrs["output_padding"] = [d.integer(0, s - 1) for s in windows.strides]
    x = d.small(dtype, [d.any(1, 2), group * inner, *(d.any(2, 6 if spatial < 3 else 3) for _ in range(spatial))])
    w = d.small(dtype, [group * inner, outer, *windows.kernel])
    return Node([x, w, d.small(dtype, [group * outer]) if d.chance(0.5) else None], attrs)


def _pool_attrs(d: Draw, windows: _Windows) -> dict[str, Any]:
    attrs = {**windows.attrs, "kernel_shape": windows.kernel}
    if "ceil_mode" in d.schema.attributes and windows.auto == "NOTSET":
        attrs.update(d.attrs(ceil_mode=[0, 1, None]))
    return attrs


def _max_pool(d: Draw) -> Node:
    windows = _Windows(d, d.pick([1, 2, 2, 3]), dilate=d.version >= 10)
    attrs = _pool_attrs(d, windows)
    indices = d.version >= 8 and d.chance(0.4)
    if indices:
        attrs.update(d.attrs(storage_order=[0, 0, 1, None]))
    # No NaN: whether it is the largest is left open.
    dtype = d.type()
    if d.version < 8 and dtype == "float64":  # the reference alone has it, makes SAME too short and mixes up pads
        attrs.pop("auto_pad", None)
        if pads := attrs.get("pads"):
            attrs["pads"] = [min(pads)] * len(pads)
    low = 0 if dtype.startswith("u") else -9
    x = d.values(dtype, [d.any(1, 2), d.any(1, 3), *windows.image(d)], low, 9, specials=False)
    return Node([x], attrs, (True, True) if indices else (True,))


# What only the reference pools, with dilations and rounded-up sizes wrong.
_ALONE = "float64"


def _average_pool(d: Draw) -> Node:
    dtype = d.type()
    windows = _Windows(d, d.pick([1, 2, 2, 3]), dilate=d.version >= 19 and dtype != _ALONE)
    attrs = {**_pool_attrs(d, windows), **d.attrs(count_include_pad=[0, 1, None])}
    if dtype == _ALONE:
        attrs.pop("ceil_mode", None)
    return Node([d.values(dtype, [d.any(1, 2), d.any(1, 3), *windows.image(d)], -4, 4, specials=False)], attrs)


def _lp_pool(d: Draw) -> Node:
    dtype = d.type()
    windows = _Windows(d, d.pick([1, 2, 2, 3]), dilate=d.version >= 18 and dtype != _ALONE)
    attrs = {**_pool_attrs(d, windows), **d.attrs(p=[1, 2, 3, None])}
    if dtype == _ALONE:
        attrs.pop("ceil_mode", None)
    return Node([d.values(dtype, [d.any(1, 2), d.any(1, 3), *windows.image(d)], -3, 3, specials=False)], attrs)


def _global_pool(d: Draw) -> Node:
    shape = [d.any(1, 3), d.any(1, 5), *d.dims(d.integer(1, 3), 1, elems=300)]
    attrs = d.attrs(p=[1, 2, 3, None]) if d.row.op == "GlobalLpPool" and d.version >= 2 else {}
    formula = _GLOBAL[d.row.op]  # the reference lacks one and has another for images alone
    return Node([d.values(d.type(), shape, -3, 3, specials=False)], attrs, formula=formula)


def _global_lp(x: np.ndarray, p: float = 2) -> np.ndarray:
    return np.asarray((np.abs(x) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p))


def _over_images(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda x: np.asarray(f(x, axis=tuple(range(2, x.ndim)), keepdims=True))


_GLOBAL = {
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": _over_images(np.max),
    "GlobalAveragePool": _over_images(np.mean),
}


def _max_unpool(d: Draw) -> Node:
    spatial = d.integer(1, 3)
    kernel = [d.integer(1, 3) for _ in range(spatial)]
    strides = kernel if d.chance(0.6) else [k + d.integer(0, 1) for k in kernel]
    shape = [d.any(1, 2), d.any(1, 3), *(d.any(1, 4) for _ in range(spatial))]
    output = [*shape[:2], *((n - 1) * s + k for n, s, k in zip(shape[2:], strides, kernel, strict=True))]
    image, count = int(np.prod(output[2:])), int(np.prod(shape[2:]))
    # Every place once: who writes last is open. Indices count through the whole output.
    picked = np.stack([np.sort(d.free.permutation(image)[:count]) for _ in range(shape[0] * shape[1])])
    indices = (picked + image * np.arange(shape[0] * shape[1])[:, None]).astype(np.int64).reshape(shape)
    attrs = {"kernel_shape": kernel, **({"strides": strides} if max(strides) > 1 or d.chance(0.5) else {})}
    given = np.array(output, np.int64) if d.chance(0.3) else None
    return Node([d.moved(d.type("T1"), shape), indices, given], attrs)


def _col2im(d: Draw) -> Node:
    spatial = d.pick([1, 2, 2, 3])
    windows = _Windows(d, spatial, dilate=True, most=3)
    image = windows.image(d)
    counts = [
        (n + windows.pads[i] + windows.pads[i + spatial] - windows.reach[i]) // windows.strides[i] + 1
        for i, n in enumerate(image)
    ]
    attrs = {name: value for name, value in windows.attrs.items() if name != "auto_pad"}
    shape = [d.any(1, 2), d.any(1, 3) * int(np.prod(windows.kernel)), int(np.prod(counts))]
    dtype = d.type()
    return Node([d.small(dtype, shape), np.array(image, np.int64), np.array(windows.kernel, np.int64)], attrs)


SPECS = {
    ("", "Conv"): _conv,
    ("", "ConvTranspose"): _conv_transpose,
    (MICROSOFT, "NhwcConv"): _nhwc_conv,
    ("", "MaxPool"): _max_pool,
    ("", "AveragePool"): _average_pool,
    ("", "LpPool"): _lp_pool,
    ("", "GlobalAveragePool"): _global_pool,
    ("", "GlobalMaxPool"): _global_pool,
    ("", "GlobalLpPool"): _global_pool,
    ("", "MaxUnpool"): _max_unpool,
    ("", "Col2Im"): _col2im,
}
