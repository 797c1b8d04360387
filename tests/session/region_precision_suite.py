"""How exact what compiled regions rewrite is, beside the same nodes one by one.

    python -m tests.session.region_precision_suite LIBRARY

A model for each rewriting, inputs at random, large, such that sums cancel, and masks; against ONNX's own evaluator in
float64, from the same numbers. The largest error and the mean one are at most 1.1 times those of single nodes and one
unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.session.fusion_models import BATCH, HEADS, HIDDEN, STEPS, Graph, gelu_of, mixed_heads
from tests.session.region_fusion_suite import rewritten
from tests.session.region_support import joined
from tests.session.suite import on_one_host, run_checks

KINDS = ("random", "large", "cancelling")
LARGE = 48.0
_WIDE = (TensorProto.FLOAT, TensorProto.FLOAT16)


class Typed(Graph):
    """A model whose numbers are of one type and one kind."""

    dtype: Any
    kind: str

    @staticmethod
    def of(dtype: Any, kind: str) -> Typed:
        made = Typed(17)
        made.dtype, made.kind = dtype, kind
        return made

    def rows(self, name: str = "x", shape: tuple[int, ...] = (BATCH, STEPS, HIDDEN), axis: int = -1) -> str:
        """An input whose neighbours along an axis cancel, if that is its kind: their weights are the same."""
        array = self.normal(*shape)
        if self.kind == "large":
            array *= LARGE
        elif self.kind == "cancelling":
            last = np.moveaxis(array, axis, -1)
            last[..., 1::2] = self.normal(*last[..., 1::2].shape, scale=2.0**-6) - last[..., ::2]
        return self.feed(name, array.astype(self.dtype))

    def number(self, value: Any) -> str:
        return self.constant(value, self.dtype)

    def numbers(self, *shape: int) -> str:
        return self.number(self.normal(*shape))

    def product(self, x: str, rows: int = HIDDEN, columns: int = HIDDEN) -> str:
        weights = self.normal(rows, columns, scale=rows**-0.5)
        if self.kind == "cancelling":
            weights[1::2] = weights[::2]
        return self.add("MatMul", x, self.number(weights))

    def linear(self, x: str, columns: int = HIDDEN, rows: int = HIDDEN, dtype: Any = None) -> str:
        """Of the model's own type."""
        return self.add("Add", self.product(x, rows, columns), self.numbers(columns))


def gelu_by_tanh(g: Typed, x: str) -> str:
    cube = g.add("Mul", g.add("Pow", x, g.number(3)), g.number(0.044715))
    tanh = g.add("Tanh", g.add("Mul", g.add("Add", x, cube), g.number((2 / np.pi) ** 0.5)))
    return g.add("Mul", g.add("Mul", x, g.number(0.5)), g.add("Add", tanh, g.number(1)))


def silu(g: Typed, x: str) -> str:
    return g.add("Mul", x, g.add("Sigmoid", x))


def layer_norm(g: Typed, x: str) -> str:
    return g.add("LayerNormalization", x, g.numbers(HIDDEN), g.numbers(HIDDEN), axis=-1)


def product_epilogue(g: Typed) -> str:
    x = g.rows()
    h = gelu_of(g, g.linear(x, columns=2 * HIDDEN), g.dtype)
    return g.add("Add", g.linear(h, rows=2 * HIDDEN), x)


def activation(g: Typed) -> str:
    return gelu_by_tanh(g, g.rows())


def skip_norm(g: Typed) -> str:
    return layer_norm(g, g.add("Add", g.rows(), g.rows("y")))


def norm(g: Typed) -> str:
    x = g.rows()
    mean = g.add("ReduceMean", g.add("Mul", x, x), axes=[-1])
    root = g.add("Reciprocal", g.add("Sqrt", g.add("Add", mean, g.number(1e-3))))
    return g.add("Mul", g.add("Mul", x, root), g.numbers(HIDDEN))


