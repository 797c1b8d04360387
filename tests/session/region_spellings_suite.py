"""Attention as exporters spell it in compiled regions: heads in one dimension with the batch or apart from it, and what
is done to scores before softmax. Results are those of the model's nodes.

python -m tests.session.region_spellings_suite LIBRARY
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.session.fusion_models import BATCH, HEAD, HEADS, HIDDEN, STEPS, Graph
from tests.session.region_fusion_suite import logged_fusions, rewritten
from tests.session.region_support import joined
from tests.session.suite import run_checks

TOLERANCE = {np.float32: 2e-5, np.float16: 1e-2}


class Attention(Graph):
    """Queries, keys and values of `x`, and masks of which the first two entries hide all keys of a query."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype
        self.x = self.feed("x", self.normal(BATCH, STEPS, HIDDEN, dtype=dtype))
        hidden = np.zeros((BATCH, 1, STEPS, STEPS), bool)
        hidden[..., STEPS - 1] = hidden[1, 0, 2] = hidden[0, 0, 3] = True
        hidden[0, 0, 0, STEPS - 1] = False
        self.hidden = hidden
        self.lowest = float(np.finfo(dtype).min)

    @functools.cached_property
    def shape(self) -> str:
        return self.add("Shape", self.x)

    @functools.cached_property
    def batch(self) -> str:
        return self.add("Slice", self.shape, self.ints(0), self.ints(1), self.ints(0))

    @functools.cached_property
    def steps(self) -> str:
        return self.add("Slice", self.shape, self.ints(1), self.ints(2), self.ints(0))

    @functools.cached_property
    def all_heads(self) -> str:
        return self.add("Mul", self.batch, self.ints(HEADS))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def dims(self, *parts: str | int) -> str:
        return self.add("Concat", *(p if isinstance(p, str) else self.ints(p) for p in parts), axis=0)

    def heads(self, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """[batch, heads, rows, size], or in another order."""
        rows = self.add("Reshape", self.linear(self.x, dtype=self.dtype), self.ints(0, 0, HEADS, HEAD))
        return self.add("Transpose", rows, perm=perm)

    def flat(self) -> str:
        return self.add("Reshape", self.heads(), self.dims(self.all_heads, self.steps, HEAD))

    def scaled(self, product: str) -> str:
        return self.add("Mul", product, self.constant(HEAD**-0.5, self.dtype))

    def softmax(self, scores: str) -> str:
        return self.add("Softmax", scores, axis=-1)

    def merged(self, heads: str) -> str:
        turned = self.add("Transpose", heads, perm=[0, 2, 1, 3])
        return self.add("Reshape", turned, self.ints(0, 0, HIDDEN))

    def mask(self) -> str:
        return self.feed("mask", np.where(self.hidden, self.lowest, 0).astype(self.dtype))

    def bias(self) -> str:
        return self.constant(self.normal(1, HEADS, 1, 1), self.dtype)

    def condition(self, shown: bool = False) -> str:
        return self.feed("condition", self.hidden != shown)

    def bound(self) -> str:
        return self.constant(self.lowest, self.dtype)


Term = Callable[[Attention, str], str]


def added(g: Attention, scores: str) -> str:
    return g.add("Add", scores, g.mask())


def added_twice(g: Attention, scores: str) -> str:
    return g.add("Add", g.add("Add", g.bias(), scores), g.mask())


def hidden(g: Attention, scores: str) -> str:
    return g.add("Where", g.condition(), g.bound(), scores)


def shown(g: Attention, scores: str) -> str:
    return g.add("Where", g.condition(shown=True), scores, g.bound())


def hidden_sum(g: Attention, scores: str) -> str:
    return g.add("Where", g.condition(), g.bound(), g.add("Add", scores, g.bias()))


def added_to_shown(g: Attention, scores: str) -> str:
    return g.add("Add", shown(g, scores), g.bias())


def raised(g: Attention, scores: str) -> str:
    return g.add("Max", g.add("Add", scores, g.mask()), g.bound())


def capped(g: Attention, scores: str) -> str:
    cap = g.constant(2, g.dtype)
    return g.add("Mul", g.add("Tanh", g.add("Div", scores, cap)), cap)


def capped_and_added(g: Attention, scores: str) -> str:
    return g.add("Add", capped(g, scores), g.mask())


def nothing(_: Attention, scores: str) -> str:
    return scores


TERMS: tuple[Term, ...] = (
    nothing, added, added_twice, hidden, shown, hidden_sum, added_to_shown, raised, capped, capped_and_added,
)  # fmt: skip
# Where a row has no key its weights are equal, which sums of 16 bits do not say.
REPLACES = (hidden, shown, hidden_sum, added_to_shown, raised)


def apart(g: Attention, term: Term) -> str:
    """Heads in a dimension of their own; keys turned with them."""
    scores = g.scaled(g.add("MatMul", g.heads(), g.heads((0, 2, 3, 1))))
    return g.merged(g.add("MatMul", g.softmax(term(g, scores)), g.heads()))


def columns(g: Attention, term: Term) -> str:
    """Keys that come as columns."""
    keys = g.feed("keys", g.normal(BATCH, HEADS, HEAD, STEPS, dtype=g.dtype))
    scores = g.scaled(g.add("MatMul", g.heads(), keys))
    return g.merged(g.add("MatMul", g.softmax(term(g, scores)), g.heads()))


def flat(g: Attention, term: Term) -> str:
    """Products of all heads of the batch, which come apart for the mask alone."""
    q, k, v = g.flat(), g.flat(), g.flat()
    scores = g.scaled(g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 1])))
    if term is not nothing:
        scores = term(g, g.add("Reshape", scores, g.dims(g.batch, HEADS, g.steps, g.steps)))
        scores = g.add("Reshape", scores, g.dims(g.all_heads, g.steps, g.steps))
    mixed = g.add("MatMul", g.softmax(scores), v)
    return g.merged(g.add("Reshape", mixed, g.dims(g.batch, HEADS, g.steps, HEAD)))


