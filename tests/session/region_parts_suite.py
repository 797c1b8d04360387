"""Concats of channels whose parts convolutions write and read where they lie.

    python -m tests.session.region_parts_suite LIBRARY

Cross-stage blocks, necks and what may not be placed, against the same nodes one by one; before and after the library's
plans for such tensors are there.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto

from tests.session.image_models import CHANNELS, Images
from tests.session.region_fusion_suite import agree, logged_fusions, rewritten
from tests.session.region_support import joined
from tests.session.suite import run_checks, statistics


def _silu(images: Images, x: str) -> str:
    return images.add("Mul", [x, images.add("Sigmoid", [x])])


def _activated(images: Images, x: str, to: int, kernel: int = 1, activation: str = "silu") -> str:
    convolved = images.conv(x, to, kernel)
    return _silu(images, convolved) if activation == "silu" else images.add(activation, [convolved])


def stages(images: Images, x: str, to: int, count: int, *, residual: bool, activation: str = "silu") -> str:
    """Half of the channels pass `count` blocks, all of whose results are joined (C2f)."""
    half, size = to // 2, images.shapes[x][1]
    whole = _activated(images, x, to, 1, activation)
    parts = [f"{whole}.{i}" for i in range(2)]
    images.split(whole, parts)
    for _ in range(count):
        inner = _activated(images, _activated(images, parts[-1], half, 3, activation), half, 3, activation)
        parts.append(images.add("Add", [parts[-1], inner]) if residual else inner)
    return _activated(images, images.add("Concat", parts, ((2 + count) * half, size), axis=1), to, 1, activation)


def compiled() -> None:
    """Waits until no plan is made in the background."""
    while statistics()["plans"]["in_background"] > 0:
        time.sleep(0.01)


def check_cross_stage_blocks() -> None:
    """With sums and without, of one block and of two; activations that the library compiles."""
    for seed, (count, residual, activation) in enumerate(
        ((1, True, "silu"), (2, True, "silu"), (2, False, "silu"), (1, True, "LeakyRelu"), (2, False, "HardSwish"))
    ):
        images = Images(seed)
        value = stages(images, images.conv("x"), 32, count, residual=residual, activation=activation)
        value = images.add("GlobalAveragePool", [images.conv(value, kernel=1)], (CHANNELS, 1))
        before = statistics()["plans"]["replacements"]
        agree(images, [value], ("channels_last", "image_parts"))
        compiled()
        assert statistics()["plans"]["replacements"] > before
        agree(images, [value], ("channels_last", "image_parts"))


def _wrong_runs(session: ort.InferenceSession, feeds: list[np.ndarray], right: list[np.ndarray], count: int) -> int:
    """Of `count` Runs of each of the feeds, by a thread each."""

    def runs(index: int) -> int:
        found = (session.run(None, {"x": feeds[index]})[0].astype(np.float32) for _ in range(count))
        return sum(not np.allclose(mine, right[index], rtol=2e-2, atol=2e-2) for mine in found)

    with ThreadPoolExecutor(len(feeds)) as pool:
        return sum(pool.map(runs, range(len(feeds))))


def _pixels(images: Images, value: str) -> list[str]:
    """Pixels of the image as they are, and what a convolution makes of it."""
    return [images.add("GlobalMaxPool", [images.conv(value, kernel=1)], (CHANNELS, 1))]


def check_parts_that_others_make() -> None:
    """Pools and resized images are copied beside what convolutions write; a part that a pool reads is copied too."""
    images = Images(7)
    stem = _activated(images, "x", 24, 3)
    small = images.add("MaxPool", [stem], (24, 4), kernel_shape=[2, 2], strides=[2, 2])
    scales = images.constant(np.array([1, 1, 2, 2], np.float32))
    large = images.add("Resize", [small, "", scales], (24, 8), mode="nearest")
    beside = _activated(images, stem, 16, 3)
    joined_channels = images.add("Concat", [large, beside, stem], (64, 8), axis=1)
    outputs = _pixels(images, _activated(images, joined_channels, 16, 1))
    agree(images, outputs, ("image_parts",))
    compiled()
    agree(images, outputs, ("image_parts",))


def check_what_is_not_finite_stays_in_its_part() -> None:
    """A row of infinities in the input reaches the pixels that the model's own nodes say."""
    images = Images(8)
    value = stages(images, images.conv("x", kernel=1), 32, 2, residual=True)
    out = images.conv(value, kernel=1)
    pooled = images.add("GlobalAveragePool", [images.conv("x")], (CHANNELS, 1))
    half = images.model([out, pooled], TensorProto.FLOAT16)
    fused, plain = rewritten(half, ("image_parts",)), joined(half, {"fusion": "0"})
    for _ in range(2):
        x = images.rng.standard_normal((2, CHANNELS, 8, 8)).astype(np.float16)
        x[1, 3, 2, 5] = np.nan
        mine, twin = fused.run(None, {"x": x})[0], plain.run(None, {"x": x})[0]
        assert np.array_equal(np.isnan(mine), np.isnan(twin)), (np.isnan(mine).sum(), np.isnan(twin).sum())
        assert np.isfinite(mine[0]).all() and np.isnan(mine[1]).any()
        compiled()


