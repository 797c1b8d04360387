"""Normalizations."""

from __future__ import annotations

import numpy as np

from tests.op.cases import embed_layer_norm, group_norm
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"


def _epsilon(d: Draw) -> dict[str, float]:
    return {"epsilon": d.pick([1e-5, 1e-3, 0.1])} if d.chance(0.6) else {}


def _values(d: Draw, dtype: str, shape: list[int]) -> np.ndarray:
    """No infinities: what a row with one has for a mean is NaN, everywhere."""
    return d.values(dtype, shape, -4, 4, specials=False)


_SCALE = 4.0  # of what is added up before a small result is left


def _batch_normalization(d: Draw) -> Node:
    shape = [d.any(1, 3), d.any(1, 5), *d.dims(d.integer(0, 3), elems=128)]
    kinds = [d.type(d.schema.inputs[i].type) for i in (0, 1, 3)]
    channels = [shape[1]]
    attrs = {**_epsilon(d), **({"momentum": 0.7} if d.chance(0.3) else {})}
    inputs = [_values(d, kinds[0], shape), _values(d, kinds[1], channels), _values(d, kinds[1], channels),
              _values(d, kinds[2], channels), d.values(kinds[2], channels, 0.5, 4, specials=False)]  # fmt: skip
    return Node([*inputs], attrs, scale=_SCALE)


def _layer_normalization(d: Draw) -> Node:
    rank = d.integer(1, 4)
    shape = d.dims(rank, 1)
    axis = d.integer(0, rank - 1)
    attrs = {**_epsilon(d), "axis": d.negative(axis, rank)}
    op = d.row.op
    dtype = d.type("T")
    # Pairs that no kernel has the host takes apart, less exactly and, along axis 0, into moments of other dimensions.
    mixed = "V" in d.schema.types and (op == "SimplifiedLayerNormalization" or d.chance(0.2))
    scale = d.type("V") if mixed else dtype
    if op == "LayerNormalization" and not ("float32" in (dtype, scale) and "float64" not in (dtype, scale)):
        scale = dtype
    inputs = [_values(d, dtype, shape), _values(d, scale, shape[axis:])]
    outputs: tuple[bool, ...] = (True,)
    if op == "LayerNormalization":
        inputs += [_values(d, scale, shape[axis:])] if d.chance(0.6) else []
        outputs = d.pick([(True,), (True,), (True, True, True), (True, False, True)])
    return Node([*inputs], attrs, outputs, scale=_SCALE)


def _skip_normalization(d: Draw) -> Node:
    shape = d.dims(d.integer(2, 3), 1)
    dtype, row = d.type("T"), shape[-1:]
    bias = _values(d, dtype, row) if d.chance(0.4) else None
    beta = [_values(d, dtype, row) if d.chance(0.6) else None] if d.row.op == "SkipLayerNormalization" else []
    skip = shape if d.chance(0.7) or len(shape) == 2 else [1, *shape[1:]]
    outputs = d.pick([(True,), (True, False, False, True)])
    inputs = [_values(d, dtype, shape), _values(d, dtype, skip), _values(d, dtype, row), *beta, bias]
    return Node(inputs, _epsilon(d), outputs, scale=_SCALE)


def _instance_normalization(d: Draw) -> Node:
    shape = [d.any(1, 3), d.any(1, 4), *d.dims(d.integer(1, 3), 2, elems=128)]
    dtype = d.type()
    inputs = [_values(d, dtype, shape), _values(d, dtype, shape[1:2]), _values(d, dtype, shape[1:2])]
    return Node([*inputs], _epsilon(d), scale=_SCALE)


def _group_normalization(d: Draw) -> Node:
    groups = d.integer(1, 4)
    shape = [d.any(1, 2), groups * d.any(1, 3), *d.dims(d.integer(1, 3), 2, elems=128)]
    dtype, count = d.type(), [shape[1] if d.version >= 21 else groups]
    inputs = [_values(d, dtype, shape), _values(d, dtype, count), _values(d, dtype, count)]
    return Node([*inputs], {**_epsilon(d), "num_groups": groups}, scale=_SCALE,
                formula=group_norm._group_norm)  # fmt: skip  # others compute in float32 only


def _lp_normalization(d: Draw) -> Node:
    rank = d.integer(1, 4)
    axis = {"axis": d.negative(d.integer(0, rank - 1), rank)} if d.chance(0.7) else {}
    return Node([_values(d, d.type(), d.dims(rank, 1))], {**axis, **d.attrs(p=[1, 2, None])})


def _mean_variance_normalization(d: Draw) -> Node:
    rank = 4 if d.chance(0.5) else d.integer(1, 5)
    attrs = {} if rank == 4 and d.chance(0.5) else {"axes": sorted(d.subset(range(rank), 1))}
    return Node([_values(d, d.type(), d.dims(rank, 2, elems=700))], attrs, scale=_SCALE,
                formula=group_norm._mean_variance)  # fmt: skip