def _agrees(spelling: Callable[[Attention, Term], str], term: Term, dtype: Any) -> None:
    g = Attention(dtype)
    g.outputs.append(spelling(g, term))
    (twin,) = joined(g.model()).run(None, g.feeds)
    (mine,) = rewritten(g.model(), ("attention",)).run(None, g.feeds)
    assert mine.dtype == dtype and mine.shape == twin.shape, (spelling, term)
    rows = [np.asarray(y, np.float32) for y in (mine, twin)]
    if term not in REPLACES and dtype == np.float16:  # queries without any key
        for y in rows:
            y[1, 2] = y[0, 3] = 0
    np.testing.assert_allclose(*rows, rtol=0, atol=TOLERANCE[dtype], err_msg=f"{spelling.__name__} {term.__name__}")


def check_every_spelling() -> None:
    """Also of queries that have no key: their weights are equal."""
    for spelling, term, dtype in itertools.product((apart, columns, flat), TERMS, TOLERANCE):
        if dtype != np.float16 or term not in REPLACES:
            _agrees(spelling, term, dtype)


def _stays(g: Attention) -> None:
    lines = logged_fusions(g.model(), {})
    assert not any("fusion attention: " in line for line in lines), lines


def check_what_16_bits_cannot_replace_stays() -> None:
    """A number that float16 adds to scores leaves what they are."""
    for term in REPLACES:
        g = Attention(np.float16)
        g.outputs.append(apart(g, term))
        _stays(g)


def check_one_head() -> None:
    """[batches, rows, size] that are no views of heads, with a bias of their own."""
    for dtype, biased in itertools.product(TOLERANCE, (False, True)):
        g = Attention(dtype)
        q, k, v = (g.feed(name, g.normal(6, STEPS, HEAD, dtype=dtype)) for name in "qkv")
        scores = g.scaled(g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 1])))
        if biased:
            scores = g.add("Add", scores, g.feed("bias", g.normal(6, STEPS, STEPS, dtype=dtype)))
        g.outputs.append(g.add("MatMul", g.softmax(scores), v))
        (twin,) = joined(g.model()).run(None, g.feeds)
        (mine,) = rewritten(g.model(), ("attention",)).run(None, g.feeds)
        np.testing.assert_allclose(*(np.asarray(y, np.float32) for y in (mine, twin)), rtol=0, atol=TOLERANCE[dtype])