def check_sizes_change() -> None:
    """Batches and empty ones, one after the other, in one session."""
    images = Images(9)
    value = stages(images, images.conv("x"), 32, 1, residual=True)
    half = images.model(_pixels(images, value), TensorProto.FLOAT16)
    fused = rewritten(half, ("image_parts",))
    plain = joined(half)
    for batch in (2, 0, 1, 5, 2, 0):
        x = images.rng.standard_normal((batch, CHANNELS, 8, 8)).astype(np.float16)
        mine, twin = fused.run(None, {"x": x})[0], plain.run(None, {"x": x})[0]
        assert mine.shape == twin.shape
        assert np.allclose(mine.astype(np.float32), twin.astype(np.float32), rtol=2e-2, atol=2e-2)


def check_images_of_one_pixel() -> None:
    """Convolutions that would be products: with a sum behind the activation or as parts they stay what they are."""
    images = Images(12)
    pixel = images.add("GlobalAveragePool", [_activated(images, "x", 64, 3)], (64, 1))
    first = _activated(images, pixel, 64)
    second = images.add("Add", [_activated(images, first, 64), first])
    whole = images.add("Concat", [_activated(images, pixel, 64), second], (128, 1), axis=1)
    outputs = [_activated(images, whole, 64), _activated(images, second, 64)]
    agree(images, outputs, ("image_parts", "short_products"))
    compiled()
    agree(images, outputs, ("image_parts", "short_products"))


def check_parts_that_follow_from_constants() -> None:
    """What is kept from call to call is not written by others: Runs of two threads."""
    images = Images(13)
    constant = images.random(1, CHANNELS, 8, 8)
    images.shapes[constant] = (CHANNELS, 8)
    kept = _activated(images, _activated(images, _activated(images, constant, 16, 3), 16, 3), 16, 3)
    made = images.add("Add", [_activated(images, kept, 16, 3), "x"])
    whole = images.add("Concat", [kept, made], (32, 8), axis=1)
    model = onnx.load_from_string(images.model(_pixels(images, whole), TensorProto.FLOAT16))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    single = model.SerializeToString()
    feeds = [images.rng.standard_normal((1, CHANNELS, 8, 8)).astype(np.float16) * (i + 1) for i in range(2)]
    plain = joined(single)
    right = [plain.run(None, {"x": x})[0].astype(np.float32) for x in feeds]
    rewritten(single, ("image_parts",)).run(None, {"x": feeds[0]})
    compiled()
    fused = rewritten(single, ("image_parts",))
    for _ in range(3):
        fused.run(None, {"x": feeds[0]})
    assert _wrong_runs(fused, feeds, right, 300) == 0


def check_threads_while_plans_are_made() -> None:
    """Runs of a session from several threads, before and while the library's plans come."""
    images = Images(14)
    value = stages(images, images.conv("x"), 48, 2, residual=True)
    model = images.model(_pixels(images, value), TensorProto.FLOAT16)
    fused, plain = rewritten(model, ("image_parts",)), joined(model)
    feeds = [images.rng.standard_normal((batch, CHANNELS, 8, 8)).astype(np.float16) for batch in (1, 2, 3, 4)]
    right = [plain.run(None, {"x": x})[0].astype(np.float32) for x in feeds]
    assert _wrong_runs(fused, feeds, right, 40) == 0


def check_near_misses_and_switches() -> None:
    """What may not be placed says why, and each switch leaves Concat as it is."""
    images = Images(10)
    first, second = _activated(images, "x", 16, 3), _activated(images, "x", 16, 3)
    pooled = images.add("MaxPool", [first], (16, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    pooled = images.add("MaxPool", [images.add("Add", [pooled, second])], (16, 8), kernel_shape=[1, 1])
    outputs = _pixels(images, images.add("Concat", [first, second], (32, 8), axis=1))
    outputs += _pixels(images, pooled)
    missed = [line for line in logged_fusions(images.model(outputs, TensorProto.FLOAT16), {}) if "image_parts" in line]
    assert len(missed) == 1 and "left alone" in missed[0] and "is read by" in missed[0], missed

    images = Images(11)
    model = images.model(_pixels(images, stages(images, images.conv("x"), 32, 1, residual=True)), TensorProto.FLOAT16)
    for options, count in (
        ({}, 1),
        ({"fusion_skip": "image_parts"}, 0),
        ({"deterministic_compute": "1"}, 0),
        ({"compiled_engines": "0"}, 0),
        ({"cudnn_conv_algo_search": "DEFAULT"}, 0),
    ):
        lines = [line for line in logged_fusions(model, options) if "image_parts: " in line]
        assert len(lines) == count, (options, lines)


if __name__ == "__main__":
    run_checks(globals())
