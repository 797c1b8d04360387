"""Mixtures of experts. The CPU provider has a part of the attributes; the case table's formula is the other judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op.cases import moe

from ..draw import Draw, Node
from .windows import MICROSOFT


def _attrs(d: Draw) -> tuple[dict[str, Any], bool]:
    """Attributes of both operators, and whether there is a third matrix."""
    name = d.pick(["identity", "relu", "relu2", "gelu", "silu", "swiglu", "geglu"])
    attrs: dict[str, Any] = {"activation_type": name, "k": d.integer(1, 3)}
    # CPU provider and formula agree on QMoE where the weights are normalised.
    attrs["normalize_routing_weights"] = 1 if "quant_type" in d.schema.attributes else d.integer(0, 1)
    third = name != "geglu" and d.chance(0.3)
    if name in ("swiglu", "geglu") and not third:
        attrs["swiglu_fusion"] = d.integer(1, 2)
    if name == "swiglu":
        attrs |= {"activation_alpha": d.real(0.5, 2), "activation_beta": d.real(0, 1)}
        if d.chance(0.5):
            attrs |= {"swiglu_limit": d.real(0.5, 3), "swiglu_limit_after_activation": d.integer(0, 1)}
    return attrs, third


def _plan(d: Draw, step: int) -> tuple[list[int], int, int, int]:
    """Dimensions of the tokens, experts, hidden and inner size, these two multiples of `step`."""
    tokens = d.dims(d.integer(1, 2), 0, elems=40)
    return tokens, d.any(3, 9), step * d.any(1, 64 // step), step * d.any(1, 64 // step)


def _rows(attrs: dict[str, Any], inner: int) -> int:
    return inner * (2 if "swiglu_fusion" in attrs else 1)


def _matrices(attrs: dict[str, Any], third: bool, hidden: int, inner: int) -> list[tuple[int, int]]:
    shapes = [(_rows(attrs, inner), hidden), (hidden, inner), (inner, hidden)]
    return shapes if third else shapes[:2]


def _floats(d: Draw, dtype: str, shape: list[int], size: float) -> np.ndarray:
    return d.values(dtype, shape, -size, size, specials=False)


def _moe(d: Draw) -> Node:
    attrs, third = _attrs(d)
    dtype, (tokens, experts, hidden, inner) = d.type(), _plan(d, 1)
    inputs: list[np.ndarray | None] = [_floats(d, dtype, [*tokens, hidden], 1)]
    inputs.append(_floats(d, dtype, [int(np.prod(tokens)), experts], 2))
    for n, k in _matrices(attrs, third, hidden, inner):
        bias = d.chance(0.5)
        inputs.append(_floats(d, dtype, [experts, n, k], 0.5))
        inputs.append(_floats(d, dtype, [experts, n], 1) if bias else None)
    return Node(inputs, attrs, formula=moe._plain, tolerance=moe._TOLERANCE[dtype], scale=8)


def _qmoe(d: Draw) -> Node:
    attrs, third = _attrs(d)
    bits, block = d.pick([4, 8]), d.pick([0, 16, 32])
    attrs |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    dtype, (tokens, experts, hidden, inner) = d.type(), _plan(d, block or 2)
    zeros = d.chance(0.5)
    inputs: list[np.ndarray | None] = [None] * 14
    inputs[0] = _floats(d, dtype, [*tokens, hidden], 1)
    inputs[1] = _floats(d, dtype, [int(np.prod(tokens)), experts], 2)
    for i, (n, k) in enumerate(_matrices(attrs, third, hidden, inner)):
        blocks = [k // block] if block else []
        bias = d.chance(0.5)
        inputs[2 + 3 * i] = d.free.integers(0, 256, (experts, n, k * bits // 8)).astype(np.uint8)
        inputs[3 + 3 * i] = d.values(dtype, [experts, n, *blocks], 0.5 / 2**bits, 1.5 / 2**bits, specials=False)
        inputs[4 + 3 * i] = _floats(d, dtype, [experts, n], 1) if bias else None
        if zeros:
            packed = [n, -(-blocks[0] * bits // 8)] if block else [-(-n * bits // 8)]
            inputs[11 + i] = d.free.integers(0, 256, (experts, *packed)).astype(np.uint8)
    while inputs[-1] is None:
        inputs.pop()
    return Node(inputs, attrs, formula=moe._quantized, tolerance=moe._TOLERANCE[dtype], scale=8)


SPECS = {(MICROSOFT, "MoE"): _moe, (MICROSOFT, "QMoE"): _qmoe}
