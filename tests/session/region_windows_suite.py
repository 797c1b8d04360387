"""Windows of images in compiled regions: parts that are joined in another order, attention inside of shifted windows.

python -m tests.session.region_windows_suite LIBRARY
"""

from __future__ import annotations

import itertools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from tests.session.fusion_models import BATCH, Graph
from tests.session.region_fusion_suite import rewritten
from tests.session.region_support import BASIC, joined
from tests.session.suite import SkippedError, add_provider, logged, run_checks, session_options, simulated

SIDE, WINDOW, CHANNELS, HEADS = 12, 4, 32, 4
TOKENS, ACROSS = WINDOW * WINDOW, SIDE // WINDOW


@dataclass
class Block:
    """Attention inside of windows of an image of [batch, SIDE, SIDE, CHANNELS], moved by `shift` along both axes."""

    graph: Graph
    dtype: Any
    shift: int = 0

    def ints(self, *numbers: int) -> str:
        return self.graph.constant(list(numbers), np.int64)

    def roll(self, value: str, shift: int, axis: int) -> str:
        """torch.roll by `-shift`, as exporters write it."""
        end, at = self.ints(np.iinfo(np.int64).max), self.ints(axis)
        cut = self.ints(shift)
        behind = self.graph.add("Slice", value, cut, end, at)
        return self.graph.add("Concat", behind, self.graph.add("Slice", value, self.ints(0), cut, at), axis=axis)

    def windows(self, value: str) -> str:
        apart = self.graph.add("Reshape", value, self.ints(-1, ACROSS, WINDOW, ACROSS, WINDOW, CHANNELS))
        turned = self.graph.add("Transpose", apart, perm=[0, 1, 3, 2, 4, 5])
        return self.graph.add("Reshape", turned, self.ints(-1, TOKENS, CHANNELS))

    def image(self, value: str) -> str:
        apart = self.graph.add("Reshape", value, self.ints(-1, ACROSS, ACROSS, WINDOW, WINDOW, CHANNELS))
        turned = self.graph.add("Transpose", apart, perm=[0, 1, 3, 2, 4, 5])
        return self.graph.add("Reshape", turned, self.ints(-1, SIDE, SIDE, CHANNELS))

    def attention(self, rows: str, bias: str, mask: str) -> str:
        g = self.graph
        packed = g.linear(rows, 3 * CHANNELS, CHANNELS, dtype=self.dtype)
        apart = g.add("Reshape", packed, self.ints(-1, TOKENS, 3, HEADS, CHANNELS // HEADS))
        turned = g.add("Transpose", apart, perm=[2, 0, 3, 1, 4])
        q, k, v = (g.add("Gather", turned, g.constant(i, np.int64), axis=0) for i in range(3))
        q = g.add("Mul", q, g.constant((CHANNELS // HEADS) ** -0.5, self.dtype))
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        if bias:
            scores = g.add("Add", scores, bias)
        if mask:
            by_window = g.add("Reshape", scores, self.ints(-1, ACROSS**2, HEADS, TOKENS, TOKENS))
            masked = g.add("Add", by_window, g.add("Unsqueeze", g.add("Unsqueeze", mask, self.ints(1)), self.ints(0)))
            scores = g.add("Reshape", masked, self.ints(-1, HEADS, TOKENS, TOKENS))
        mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
        merged = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.ints(-1, TOKENS, CHANNELS))
        return g.linear(merged, CHANNELS, CHANNELS, dtype=self.dtype)

    def build(self, x: str, bias: str, mask: str) -> str:
        shifted = x
        for axis in (1, 2):
            shifted = self.roll(shifted, self.shift, axis) if self.shift else shifted
        image = self.image(self.attention(self.windows(shifted), bias, mask))
        for axis in (1, 2):
            image = self.roll(image, SIDE - self.shift, axis) if self.shift else image
        return self.graph.add("Add", x, image)


def _block(dtype: Any, shift: int, bias: bool, mask: float, constant: bool) -> Graph:
    """`mask`: what hides keys of other parts of the image; 0: none."""
    g = Graph()
    block = Block(g, dtype, shift)
    x = g.feed("x", g.normal(BATCH, SIDE, SIDE, CHANNELS, dtype=dtype))
    values = g.normal(1, HEADS, TOKENS, TOKENS, dtype=dtype)
    region = g.rng.integers(3, size=(ACROSS**2, TOKENS))
    hidden = np.where(region[:, None, :] == region[:, :, None], 0, mask).astype(dtype)
    given = (lambda _, value: g.constant(value, value.dtype)) if constant else g.feed
    bias_name = given("bias", values) if bias else ""
    g.outputs.append(block.build(x, bias_name, given("mask", hidden) if mask else ""))
    return g


def _feeds(g: Graph, batch: int) -> dict[str, np.ndarray]:
    return {**g.feeds, "x": g.normal(batch, SIDE, SIDE, CHANNELS, dtype=g.feeds["x"].dtype)}


def check_shifted_windows() -> None:
    """Near to the nodes one by one, for any number of images; keys that a window's mask hides have no weight."""
    forms = [
        (dtype, shift, bias, mask, constant)
        for dtype in (np.float32, np.float16)
        for shift in (0, 2)
        for bias in (False, True)
        for mask in (0.0, -100.0, -np.inf)
        for constant in (False, True)
        if dtype is np.float16 or constant != bias
    ]
    for form in forms:
        g = _block(*form)
        passes = ("attention", "projections", *(("joins",) if form[1] else ()))
        fused, plain = rewritten(g.model(), passes), joined(g.model())
        for batch in (BATCH, 1, 3, 0):
            feeds = _feeds(g, batch)
            (mine,), (twin,) = fused.run(None, feeds), plain.run(None, feeds)
            assert mine.shape == twin.shape == (batch, SIDE, SIDE, CHANNELS)
            assert np.isfinite(mine).all(), form
            tolerance = 2e-5 if form[0] is np.float32 else 2e-2
            np.testing.assert_allclose(mine, twin, rtol=tolerance, atol=tolerance, err_msg=str(form))


def _moved(g: Graph, block: Block, x: str) -> str:
    """What is drawn of views, moves along axes, and other views."""
    value, turned = x, bool(g.rng.integers(2))
    if turned:
        value = g.add("Transpose", value, perm=[0, 2, 1, 3])
    for axis in g.rng.permutation([1, 2, 3])[: g.rng.integers(1, 4)]:
        size = CHANNELS if axis == 3 else SIDE
        value = block.roll(value, int(g.rng.integers(1, size)), int(axis))
        if g.rng.integers(6) == 0:
            g.outputs.append(g.add("Neg", value))
    way = g.rng.integers(4)
    if way == 0:
        value = block.windows(value)
    elif way == 1:
        value = g.add("Transpose", value, perm=[3, 0, 2, 1])
    elif way == 2:
        value = g.add("Slice", value, block.ints(0), block.ints(SIDE), block.ints(1))
    return g.add("Reshape", g.add("Reshape", value, block.ints(-1)), block.ints(-1, SIDE, SIDE, CHANNELS))


def _stepped(g: Graph, block: Block, x: str) -> str:
    """Positions in steps of two, three or four along one axis or two, joined in an order that is drawn."""
    steps = {int(axis): int(g.rng.choice([2, 3, 4])) for axis in g.rng.permutation([1, 2])[: g.rng.integers(1, 3)]}
    parts = []
    for starts in itertools.product(*(range(step) for step in steps.values())):
        part = x
        for (axis, step), start in zip(steps.items(), starts, strict=True):
            end = block.ints(np.iinfo(np.int64).max)
            part = g.add("Slice", part, block.ints(start), end, block.ints(axis), block.ints(step))
        parts.append(part)
    if g.rng.integers(3) == 0:
        parts[0], parts[-1] = parts[-1], parts[0]
    return g.add("Concat", *parts, axis=-1)


def check_parts_that_are_joined() -> None:
    """Every bit, for any number of images and elements of any size."""
    joins = 0
    ort.set_default_logger_severity(0)
    for seed in range(60):
        g = Graph(rng=np.random.default_rng(seed))
        dtype = (np.float16, np.float32, np.int8, np.int64)[seed % 4]
        block = Block(g, dtype)
        x = g.feed("x", g.normal(BATCH, SIDE, SIDE, CHANNELS, scale=50).astype(dtype))
        y = (
            g.add("Identity", x)
            if seed % 3
            else g.add("Transpose", g.add("Transpose", x, perm=[0, 3, 1, 2]), perm=[0, 2, 3, 1])
        )
        moved = (_moved, _stepped)[seed % 5 == 0](g, block, y)
        g.outputs.append(g.add("Identity", moved))
        model = g.model()
        with logged("fusion joins: ") as lines:
            fused = joined(model, {"fusion": "1"})
        plain, joins = joined(model), joins + len(lines)
        for batch in (BATCH, 1, 3, 0):
            feeds = {"x": g.normal(batch, SIDE, SIDE, CHANNELS, scale=50).astype(dtype)}
            for mine, twin in zip(fused.run(None, feeds), plain.run(None, feeds), strict=True):
                np.testing.assert_array_equal(mine, twin, err_msg=str(seed))
    ort.set_default_logger_severity(2)
    assert joins > 50, joins


def check_windows_without_keys() -> None:
    """NaN where a row's keys are all hidden in one window, in every image, and nowhere else."""
    g = _block(np.float32, 0, True, -np.inf, False)
    mask = g.feeds["mask"]
    mask[4, 7] = -np.inf
    fused, plain = rewritten(g.model(), ("attention",)), joined(g.model())
    for batch in (BATCH, 1, 3):
        feeds = _feeds(g, batch)
        (mine,), (twin,) = fused.run(None, feeds), plain.run(None, feeds)
        assert np.isnan(twin).any(axis=-1).sum() == batch
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(twin))
        np.testing.assert_allclose(mine, twin, rtol=2e-5, atol=2e-5)


def _launches(model: bytes, feeds: dict[str, np.ndarray], runs: int) -> int:
    """Of all kernels in a session's first Runs, by its profile."""
    settings = session_options()
    settings.graph_optimization_level = BASIC
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        settings.profile_file_prefix = str(Path(folder) / "profile")
        add_provider(settings, {"compiled_regions": "1"})
        profiled = ort.InferenceSession(model, settings)
        for _ in range(runs):
            profiled.run(None, feeds)
        events = json.loads(Path(profiled.end_profiling()).read_text(encoding="utf-8"))
    return sum(event["cat"] == "Kernel" and event["args"].get("activity") == "kernel" for event in events)


def check_launches_of_a_block() -> None:
    """Move and cut, product, attention, product, put together and move back, sum."""
    if not simulated():
        raise SkippedError("a device's library may take several launches for a product")
    g = _block(np.float16, 2, True, -100.0, True)
    feeds = _feeds(g, 1)
    first, more = (_launches(g.model(), feeds, runs) for runs in (3, 6))
    if first == 0:
        raise SkippedError("this host does not let providers profile")
    assert more - first == 3 * 6, (first, more)


if __name__ == "__main__":
    run_checks(globals())