def norms_of_heads(g: Typed) -> str:
    """With a scale for each place of each head; without an epsilon, and without a scale."""
    x = g.rows(shape=(BATCH, STEPS, HEADS, HIDDEN))
    centred = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1]))
    variance = g.add("ReduceMean", g.add("Pow", centred, g.number(2)), axes=[-1])
    root = g.add("Reciprocal", g.add("Sqrt", g.add("Add", variance, g.number(1e-3))))
    scaled = g.add("Mul", g.add("Mul", centred, root), g.numbers(HEADS, HIDDEN))
    square = g.add("ReduceMean", g.add("Mul", scaled, scaled), axes=[-1])
    return g.add("Div", scaled, g.add("Sqrt", square))


def gated(g: Typed) -> str:
    x = g.rows()
    return g.add("Mul", silu(g, g.product(x)), g.product(x))


def gated_rows(g: Typed) -> str:
    """Of as many rows and columns as tiles of warpgroups take, in 16 bits."""
    x = g.rows("x", (BATCH, 4 * STEPS, HIDDEN))
    swish = g.add("Mul", silu(g, g.product(x, columns=64)), g.product(x, columns=64))
    return g.add("Add", swish, g.add("Mul", gelu_of(g, g.product(x, columns=64), g.dtype), g.product(x, columns=64)))


