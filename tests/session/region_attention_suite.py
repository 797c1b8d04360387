"""Masks of attention in compiled regions: the results of the model's nodes, also of queries without any key.

python -m tests.session.region_attention_suite LIBRARY
"""

from __future__ import annotations

import itertools
import time

import numpy as np

from tests.session.fusion_models import BATCH, HEAD, HEADS, HIDDEN, STEPS, Graph
from tests.session.region_fusion_suite import rewritten
from tests.session.region_support import joined
from tests.session.suite import SkippedError, run_checks, simulated, statistics


def _masked_attention(guard: bool, dtype: type, steps: int = STEPS) -> Graph:
    """One query without any key, and one key that no query of its entry takes."""
    g = Graph()
    x = g.feed("x", g.normal(BATCH, steps, HIDDEN, dtype=dtype))
    split, merged = g.constant([0, 0, HEADS, HEAD], np.int64), g.constant([0, 0, HIDDEN], np.int64)
    q, k, v = (
        g.add("Transpose", g.add("Reshape", g.linear(x, dtype=dtype), split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    mask = np.zeros((BATCH, 1, steps, steps), dtype)
    mask[1, 0, 2] = mask[0, 0, :, 3] = -np.inf
    scores = g.add("Mul", g.add("MatMul", q, k), g.constant(HEAD**-0.5, dtype))
    weights = g.add("Softmax", g.add("Add", scores, g.feed("mask", mask)), axis=-1)
    if guard:
        weights = g.add("Where", g.add("IsNaN", weights), g.constant(0, dtype), weights)
    mixed = g.add("Transpose", g.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    g.outputs.append(g.add("Reshape", mixed, merged))
    return g


def _agrees(g: Graph, fusions: tuple[str, ...], empty: tuple[int, int], guard: bool) -> None:
    """The model's nodes give NaN there alone, or nowhere behind the guard, and what is made of them gives the same."""
    (mine,) = rewritten(g.model(), fusions).run(None, g.feeds)
    (twin,) = joined(g.model()).run(None, g.feeds)
    wanted = np.zeros(twin.shape, bool)
    wanted[empty] = not guard
    np.testing.assert_array_equal(np.isnan(twin), wanted)
    np.testing.assert_array_equal(np.isnan(mine), wanted)
    np.testing.assert_allclose(mine, twin, rtol=1e-2, atol=1e-2 if twin.dtype == np.float16 else 1e-5)


def check_rows_without_keys() -> None:
    """NaN as from Softmax, or the zeros that the model puts there."""
    for dtype, guard in itertools.product((np.float32, np.float16), (False, True)):
        _agrees(_masked_attention(guard, dtype), ("attention", "projections"), (1, 2), guard)


def check_infinite_scores_without_a_mask() -> None:
    """A head whose scores are all minus infinity has NaN, as from Softmax, or the zeros that the model puts there."""
    for dtype, guard in itertools.product((np.float32, np.float16), (False, True)):
        g = Graph()
        q, k, v = (g.normal(BATCH, HEADS, STEPS, HEAD, dtype=dtype) for _ in range(3))
        q[1, 0, :, 3] = np.abs(q[1, 0, :, 3]) + dtype(1)
        k[1, 0, :, 3] = -np.inf
        columns = g.add("Transpose", g.feed("k", k), perm=[0, 1, 3, 2])
        scores = g.add("Mul", g.add("MatMul", g.feed("q", q), columns), g.constant(HEAD**-0.5, dtype))
        weights = g.add("Softmax", scores, axis=-1)
        if guard:
            weights = g.add("Where", g.add("IsNaN", weights), g.constant(0, dtype), weights)
        g.outputs.append(g.add("MatMul", weights, g.feed("v", v)))
        _agrees(g, ("attention",), (1, 0), guard)


def _replaced_plans() -> int:
    """Since the process began, all that was under way included."""
    ends = time.monotonic() + 60
    while (plans := statistics()["plans"])["in_background"]:
        assert time.monotonic() < ends, plans
        time.sleep(0.02)
    return int(plans["replacements"])


def check_rows_without_keys_before_and_after_compilation() -> None:
    """The same by the library's attention, which takes the place of our own: of nothing else in the model."""
    if not simulated():
        raise SkippedError("too small for the library's attention on a device of many multiprocessors")
    # More keys than the own kernel of warpgroups has; a plan serves all nodes of its lengths.
    for guard, steps in ((False, 264), (True, 272)):
        g = _masked_attention(guard, np.float16, steps)
        (twin,) = joined(g.model()).run(None, g.feeds)
        assert np.isnan(twin[1, 2]).all() != guard and not np.isnan(twin[0]).any(), guard
        before = _replaced_plans()
        for options in ({"sdpa_kernel": "1"}, {}):
            fused = rewritten(g.model(), ("attention", "projections"), options)
            ends = time.monotonic() + 60
            for call in itertools.count():
                np.testing.assert_allclose(fused.run(None, g.feeds)[0], twin, rtol=1e-2, atol=1e-2)
                if call >= 8 and (options or _replaced_plans() > before):
                    break
                assert time.monotonic() < ends, "the library's plan never came"
            assert _replaced_plans() == before + (not options), (guard, options)
            for _ in range(3):
                np.testing.assert_allclose(fused.run(None, g.feeds)[0], twin, rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    run_checks(globals())
