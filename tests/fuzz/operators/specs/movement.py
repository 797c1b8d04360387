"""Operators that move values: shapes, copies, joins, cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..draw import Draw, Node


def ints(values: Sequence[int], dtype: str = "int64") -> np.ndarray:
    """A vector."""
    return np.array(values, dtype).reshape(len(values))


def _first_type(d: Draw) -> str:
    return d.type(d.schema.inputs[0].type)


def _identity(d: Draw) -> Node:
    return Node([d.moved(_first_type(d), d.shape())])


def _shape(d: Draw) -> Node:
    attrs = {}
    if d.version >= 15:
        attrs = {name: d.integer(-7, 7) for name in d.subset(["start", "end"])}
    return Node([d.moved(_first_type(d), d.shape())], attrs, formula=_extent)


def _extent(x: np.ndarray, start: int = 0, end: int | None = None) -> np.ndarray:
    """The reference does not clamp."""
    return np.array(x.shape[start:end], np.int64)


def _flatten(d: Draw) -> Node:
    rank = d.integer(0, 5) if d.version >= 9 else d.integer(1, 5)
    axis = d.integer(0, rank)
    attrs = {"axis": d.negative(axis, rank, 11) if axis < rank else axis} if d.chance(0.8) or rank == 0 else {}
    return Node([d.moved(_first_type(d), d.dims(rank))], attrs)


def _reshape(d: Draw) -> Node:
    shape = d.shape()
    target: list[int] = []
    for dim in shape:  # each dimension stays, is split, or joins its neighbour
        kind = d.integer(0, 3)
        half = next((f for f in (2, 3, 5) if dim and dim % f == 0), 1)
        if kind == 0 and target:
            target[-1] *= dim
        elif kind == 1:
            target += [half, dim // half]
        else:
            target.append(dim)
    allow = 1 if d.version >= 14 and d.chance(0.4) else 0
    if not allow:
        # A zero means the input's dimension there; without such a one the target cannot be said.
        target = [t if t or (i < len(shape) and shape[i] == 0) else -1 for i, t in enumerate(target)]
        if target.count(-1) > 1 or (-1 in target and math.prod(shape) == 0 and 0 in target):
            target = list(shape)
        for index, dim in enumerate(target):
            if index < len(shape) and dim == shape[index] and d.chance(0.3):
                target[index] = 0
    known = math.prod(shape[i] if t == 0 and not allow else t for i, t in enumerate(target) if t != -1)
    if target and -1 not in target and known and d.chance(0.4) and not (allow and 0 in target):
        target[d.integer(0, len(target) - 1)] = -1
    attrs = {"allowzero": allow} if d.version >= 14 and (allow or d.chance(0.3)) else {}
    return Node([d.moved(_first_type(d), shape), ints(target)], attrs)


def _axes_of(d: Draw, axes: list[int], rank: int, attribute_before: int) -> tuple[dict[str, list[int]], list]:
    named = [d.negative(axis, rank, 11) for axis in axes]
    return ({"axes": named}, []) if d.version < attribute_before else ({}, [ints(named)])


def _squeeze(d: Draw) -> Node:
    rank = d.integer(0, 6)
    ones = [axis for axis in range(rank) if d.chance(0.4)]
    shape = [1 if axis in ones else dim for axis, dim in enumerate(d.dims(rank))]
    dtype = _first_type(d)
    if d.chance(0.3) or not ones:
        return Node([d.moved(dtype, shape)])
    attrs, more = _axes_of(d, d.subset(ones, 1), rank, 13)
    return Node([d.moved(dtype, shape), *more], attrs)


def _unsqueeze(d: Draw) -> Node:
    rank, new = d.integer(0, 4), d.integer(1, 3)
    attrs, more = _axes_of(d, d.subset(range(rank + new), new)[:new], rank + new, 13)
    return Node([d.moved(_first_type(d), d.dims(rank)), *more], attrs)


def _transpose(d: Draw) -> Node:
    rank = d.integer(0, 6)
    attrs = {"perm": d.subset(range(rank), rank)} if d.chance(0.8) and rank else {}
    return Node([d.moved(_first_type(d), d.dims(rank))], attrs)


def _expand(d: Draw) -> Node:
    shape = d.shape()
    target = [
        dim if have == 1 else d.pick([1, have]) for have, dim in zip(shape, d.dims(len(shape), elems=64), strict=True)
    ]
    target = [*d.dims(d.integer(0, 2), elems=16), *target]
    dropped = d.integer(0, len(target)) if d.chance(0.3) else 0
    return Node([d.moved(d.type(), shape), ints(target[dropped:])])


def _tile(d: Draw) -> Node:
    shape = d.shape(1 if d.version < 13 else 0)  # the CPU provider of old versions wants a rank
    return Node([d.moved(d.type(), shape), ints([d.any(0, 3) if d.chance(0.7) else 1 for _ in shape])])


def _concat(d: Draw) -> Node:
    rank = d.integer(1, 5)
    axis = d.integer(0, rank - 1)
    count = d.integer(1, 5) if d.chance(0.9) else d.integer(6, 40)
    shape, dtype = d.dims(rank, elems=512), d.type()
    parts = [[d.dim() if a == axis else dim for a, dim in enumerate(shape)] for _ in range(count)]
    return Node([d.moved(dtype, part) for part in parts], {"axis": d.negative(axis, rank, 11)})


def _split(d: Draw) -> Node:
    rank, count = d.integer(1, 5), d.integer(1, 5) if d.chance(0.9) else d.integer(6, 20)
    axis = d.integer(0, rank - 1)
    parts = [d.dim() for _ in range(count)]
    dtype = d.type()
    attrs = {"axis": d.negative(axis, rank, 11)} if axis or d.chance(0.7) else {}
    shape = d.dims(rank, elems=256)
    shape[axis] = sum(parts)
    if d.chance(0.5):  # the operator divides
        chunk = d.any(1, 5)
        shape[axis] = chunk * count
        if d.version >= 18:
            attrs["num_outputs"] = count
            uneven = chunk * (count - 1) + d.any(1, chunk)  # the last one is smaller
            shape[axis] = uneven if -(-uneven // count) == chunk else shape[axis]
        return Node([d.moved(dtype, shape)], attrs, (True,) * count)
    data = d.moved(dtype, shape)
    if d.version < 13:
        return Node([data], {**attrs, "split": parts}, (True,) * count)
    return Node([data, ints(parts)], attrs, (True,) * count)


def _slice(d: Draw) -> Node:
    rank = d.integer(1, 5)
    shape = d.dims(rank)
    axes = d.subset(range(rank), 1)
    far = [2**31 - 1, -(2**31), 10_000, -10_000]
    edge = [d.any(-shape[a] - 2, shape[a] + 2) if d.chance(0.85) else d.pick(far) for a in axes]
    stop = [d.any(-shape[a] - 2, shape[a] + 2) if d.chance(0.7) else d.pick(far) for a in axes]
    if d.version < 10:
        attrs = {"starts": edge, "ends": stop}
        ordered = sorted(axes) == list(range(len(axes))) and d.chance(0.5)
        return Node([d.moved(d.type(), shape)], attrs if ordered and axes == sorted(axes) else {**attrs, "axes": axes})
    kind = d.type("Tind")
    steps = [d.pick([1, 1, 2, 3, 100, -1, -2, -7, 2**31 - 1]) for _ in axes] if d.chance(0.7) else None
    named = [d.negative(a, rank, 11) for a in axes]
    given = ints(named, kind)
    if steps is None and d.chance(0.3):
        axes_in, edge, stop = None, edge[:rank], stop[:rank]
    else:
        axes_in = given
    more = [axes_in, None if steps is None else ints(steps, kind)]
    return Node([d.moved(d.type(), shape), ints(edge, kind), ints(stop, kind), *more])


def _depth_to_space(d: Draw) -> Node:
    block = d.integer(1, 3)
    n, c, h, w = d.dims(4, 1, elems=256)
    mode = {"mode": d.pick(["DCR", "CRD"])} if d.version >= 11 and d.chance(0.7) else {}
    return Node([d.moved(d.type(), [n, c * block**2, h, w])], {"blocksize": block, **mode})


def _space_to_depth(d: Draw) -> Node:
    block = d.integer(1, 3)
    n, c, h, w = d.dims(4, 1, elems=256)
    return Node([d.moved(d.type(), [n, c, h * block, w * block])], {"blocksize": block})


def _pad(d: Draw) -> Node:
    rank = d.integer(1, 5)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if d.version >= 19 else [])
    mode, dtype = d.pick(modes), d.type()
    shape = d.dims(rank, 0 if mode == "constant" else 1, elems=256)
    axes = d.subset(range(rank)) if d.version >= 18 and d.chance(0.4) else list(range(rank))
    amounts = []
    for _ in (0, 1):
        for axis in axes:
            most = min(shape[axis] - 1, 4) if mode in ("reflect", "wrap") else 4
            least = -(shape[axis] // 3) if mode == "constant" else 0  # what is cut and then mirrored has no one reading
            amounts.append(d.any(least, most) if d.chance(0.8) else 0)
    attrs = {"mode": mode} if mode != "constant" or d.chance(0.5) else {}
    if d.version < 11 and not d.row.domain:
        value = {"value": d.real(-3, 3)} if d.chance(0.5) else {}
        return Node([d.moved(dtype, shape)], {**attrs, **value, "pads": amounts})
    value_in = d.values(dtype, ()) if mode == "constant" and d.chance(0.7) else None
    named = None
    if axes != list(range(rank)):
        named = ints([d.negative(a, rank) for a in axes], d.type("Tind"))
    return Node([d.moved(dtype, shape), ints(amounts), value_in, named], attrs)


def _trilu(d: Draw) -> Node:
    shape = d.dims(d.integer(2, 5))
    k = np.array(d.any(-8, 8), np.int64) if d.chance(0.7) else None
    return Node([d.moved(d.type(), shape), k], d.attrs(upper=[0, 1, None]))


def _center_crop_pad(d: Draw) -> Node:
    rank = d.integer(1, 5)
    shape = d.dims(rank)
    axes = d.subset(range(rank), 1) if d.chance(0.6) else None
    target = ints([d.any(1, 9) for _ in (axes or shape)], d.type("Tind"))
    attrs = {} if axes is None else {"axes": [d.negative(a, rank) for a in axes]}
    return Node([d.moved(d.type(), shape), target], attrs)


def _reverse_sequence(d: Draw) -> Node:
    shape = d.dims(d.integer(2, 5), 1)
    time = d.integer(0, 1)
    lengths = d.free.integers(1, shape[time], shape[1 - time], endpoint=True).astype(np.int64)
    return Node([d.moved(d.type(), shape), lengths], {"time_axis": time, "batch_axis": 1 - time})


def _unfold(d: Draw) -> Node:
    rank = d.integer(1, 4)
    size, dim = d.integer(1, 4), d.integer(0, rank - 1)
    shape = d.dims(rank, elems=256)
    shape[dim] = max(shape[dim], size)
    attrs = {"size": size, "dim": d.negative(dim, rank), **d.attrs(step=[1, 2, 3, None])}
    return Node([d.moved(d.type(), shape)], attrs)


SPECS = {
    ("com.microsoft", "Pad"): _pad,
    ("com.microsoft", "Trilu"): _trilu,
    ("com.microsoft", "UnfoldTensor"): _unfold,
    ("", "Identity"): _identity,
    ("", "Size"): _identity,
    ("", "Shape"): _shape,
    ("", "Flatten"): _flatten,
    ("", "Reshape"): _reshape,
    ("", "Squeeze"): _squeeze,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Transpose"): _transpose,
    ("", "Expand"): _expand,
    ("", "Tile"): _tile,
    ("", "Concat"): _concat,
    ("", "Split"): _split,
    ("", "Slice"): _slice,
    ("", "DepthToSpace"): _depth_to_space,
    ("", "SpaceToDepth"): _space_to_depth,
    ("", "Pad"): _pad,
    ("", "Trilu"): _trilu,
    ("", "CenterCropPad"): _center_crop_pad,
    ("", "ReverseSequence"): _reverse_sequence,
}