def attention(g: Typed, hidden: float | None = None) -> str:
    if hidden is None:
        return mixed_heads(g, g.rows(), dtype=g.dtype)
    mask = np.zeros((BATCH, 1, 1, STEPS))
    mask[..., STEPS // 2 :] = hidden
    return mixed_heads(g, g.rows(), g.feed("mask", mask.astype(g.dtype)), g.dtype)


def hidden_keys(g: Typed) -> str:
    return attention(g, -np.inf)


def lowest_mask(g: Typed) -> str:
    return attention(g, float(np.finfo(g.dtype).min))


def image(g: Typed) -> str:
    return g.rows("x", (BATCH, 8, 9, 9), axis=1)


def conv(g: Typed, x: str) -> str:
    weights = g.normal(8, 8, 3, 3, scale=72**-0.5)
    if g.kind == "cancelling":
        weights[:, 1::2] = weights[:, ::2]
    return g.add("Conv", x, g.number(weights), g.numbers(8), pads=[1, 1, 1, 1])


def conv_affine(g: Typed) -> str:
    """The host folds BatchNormalization, Mul and Add into a convolution in front of them itself."""
    shifted = g.add("Sub", conv(g, image(g)), g.numbers(8, 1, 1))
    return g.add("Mul", shifted, g.number(np.abs(g.normal(8, 1, 1)) + 0.5))


def conv_reads_norm(g: Typed) -> str:
    """A normalisation of what a convolution without padding alone reads."""
    statistics = (g.number(g.normal(8, scale=0.5)), g.number(np.abs(g.normal(8)) + 0.25))
    x = g.add("BatchNormalization", image(g), g.numbers(8), g.numbers(8), *statistics)
    weights = g.normal(12, 8, 1, 1, scale=8**-0.5)
    return g.add("Relu", g.add("Conv", x, g.number(weights), g.numbers(12)))


def product_affine(g: Typed) -> str:
    """A scale for each column of a branch, and a normalisation of the rows of all samples."""
    x = g.rows()
    scaled = g.add("Mul", g.linear(x), g.number(np.abs(g.normal(HIDDEN)) + 0.5))
    statistics = (g.number(g.normal(HIDDEN, scale=0.25)), g.number(np.abs(g.normal(HIDDEN)) + 0.25))
    rows = g.add("Flatten", g.product(x), axis=2)
    rows = g.add("BatchNormalization", rows, g.numbers(HIDDEN), g.numbers(HIDDEN), *statistics)
    return g.add("Add", g.add("Reshape", rows, g.constant([BATCH, -1, HIDDEN], np.int64)), scaled)


def conv_epilogue(g: Typed) -> str:
    x = image(g)
    return g.add("Relu", g.add("Add", conv(g, x), x))


def chains(g: Typed) -> str:
    x = g.rows()
    scaled = g.add("Add", g.add("Mul", x, g.numbers(HIDDEN)), g.numbers(HIDDEN))
    return g.add("Mul", g.add("Tanh", scaled), g.add("Sigmoid", g.add("Sub", x, g.numbers(1))))


def norm_products(g: Typed) -> str:
    """Rows of two normalisations that are kept for the products around them, one of which is added too."""
    width = 2 * HIDDEN

    def normalised(x: str) -> str:
        return g.add("LayerNormalization", x, g.numbers(width), g.numbers(width), axis=-1)

    x = g.rows(shape=(BATCH, 20, width))
    x = normalised(g.add("Add", g.linear(x, width, width), x))
    h = gelu_of(g, g.linear(x, 2 * width, width), g.dtype)
    x = normalised(g.add("Add", g.linear(h, width, 2 * width), x))
    return g.linear(x, width, width)


# What is built, and the rewritings that do something to it.
PATTERNS: tuple[tuple[Callable[[Typed], str], tuple[str, ...]], ...] = (
    (product_epilogue, ("product_epilogue",)),
    (activation, ("activation",)),
    (skip_norm, ("skip_norm",)),
    (norm, ("norm",)),
    (norms_of_heads, ("norm",)),
    (gated, ("projections",)),
    (attention, ("attention", "projections")),
    (hidden_keys, ("attention", "projections")),
    (lowest_mask, ("attention", "projections")),
    (conv_affine, ("conv_affine",)),
    (conv_reads_norm, ("conv_affine",)),
    (product_affine, ("conv_affine",)),
    (conv_epilogue, ("conv_epilogue",)),
    (chains, ("chains",)),
)
PATTERNS_OF_16_BITS = (
    (norm_products, ("product_epilogue", "norm_products")),
    (gated, ("projections", "gated_products")),
    (gated_rows, ("projections", "gated_products")),
)


def _exact(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the model's numbers come to in float64."""
    wide = onnx.load_from_string(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type in _WIDE:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in wide.graph.input:
        if value.type.tensor_type.elem_type in _WIDE:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    inputs = {name: array.astype(np.float64) for name, array in feeds.items()}
    return [np.asarray(value) for value in ReferenceEvaluator(wide).run(None, inputs)]


def _failures(build: Callable[[Typed], str], passes: tuple[str, ...], dtype: Any) -> Iterator[str]:
    for kind in KINDS:
        g = Typed.of(dtype, kind)
        g.outputs.append(build(g))
        model = g.model()
        (right,) = _exact(model, g.feeds)
        (mine,) = rewritten(model, passes).run(None, g.feeds)
        (twin,) = joined(model).run(None, g.feeds)
        assert mine.dtype == twin.dtype == dtype and mine.shape == right.shape, (mine.dtype, mine.shape)
        assert np.all(np.isfinite(right)) and np.any(right != 0), kind
        off, twin_off = (np.abs(value.astype(np.float64) - right) for value in (mine, twin))
        unit = np.spacing(np.abs(right).astype(dtype)).astype(np.float64)
        pairs = ((np.max(off - unit), np.max(twin_off)), (np.mean(off) - np.mean(unit), np.mean(twin_off)))
        if not all(own <= 1.1 * nodes for own, nodes in pairs):
            yield f"{build.__name__} {np.dtype(dtype)} {kind}: largest and mean error, and that of nodes: {pairs}"


def _check(dtype: Any, patterns: Any = PATTERNS) -> None:
    failures = [text for build, passes in patterns for text in _failures(build, passes, dtype)]
    assert not failures, "\n".join(failures)


@on_one_host
def check_float32() -> None:
    """Fourteen patterns."""
    _check(np.float32)


@on_one_host
def check_float16() -> None:
    """The same of 16 bits, and one more."""
    _check(np.float16, (*PATTERNS, *PATTERNS_OF_16_BITS))


if __name__ == "__main__":
    run_checks(globals())
