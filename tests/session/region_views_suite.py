"""What compiled regions make of data that is moved about: the same bits, and attention of packed projections.

    python -m tests.session.region_views_suite LIBRARY

Chains of Reshape, Transpose, Slice, Gather, Split and the like at random; packed queries, keys and values in every
order that exporters write them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort

from tests.session.fusion_models import BATCH, HEAD, HEADS, HIDDEN, STEPS, Graph
from tests.session.region_fusion_suite import rewritten
from tests.session.region_support import joined
from tests.session.suite import logged, on_one_host, run_checks

TOKENS = 10  # a fixed length


@dataclass
class Mover:
    """A chain of nodes that move what the last one made, drawn at random; `dims` of a batch of BATCH."""

    graph: Graph
    value: str
    dims: list[int]

    def ints(self, *numbers: int) -> str:
        return self.graph.constant(list(numbers), np.int64)

    def step(self) -> None:
        ways: list[Callable[[Any], None]] = [
            self._turn, self._turn, self._apart, self._together, self._cut, self._one, self._pad,
        ]  # fmt: skip
        ways[self.graph.rng.integers(len(ways))](self.graph.rng)

    def _turn(self, rng: Any) -> None:
        perm = [int(axis) for axis in rng.permutation(len(self.dims))]
        self.value = self.graph.add("Transpose", self.value, perm=perm)
        self.dims = [self.dims[axis] for axis in perm]

    def _reshape(self, dims: list[int]) -> None:
        target = [-1 if dim == BATCH else dim for dim in dims]
        if target.count(-1) == 1:
            self.value = self.graph.add("Reshape", self.value, self.ints(*target))
            self.dims = dims

    def _apart(self, rng: Any) -> None:
        axis = int(rng.integers(len(self.dims)))
        for factor in (2, 3, 5):
            size = self.dims[axis]
            if size != BATCH and size % factor == 0 and len(self.dims) < 6:
                first, second = (factor, size // factor) if rng.integers(2) else (size // factor, factor)
                if BATCH not in (first, second):
                    return self._reshape([*self.dims[:axis], first, second, *self.dims[axis + 1 :]])
        return None

    def _together(self, rng: Any) -> None:
        axis = int(rng.integers(len(self.dims)))
        pair = self.dims[axis : axis + 2]
        if len(pair) == 2 and BATCH not in pair and pair[0] * pair[1] != BATCH:
            self._reshape([*self.dims[:axis], pair[0] * pair[1], *self.dims[axis + 2 :]])

    def _cut(self, rng: Any) -> None:
        axis = int(rng.integers(len(self.dims)))
        size = self.dims[axis]
        if size == BATCH or size < 4:
            return
        begin = int(rng.integers(size - 1))
        end = begin + 1 + int(rng.integers(size - begin))
        if end - begin == BATCH:
            return
        self.value = self.graph.add(
            "Slice", self.value, self.ints(begin), self.ints(end), self.ints(axis - len(self.dims)), self.ints(1)
        )
        self.dims[axis] = end - begin

    def _pad(self, rng: Any) -> None:
        """By nothing most of the time, and cut to all that there is."""
        axis = int(rng.integers(len(self.dims)))
        more = int(rng.integers(2)) if rng.integers(3) == 0 and self.dims[axis] + 1 != BATCH else 0
        pads = [more if i == axis and self.dims[axis] != BATCH else 0 for i in range(len(self.dims))]
        self.value = self.graph.add("Pad", self.value, self.ints(*pads, *([0] * len(pads))))
        self.dims = [dim + pad for dim, pad in zip(self.dims, pads, strict=True)]
        if self.dims[axis] != BATCH:
            end = self.dims[axis]
            self.value = self.graph.add("Slice", self.value, self.ints(0), self.ints(end), self.ints(axis))

    def _one(self, rng: Any) -> None:
        axis = int(rng.integers(len(self.dims)))
        size = self.dims[axis]
        if size == BATCH or len(self.dims) < 3:
            return
        at = int(rng.integers(-size, size))
        if rng.integers(2):
            self.value = self.graph.add("Gather", self.value, self.graph.constant(at, np.int64), axis=axis)
        else:
            parts = self.graph.several("Split", self.value, self.ints(*([1] * size)), axis=axis, outputs=size)
            self.value = self.graph.add("Squeeze", parts[at], self.ints(axis))
        del self.dims[axis]


@on_one_host
def check_random_moves() -> None:
    """Every bit, of any batch, also where others read what lies between."""
    composed = 0
    ort.set_default_logger_severity(0)
    for seed in range(60):
        graph = Graph(rng=np.random.default_rng(seed))
        x = graph.feed("x", graph.normal(BATCH, 12, 1, 30, dtype=np.float16))
        mover = Mover(graph, x, [BATCH, 12, 1, 30])
        seen: list[str] = []
        for _ in range(8):
            mover.step()
            if mover.value != x and graph.rng.integers(6) == 0:
                seen.append(graph.add("Relu", mover.value))
        graph.outputs = [*seen, graph.add("Neg", mover.value)]
        model = graph.model()
        with logged("fusion views: ") as lines:
            fused = joined(model, {"fusion": "1"})
        plain, composed = joined(model), composed + len(lines)
        for batch in (BATCH, 1, 3, 0):
            feed = {"x": graph.normal(batch, 12, 1, 30, dtype=np.float16)}
            for mine, twin in zip(fused.run(None, feed), plain.run(None, feed), strict=True):
                np.testing.assert_array_equal(mine, twin)
    ort.set_default_logger_severity(2)
    assert composed > 20, composed


def _attention(graph: Graph, q: str, k: str, v: str, dtype: type) -> str:
    """Of [batch, heads, rows, size]."""
    keys = graph.add("Transpose", k, perm=[0, 1, 3, 2])
    scores = graph.add("Mul", graph.add("MatMul", q, keys), graph.constant(HEAD**-0.5, dtype))
    return graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)


def _unbound(graph: Graph, value: str, axis: int, way: str) -> list[str]:
    """The three positions of an axis, without it."""
    index = graph.constant([axis], np.int64)
    if way == "gather":
        return [graph.add("Gather", value, graph.constant(i, np.int64), axis=axis) for i in range(3)]
    if way == "split":
        sizes = graph.constant([1, 1, 1], np.int64)
        parts = graph.several("Split", value, sizes, axis=axis, outputs=3)
    else:
        bounds = [graph.constant([i], np.int64) for i in range(4)]
        parts = [graph.add("Slice", value, bounds[i], bounds[i + 1], index) for i in range(3)]
    return [graph.add("Squeeze", part, index) for part in parts]


def _packed(order: str, way: str, dtype: type) -> Graph:
    """[batch, rows, 3, heads, size], taken apart where it lies or behind a Transpose."""
    g = Graph()
    x = g.feed("x", g.normal(BATCH, STEPS, HIDDEN, dtype=dtype))
    whole = g.linear(x, 3 * HIDDEN, dtype=dtype)
    apart = g.add("Reshape", whole, g.constant([0, 0, 3, HEADS, HEAD], np.int64))
    if order == "bs3hd":
        parts = [g.add("Transpose", part, perm=[0, 2, 1, 3]) for part in _unbound(g, apart, 2, way)]
    elif order == "3bhsd":
        parts = _unbound(g, g.add("Transpose", apart, perm=[2, 0, 3, 1, 4]), 0, way)
    else:
        parts = _unbound(g, g.add("Transpose", apart, perm=[0, 3, 2, 1, 4]), 2, way)
    mixed = g.add("Transpose", _attention(g, *parts, dtype=dtype), perm=[0, 2, 1, 3])
    merged = g.add("Reshape", mixed, g.constant([0, 0, HIDDEN], np.int64))
    g.outputs.append(g.add("Add", g.linear(merged, dtype=dtype), x))
    return g


def _tokens_first(way: str, dtype: type) -> Graph:
    """nn.MultiheadAttention as TorchScript exports it: [tokens, batch, size] inside, heads and batch as one."""
    g = Graph()
    x = g.feed("x", g.normal(BATCH, TOKENS, HIDDEN, dtype=dtype))
    rows = g.add("Transpose", x, perm=[1, 0, 2])
    whole = g.linear(rows, 3 * HIDDEN, dtype=dtype)
    apart = g.add("Reshape", whole, g.constant([TOKENS, -1, 3, HIDDEN], np.int64))
    ahead = g.add("Unsqueeze", apart, g.constant([0], np.int64))
    turned = g.add("Transpose", ahead, perm=[3, 1, 2, 0, 4])
    packed = g.add("Squeeze", turned, g.constant([3], np.int64))
    heads = []
    for part in _unbound(g, packed, 0, way):
        flat = g.add("Reshape", part, g.constant([TOKENS, -1, HEAD], np.int64))
        first = g.add("Transpose", flat, perm=[1, 0, 2])
        heads.append(g.add("Reshape", first, g.constant([-1, HEADS, TOKENS, HEAD], np.int64)))
    mixed = g.add("Transpose", _attention(g, *heads, dtype=dtype), perm=[2, 0, 1, 3])
    flat = g.add("Reshape", mixed, g.constant([-1, HIDDEN], np.int64))
    product = g.add("Gemm", flat, g.weight(HIDDEN, HIDDEN, dtype=dtype), g.weight(HIDDEN, dtype=dtype), transB=1)
    back = g.add("Reshape", product, g.constant([TOKENS, -1, HIDDEN], np.int64))
    g.outputs.append(g.add("Add", g.add("Transpose", back, perm=[1, 0, 2]), x))
    return g


def _error(actual: np.ndarray, wanted: np.ndarray) -> float:
    """Root mean square, as a share of the largest value."""
    return float(np.sqrt(np.mean((actual.astype(np.float64) - wanted) ** 2)) / np.max(np.abs(wanted)))


def check_packed_attention() -> None:
    """In every order and spelling, near to the nodes one by one, with no more error than they have."""
    spellings = [
        (order, way) for order in ("bs3hd", "3bhsd", "bhsd3", "tokens first") for way in ("gather", "split", "slice")
    ]
    for order, way in spellings:
        graphs = [
            _tokens_first(way, t) if order == "tokens first" else _packed(order, way, t)
            for t in (np.float16, np.float32)
        ]
        narrow, wide = graphs
        fused = rewritten(narrow.model(), ("views", "attention", "projections", "product_epilogue"))
        plain, right = joined(narrow.model()), joined(wide.model())
        for batch in (BATCH, 1, 5):
            length = TOKENS if order == "tokens first" else STEPS
            feed = narrow.normal(batch, length, HIDDEN, dtype=np.float16)
            (mine,), (twin,) = fused.run(None, {"x": feed}), plain.run(None, {"x": feed})
            (wanted,) = right.run(None, {"x": feed.astype(np.float32)})
            assert _error(mine, wanted) <= 1.1 * _error(twin, wanted) + 2.0**-10, (order, way, batch)
            assert _error(twin, wanted) < 1e-2


if __name__ == "__main__":
    run_checks(globals())
