"""Layer normalisations that the products around them do, and those that they leave to a kernel.

    python -m tests.session.region_norm_products_suite LIBRARY

Blocks of encoders in 16 bits at every number of rows, from one that the kernels for few rows take to those of too many
tiles, against the same nodes one by one. With the probe the launches are counted too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort
from onnx import TensorProto

from tests.session.fusion_models import Graph, gelu_of
from tests.session.region_fusion_suite import logged_fusions, rewritten
from tests.session.region_support import joined
from tests.session.stream_support import probe
from tests.session.suite import run_checks

WIDTH, WIDE, HEADS = 64, 128, 2
PASSES = ("product_epilogue", "norm_products")
ROWS = (17, 40, 64, 65, 1, 16, 700, 40)


class Blocks(Graph):
    """A model of rows of WIDTH."""

    type: Any = np.float16

    def rows(self, name: str = "x", *, large: float = 1.0) -> str:
        if self.type == np.float16:
            return self.feed(name, self.normal(1, 40, WIDTH, dtype=self.type, scale=large))
        return self.add("Cast", self.feed(name, self.normal(1, 40, WIDTH)), to=TensorProto.BFLOAT16)

    def open_dims(self, array: np.ndarray) -> list[int | str]:
        return ["batch", "rows", WIDTH][-array.ndim :]

    def product(self, x: str, rows: int = WIDTH, columns: int = WIDTH) -> str:
        return self.linear(x, columns, rows, self.type)

    def normalised(self, x: str, scale: float = 0.25) -> str:
        gamma = self.constant(1 + self.normal(WIDTH, scale=scale), self.type)
        return self.add("LayerNormalization", x, gamma, self.constant(self.normal(WIDTH), self.type), axis=-1)

    def summed(self, x: str, y: str, rows: int = WIDTH) -> str:
        return self.add("Add", self.product(y, rows), x)

    def fed_forward(self, x: str) -> str:
        return gelu_of(self, self.product(x, columns=WIDE), self.type)

    def attended(self, x: str) -> str:
        """Heads are split by what Shape says of the rows, as exporters write it."""
        dims = self.add("Slice", self.add("Shape", x), *(self.constant([i], np.int64) for i in (0, 2)))
        split, merged = (
            self.add("Concat", dims, self.constant(rest, np.int64), axis=0) for rest in ([HEADS, -1], [WIDTH])
        )
        q, k, v = (
            self.add("Transpose", self.add("Reshape", self.product(x), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = self.add("Mul", self.add("MatMul", q, k), self.constant((WIDTH // HEADS) ** -0.5, self.type))
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        return self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), merged)


def post_norm(g: Blocks, scale: float = 0.25, large: float = 1.0) -> str:
    """As in BERT: what is normalised is what is added, too."""
    x = g.rows(large=large)
    for _ in range(2):
        x = g.normalised(g.summed(x, g.product(x)), scale)
        x = g.normalised(g.summed(x, g.fed_forward(x), WIDE), scale)
    return g.product(x)


def pre_norm(g: Blocks) -> str:
    """As in GPT and ViT: sums go on as they are, and one leaves."""
    x = g.rows()
    x = g.summed(x, g.product(x))
    for _ in range(2):
        x = g.summed(x, g.fed_forward(g.normalised(x)), WIDE)
        x = g.summed(x, g.add("Relu", g.product(g.normalised(x))))
    g.outputs.append(x)
    return g.product(g.normalised(x))


def encoder(g: Blocks) -> str:
    """With attention; the last normalisation leaves, and what its product adds is kept."""
    x = g.rows()
    for _ in range(2):
        x = g.normalised(g.summed(x, g.attended(x)))
        x = g.normalised(g.summed(x, g.fed_forward(x), WIDE))
    return x


def turned(g: Blocks) -> str:
    """Rows of two dimensions, and weights the other way round."""

    def gemm(x: str) -> str:
        weights, bias = g.normal(WIDTH, WIDTH, scale=WIDTH**-0.5), g.normal(WIDTH)
        return g.add("Gemm", x, g.constant(weights, g.type), g.constant(bias, g.type), transB=1)

    x = g.feed("x", g.normal(40, WIDTH, dtype=g.type))
    return gemm(g.normalised(g.add("Add", gemm(x), x)))


def unshifted(g: Blocks) -> str:
    """Normalisations without a bias, as ModernBERT has them."""
    x = g.rows()
    x = g.summed(x, g.product(x))
    gamma = g.constant(1 + g.normal(WIDTH, scale=0.25), g.type)
    return g.product(g.add("LayerNormalization", x, gamma, axis=-1))


def large_scale(g: Blocks) -> str:
    """Of sums that scales up to 11 make infinities of."""
    return post_norm(g, 4.0, 8e3)


def _model(build: Callable[[Blocks], str], dtype: Any = np.float16) -> tuple[bytes, dict[str, np.ndarray]]:
    g = Blocks()
    g.type = dtype
    g.outputs.append(build(g))
    return g.model(), g.feeds


def _some(rows: int, seed: int = 5, batch: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((batch, rows, WIDTH)).astype(np.float16)


def _near(mine: np.ndarray, right: np.ndarray) -> bool:
    return np.allclose(mine.astype(np.float32), right.astype(np.float32), rtol=2e-2, atol=2e-2 * np.abs(right).max())


def _launches(session: ort.InferenceSession, x: np.ndarray) -> int:
    """Of a steady Run."""
    for _ in range(3):
        session.run(None, {"x": x})
    before = probe().counters()
    session.run(None, {"x": x})
    return int((probe().counters() - before)["launches"])


def check_blocks_at_every_number_of_rows() -> None:
    """In one batch entry and in two."""
    for build in (post_norm, pre_norm, encoder, turned, unshifted):
        model, feeds = _model(build)
        mine, twin = rewritten(model, PASSES), joined(model)
        for rows in ROWS:
            for batch in (1, 2):
                x = _some(rows, batch=batch)
                x = x if feeds["x"].ndim == x.ndim else x[0]
                for y, right in zip(mine.run(None, {"x": x}), twin.run(None, {"x": x}), strict=True):
                    assert _near(y, right), (build.__name__, rows, batch)


def check_what_is_kept_does_not_overflow() -> None:
    """A scale that would make infinities of the sums that it is to multiply."""
    model, feeds = _model(large_scale)
    mine, twin = rewritten(model, PASSES), joined(model)
    y, right = (session.run(None, feeds)[0] for session in (mine, twin))
    assert np.isfinite(right).all() and _near(y, right)


def check_rows_of_one_number() -> None:
    """Their deviation is nothing, but for what rounding makes of it: they are the shift."""
    for epsilon in (1e-5, 1e-12):

        def same(g: Blocks, epsilon: float = epsilon) -> str:
            x = g.feed("x", np.full((1, 40, WIDTH), 7.1, np.float16))
            zeros, one = g.constant(np.zeros((WIDTH, WIDTH)), g.type), g.constant(np.full(WIDTH, 0.3), g.type)
            y = g.add("Add", g.add("Add", g.add("MatMul", x, zeros), one), x)
            gamma = g.constant(1 + g.normal(WIDTH, scale=0.25), g.type)
            beta = g.constant(g.normal(WIDTH), g.type)
            return g.product(g.add("LayerNormalization", y, gamma, beta, axis=-1, epsilon=epsilon))

        model, feeds = _model(same)
        y, right = (s.run(None, feeds)[0] for s in (rewritten(model, PASSES), joined(model)))
        assert np.abs(y - right).max() <= 0.01, (epsilon, np.abs(y - right).max())


def check_bfloat16() -> None:
    """Between casts, as numpy has no such type."""

    def in_bfloat16(g: Blocks) -> str:
        return g.add("Cast", encoder(g), to=TensorProto.FLOAT)

    model, feeds = _model(in_bfloat16, ml_dtypes.bfloat16)
    mine, twin = rewritten(model, PASSES), joined(model)
    y, right = (session.run(None, feeds)[0] for session in (mine, twin))
    assert np.abs(y - right).max() <= 2.0**-4 * np.abs(right).max()


def check_their_kernels_are_gone() -> None:
    """Of 17 rows and more of few tiles; beyond these each normalisation is a launch."""
    for build, norms in ((post_norm, 4), (pre_norm, 5)):
        model, _ = _model(build)
        options = {"region_graphs": "0", "compiled_engines": "0"}
        mine = rewritten(model, PASSES, options)
        apart = joined(model, {"fusion": "1", "fusion_skip": "norm_products", **options})
        for rows, gone in ((40, norms), (64, norms), (16, 0), (2000, 0)):
            x = _some(rows)
            counts = _launches(apart, x), _launches(mine, x)
            assert counts[0] - counts[1] == gone, (build.__name__, rows, counts)


def check_numbers_that_are_none() -> None:
    """NaN and infinity of a row stay in it, and make it NaN as a normalisation does."""
    model, _ = _model(post_norm)
    mine, twin = rewritten(model, PASSES), joined(model)
    for special in (np.nan, np.inf, -np.inf):
        x = _some(40)
        x[0, 7, 3] = special
        y, right = (session.run(None, {"x": x})[0] for session in (mine, twin))
        assert np.isnan(y[0, 7]).all() and np.isnan(right[0, 7]).all(), special
        assert np.isfinite(np.delete(y, 7, 1)).all(), special


def check_threads_of_different_rows() -> None:
    """Each call has products that agree."""
    model, _ = _model(pre_norm)
    mine = rewritten(model, PASSES)
    rows = (40, 17, 300, 64)
    right = [mine.run(None, {"x": _some(n, n)})[0] for n in rows]

    def runs(index: int) -> int:
        x = _some(rows[index], rows[index])
        return sum(not np.array_equal(mine.run(None, {"x": x})[0], right[index]) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(runs, range(4))) == 0


def _misses() -> Iterator[tuple[str, Callable[[Blocks], str]]]:
    def first(g: Blocks) -> str:
        x = g.rows()
        return g.summed(x, g.product(x))

    def leaves(g: Blocks) -> str:
        g.outputs.append(g.normalised(first(g)))
        return g.product(g.outputs[0])

    def others(g: Blocks) -> str:
        x = g.normalised(first(g))
        return g.add("Add", g.product(x), g.add("ReduceMax", x, axes=[-1]))

    def adds_alone(g: Blocks) -> str:
        x = g.normalised(first(g))
        return g.add("Add", g.product(x), g.summed(x, g.rows("y")))

    def added_to(g: Blocks) -> str:
        x = g.normalised(first(g))
        return g.normalised(g.summed(g.rows("y"), x))

    def none(g: Blocks) -> str:
        x = g.rows()
        return g.normalised(g.summed(g.normalised(g.summed(x, g.product(x))), g.product(x)))

    def two(g: Blocks) -> str:
        x = first(g)
        return g.add("Add", g.product(g.normalised(x)), g.product(g.normalised(x)))

    def too_large(g: Blocks) -> str:
        gamma = g.constant(np.where(np.arange(WIDTH) == 3, 100.0, 1.0), g.type)
        x = g.add("LayerNormalization", first(g), gamma, g.constant(g.normal(WIDTH), g.type), axis=-1)
        return g.product(x)

    def twice(g: Blocks) -> str:
        x = g.normalised(first(g))
        return g.normalised(g.summed(x, x))

    def activated(g: Blocks) -> str:
        x = g.product(g.normalised(first(g)))
        return g.add("Mul", x, g.add("Sigmoid", x))

    def scale_of_a_run(g: Blocks) -> str:
        gamma = g.add("ReduceMax", g.rows("y"), axes=[0, 1], keepdims=0)
        return g.product(g.add("LayerNormalization", first(g), gamma, g.weight(WIDTH, dtype=g.type), axis=-1))

    yield "it leaves the region", leaves
    yield "others than products with weights of their own read it", others
    yield "a product adds it whose result is not normalised", adds_alone
    yield "a product that has a residual reads it", added_to
    yield "no product reads it", none
    yield "another normalisation reads the same sum", two
    yield "one of its scales is too large beside the others", too_large
    yield "a product reads it twice", twice
    yield "a product has another activation than ReLU and GELU by erf", activated
    yield "scale and bias are not constant vectors of the rows' type", scale_of_a_run


def check_what_is_left_alone() -> None:
    """With the reason, and right."""
    for why, build in _misses():
        model, feeds = _model(build)
        lines = [line for line in logged_fusions(model, {}) if "fusion norm_products" in line]
        assert any("left alone" in line and why in line for line in lines), (why, lines)
        mine, twin = joined(model, {"fusion": "1"}), joined(model)
        for y, right in zip(mine.run(None, feeds), twin.run(None, feeds), strict=True):
            assert _near(y, right), why


def check_settings_that_want_it_otherwise() -> None:
    """One order of sums whatever the device does, and no rewriting of this kind."""
    model, _ = _model(post_norm)
    for options in (
        {"deterministic_compute": "1"},
        {"fusion_skip": "norm_products"},
        {"gemm_path": "library"},
        {"norm_path": "direct"},
    ):
        lines = logged_fusions(model, options)
        assert lines and not any("fusion norm_products:" in line for line in lines), options


if __name__ == "__main__":
    run_checks(globals())