def _lrn(d: Draw) -> Node:
    shape = [d.any(1, 2), d.any(1, 9), *d.dims(d.integer(2, 2), 1, elems=64)]
    attrs = {"size": d.pick([1, 3, 5, 7])}
    attrs.update({name: d.real(*limits) for name, limits in
                  {"alpha": (0, 0.5), "beta": (0.3, 1), "bias": (0.5, 2)}.items() if d.chance(0.5)})  # fmt: skip
    return Node([_values(d, d.type(), shape)], attrs, formula=_lrn_formula)


def _lrn_formula(x: np.ndarray, size: int, alpha: float = float(np.float32(1e-4)), beta: float = 0.75,
                 bias: float = 1.0) -> np.ndarray:  # fmt: skip
    """The reference adds up other channels."""
    low, channels = (size - 1) // 2, x.shape[1]
    total = np.stack([(x[:, max(c - low, 0) : c + size - low] ** 2).sum(axis=1) for c in range(channels)], axis=1)
    return np.asarray(x / (bias + alpha / size * total) ** beta)


def _microsoft_group_norm(d: Draw) -> Node:
    groups, image = d.integer(1, 3), d.dims(2, 2, elems=60)
    channels, last = groups * d.any(1, 3), d.chance(0.6)
    n = d.any(1, 2)
    shape = [n, *image, channels] if last else [n, channels, *image]
    attrs = {**_epsilon(d), "groups": groups, "activation": d.integer(0, 1), "channels_last": int(last)}
    affine = d.type("M")
    return Node([_values(d, d.type("T"), shape), _values(d, affine, [channels]), _values(d, affine, [channels])], attrs,
                scale=_SCALE, formula=group_norm._microsoft)  # fmt: skip


def _of_a_rounded_sum(kind: str) -> Tolerance | None:
    """A sum of 16 bits is rounded before its few values give a mean, and a small deviation divides."""
    return Tolerance(4, terms=2.0**17) if kind == "float16" else None


def _skip_group_norm(d: Draw) -> Node:
    groups, image = d.integer(1, 3), d.dims(2, 2, elems=60)
    channels, last, n = groups * d.any(1, 3), d.chance(0.6), d.any(1, 2)
    shape = [n, *image, channels] if last else [n, channels, *image]
    skip = d.pick([shape, [n, channels], [n, 1, 1, channels] if last else [n, channels, 1, 1]])
    attrs = {**_epsilon(d), "groups": groups, "activation": d.integer(0, 1), "channels_last": int(last)}
    kind, affine = d.type("T"), d.type("M")
    inputs = [_values(d, kind, shape), _values(d, affine, [channels]), _values(d, affine, [channels]),
              _values(d, kind, skip), _values(d, kind, [channels]) if d.chance(0.5) else None]  # fmt: skip
    return Node([*inputs], attrs, (True, d.chance(0.6)), scale=_SCALE, formula=group_norm._skip,
                tolerance=_of_a_rounded_sum(kind))  # fmt: skip


def _embed_layer_normalization(d: Draw) -> Node:
    kind, rows, steps, width = d.type("T"), d.any(1, 4), d.any(1, 9), d.dim(4)
    ids, counts = [rows, steps], (d.any(1, 20), steps + d.any(0, 4), d.any(1, 3))
    segments, mask, places = d.chance(0.6), d.chance(0.5), d.chance(0.3)

    def whole(end: int, shape: list[int]) -> np.ndarray:
        return d.free.integers(0, end, shape).astype(np.int32)

    inputs = [
        whole(counts[0], ids), whole(counts[2], ids) if segments else None,
        *(_values(d, kind, [count, width]) for count in counts[:2]),
        _values(d, kind, [counts[2], width]) if segments else None,
        *(_values(d, kind, [width]) for _ in range(2)),
        whole(2, ids) if mask else None, whole(counts[1], [d.pick([1, rows]), steps]) if places else None,
    ]  # fmt: skip
    wide = d.chance(0.5)
    # The host's inference wants the dimensions of the tables.
    known = frozenset({2, 3, 5, 6, *([4] if segments else [])})
    return Node(inputs, _epsilon(d), (True, True, True) if wide else (True, True), constants=known, widen=False,
                tolerance=_of_a_rounded_sum(kind), scale=_SCALE,
                formula=embed_layer_norm._embedded if wide else embed_layer_norm._kept)  # fmt: skip


SPECS = {
    (MICROSOFT, "SkipGroupNorm"): _skip_group_norm,
    (MICROSOFT, "EmbedLayerNormalization"): _embed_layer_normalization,
    ("", "BatchNormalization"): _batch_normalization,
    ("", "LayerNormalization"): _layer_normalization,
    ("", "SimplifiedLayerNormalization"): _layer_normalization,
    ("", "RMSNormalization"): _layer_normalization,
    (MICROSOFT, "SkipLayerNormalization"): _skip_normalization,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _skip_normalization,
    ("", "InstanceNormalization"): _instance_normalization,
    ("", "GroupNormalization"): _group_normalization,
    ("", "LpNormalization"): _lp_normalization,
    ("", "MeanVarianceNormalization"): _mean_variance_normalization,
    ("", "LRN"): _lrn,
    (MICROSOFT, "GroupNorm"): _microsoft_group_norm,
}