def _flat(g: Attention, term: Callable[[str], str], split: tuple[str | int, ...] = ()) -> None:
    """Products of all heads of the batch, `term` done to their scores, and the heads of the result apart."""
    q, k, v = g.flat(), g.flat(), g.flat()
    scores = term(g.scaled(g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 1]))))
    mixed = g.add("MatMul", g.softmax(scores), v)
    g.outputs.append(g.add("Reshape", mixed, g.dims(*(split or (g.batch, HEADS, g.steps, HEAD)))))


def check_biases_of_heads_that_lie_with_the_batch() -> None:
    """Of heads apart before they were joined; others keep the products as they are."""
    for from_apart in (True, False):
        g = Attention(np.float32)
        bias = g.feed("bias", g.normal(BATCH, HEADS, STEPS, STEPS))
        bias = g.add("Reshape", bias, g.dims(g.all_heads, g.steps, g.steps))
        bias = bias if from_apart else g.add("Neg", bias)
        _flat(g, lambda scores, g=g, bias=bias: g.add("Add", scores, bias))
        if not from_apart:
            _stays(g)
            continue
        (twin,) = joined(g.model()).run(None, g.feeds)
        (mine,) = rewritten(g.model(), ("attention",)).run(None, g.feeds)
        np.testing.assert_allclose(mine, twin, rtol=0, atol=2e-5)


def check_views_of_other_heads() -> None:
    """As many elements, but neither the queries' batch nor their heads: of the result, of scores, of a bias."""

    def other(g: Attention) -> tuple[str | int, ...]:
        return (g.add("Mul", g.batch, g.ints(2)), HEADS // 2)

    def nothing(_: Attention, scores: str) -> str:
        return scores

    def masked(g: Attention, scores: str) -> str:
        apart_scores = g.add("Reshape", scores, g.dims(*other(g), g.steps, g.steps))
        bias = g.feed("bias", g.normal(1, HEADS // 2, 1, STEPS))
        return g.add("Reshape", g.add("Add", apart_scores, bias), g.dims(g.all_heads, g.steps, g.steps))

    def joined_bias(g: Attention, scores: str) -> str:
        bias = g.feed("bias", g.normal(2 * BATCH, HEADS // 2, STEPS, STEPS))
        return g.add("Add", scores, g.add("Reshape", bias, g.dims(g.all_heads, g.steps, g.steps)))

    for term in (nothing, masked, joined_bias):
        g = Attention(np.float32)
        split = (*other(g), g.steps, HEAD) if term is nothing else ()
        _flat(g, lambda scores, g=g, term=term: term(g, scores), split)
        (twin,) = joined(g.model()).run(None, g.feeds)
        (mine,) = joined(g.model(), {"fusion": "1"}).run(None, g.feeds)
        assert mine.shape == twin.shape, (term, mine.shape, twin.shape)
        np.testing.assert_allclose(mine, twin, rtol=0, atol=2e-5, err_msg=term.__name__)


def check_bounds_that_widen_scores() -> None:
    """A constant of more dimensions than the scores gives the result as many."""
    for op in ("Max", "Where"):
        g = Attention(np.float32)
        q, k, v = (g.feed(name, g.normal(6, STEPS, HEAD)) for name in "qkv")
        scores = g.scaled(g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 1])))
        bound = g.constant(np.full((1, 1, 1, 1), g.lowest), np.float32)
        hidden = g.feed("hidden", np.arange(STEPS) >= STEPS - 2)
        scores = g.add("Max", scores, bound) if op == "Max" else g.add("Where", hidden, bound, scores)
        if op == "Max":
            del g.feeds["hidden"]
        g.outputs.append(g.add("MatMul", g.softmax(scores), v))
        _stays(g)


if __name__ == "__main__":
    run_checks(globals())
