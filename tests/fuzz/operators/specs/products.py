"""Matrix products, einsum and products with packed weights."""

from __future__ import annotations

import numpy as np

from tests.op.harness.dtypes import is_float
from tests.op.harness.tolerances import Tolerance

from ..draw import Draw, Node

MICROSOFT = "com.microsoft"


def _batches(d: Draw) -> tuple[list[int], list[int]]:
    """Leading dimensions of two matrices; they broadcast."""
    batch = d.dims(d.integer(0, 2), elems=12)
    return (d.partner(batch), batch) if d.chance(0.5) else (batch, d.partner(batch))


def _matmul(d: Draw) -> Node:
    m, k, n = (d.dim() for _ in range(3))
    a, b = _batches(d)
    a, b = [*a, m, k], [*b, k, n]
    kind = d.integer(0, 9)
    if kind == 0:
        a = [k]
    elif kind == 1:
        b = [k]
    elif kind == 2:
        a, b = [k], [k]
    dtype = d.type(d.schema.inputs[0].type)
    return Node([d.small(dtype, a), d.small(dtype, b)])


def _gemm(d: Draw) -> Node:
    m, k, n = (d.dim() for _ in range(3))
    attrs = d.attrs(transA=[0, 1, None], transB=[0, 1, None])
    for name in ("alpha", "beta"):
        if d.chance(0.5):
            attrs[name] = d.pick([0.0, 1.0, 0.5, d.real(-2, 2)])
    a = [k, m] if attrs.get("transA") else [m, k]
    b = [n, k] if attrs.get("transB") else [k, n]
    dtype = d.type()
    d.full = False  # the reference computes integers in float64
    if not is_float(dtype):
        attrs.pop("alpha", None), attrs.pop("beta", None)  # what a fraction of an integer is, is open
    c = None
    if d.version < 11 or d.chance(0.7):
        c = d.small(dtype, d.pick([[m, n], [1, n], [m, 1], [n], [1], [], [1, 1]]))
    return Node([d.small(dtype, a), d.small(dtype, b), c], attrs)


def _fused_matmul(d: Draw) -> Node:
    m, k, n = (d.dim(1) for _ in range(3))
    batch = d.dims(d.integer(0, 2), 1, elems=12)
    attrs = d.attrs(transA=[0, 1, None], transB=[0, 1, None])
    if "transBatchA" in d.schema.attributes and batch and d.chance(0.4):
        attrs.update(d.attrs(transBatchA=[0, 1], transBatchB=[0, 1]))
    if d.chance(0.6):
        attrs["alpha"] = d.real(-2, 2)

    def side(name: str, rows: int, columns: int) -> list[int]:
        first, second = (columns, rows) if attrs.get(f"trans{name}") else (rows, columns)
        if attrs.get(f"transBatch{name}"):  # the batch stands between the two
            return [first, *batch, second]
        return [*batch, first, second]

    dtype = d.type(d.schema.inputs[0].type)
    inputs = [d.small(dtype, side("A", m, k)), d.small(dtype, side("B", k, n))]
    return Node([*inputs], attrs, formula=_fused_product)


def _fused_product(a: np.ndarray, b: np.ndarray, alpha: float = 1.0, **attrs: int) -> np.ndarray:
    def side(x: np.ndarray, name: str) -> np.ndarray:
        x = np.moveaxis(x, 0, -2) if attrs.get(f"transBatch{name}") else x
        return x.swapaxes(-1, -2) if attrs.get(f"trans{name}") else x

    return alpha * (side(a, "A") @ side(b, "B"))


# Sums of one input and products of two are rounded before the next input comes.
_ROUNDED = {"float16": Tolerance(2, terms=2.0**14), "bfloat16": Tolerance(2, terms=2.0**17)}


def _einsum(d: Draw) -> Node:
    letters = "abcdef"[: d.integer(1, 5)]
    size = {letter: d.any(1, 5) for letter in letters}
    dots = d.dims(d.integer(1, 2), 1, elems=6) if d.chance(0.2) else None
    terms, shapes = [], []
    for _ in range(d.integer(1, 3)):
        term = "".join(d.pick(letters) for _ in range(d.integer(1, 3)))
        if dots is not None:
            at = d.integer(0, len(term))
            terms.append(f"{term[:at]}...{term[at:]}")
            shapes.append([*(size[c] for c in term[:at]), *dots, *(size[c] for c in term[at:])])
        else:
            terms.append(term)
            shapes.append([size[c] for c in term])
    used = sorted({c for term in terms for c in term if c != "."})
    equation = ",".join(terms)
    if d.chance(0.8):
        result = "".join(d.subset(used))
        equation += f"->{'...' if dots is not None else ''}{result}"
    dtype = d.type()
    rounded = _ROUNDED.get(dtype) if len(shapes) > 1 else None
    return Node([d.small(dtype, shape) for shape in shapes], {"equation": equation}, tolerance=rounded)


def _matmul_nbits(d: Draw) -> Node:
    bits, block = d.pick([2, 4, 8]), d.pick([16, 32, 64])
    k, n = d.integer(1, 100), d.integer(1, 20)
    blocks = -(-k // block)
    dtype = d.type("T1")
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
    a = d.small(dtype, [*d.dims(d.integer(1, 2), 1, elems=20), k])
    weights = d.free.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = d.values(dtype, [n * blocks], 0.01, 0.1, specials=False)
    zeros = None
    if d.chance(0.5):
        zeros = d.free.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
    bias = d.small(dtype, [n]) if d.chance(0.3) else None
    sums = Tolerance(4, abs=2.0**-23 * k * 2**bits, reason="sums of weights of both signs cancel")
    # Where any feed has more than 16 rows the weights become a matrix first, which rounds, 2 bits up to three times.
    return Node(
        [a, weights, scales, zeros, None, bias],
        attrs,
        constants=frozenset({5}),  # the host wants its shape
        tolerance=_ROUNDED.get(dtype, sums),
    )


SPECS = {
    ("", "MatMul"): _matmul,
    ("", "Gemm"): _gemm,
    ("", "Einsum"): _einsum,
    (MICROSOFT, "FusedMatMul"): _fused_matmul,
    (MICROSOFT, "TransposeMatMul"): _fused_matmul,
    (MICROSOFT, "MatMulNBits"): _matmul_nbits,
}
