"""What compiled regions rewrite: the same results as without, and not further from those of the CPU in float32.

    python -m tests.session.region_fusion_suite LIBRARY

Convolutional networks of 16 bits, as they are built and at random; what is infinite, empty or not as the model says. A
rewritten region rounds less often than its nodes one by one, so that bits differ.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.fusion_models import BATCH, HIDDEN, STEPS, Graph
from tests.session.image_models import CHANNELS, Images
from tests.session.region_support import joined
from tests.session.suite import error_of, logged, on_one_host, run_checks, simulated


def _results(session: ort.InferenceSession, feed: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(value).astype(np.float64) for value in session.run(None, {"x": feed})]


def _logged(model: bytes, options: dict[str, str]) -> tuple[ort.InferenceSession, list[str]]:
    ort.set_default_logger_severity(0)
    with logged("fusion ") as lines:
        session = joined(model, {"fusion": "1", **options})
    ort.set_default_logger_severity(2)
    return session, lines


def logged_fusions(model: bytes, options: dict[str, str]) -> list[str]:
    """What the passes say that they did."""
    return _logged(model, options)[1]


def rewritten(model: bytes, passes: tuple[str, ...], options: dict[str, str] | None = None) -> ort.InferenceSession:
    """Each of the passes did something."""
    session, lines = _logged(model, options or {})
    for name in passes:
        assert any(f"fusion {name}: " in line for line in lines), (name, lines)
    return session


def agree(images: Images, outputs: list[str], passes: tuple[str, ...] = ()) -> None:
    """Right with and without rewriting, which `passes` do something to; the error is at most that of single nodes."""
    half = images.model(outputs, TensorProto.FLOAT16)
    reference = ort.InferenceSession(images.model(outputs, TensorProto.FLOAT), providers=["CPUExecutionProvider"])
    fused, plain = rewritten(half, passes), joined(half)
    for batch in (1, 3, 1):
        x = images.rng.standard_normal((batch, images.x[0], images.x[1], images.x[1])).astype(np.float16)
        wanted = _results(reference, x.astype(np.float32))
        for name, mine, twin, right in zip(outputs, _results(fused, x), _results(plain, x), wanted, strict=True):
            assert mine.shape == twin.shape == right.shape, (name, mine.shape, twin.shape, right.shape)
            largest = np.max(np.abs(right), initial=1e-3)
            mine_off, twin_off = (float(np.sqrt(np.mean((y - right) ** 2))) / largest for y in (mine, twin))
            assert twin_off < 1e-2 and mine_off <= 1.1 * twin_off + 2.0**-11, (name, mine_off, twin_off)


def check_bottlenecks() -> None:
    """Convolutions, sums and activations, as in ResNet, with a pooled head."""
    images = Images(1, channels=8, size=16)
    value = images.add("Relu", [images.conv("x", stride=2)])
    value = images.add("MaxPool", [value], (CHANNELS, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        inner = images.add("Relu", [images.conv(value, 8, kernel=1)])
        inner = images.add("Relu", [images.conv(inner, 8)])
        inner = images.conv(inner, kernel=1)
        value = images.add("Relu", [images.add("Add", [inner, value])])
    pooled = images.add("GlobalAveragePool", [value], (CHANNELS, 1))
    flat = images.add("Flatten", [pooled])
    agree(
        images,
        [images.add("Gemm", [flat, images.random(CHANNELS, 10, scale=0.25)])],
        ("conv_epilogue", "channels_last"),
    )


def check_stems() -> None:
    """First convolutions, of few channels, at every stride and padding."""
    for size, kernel, stride in ((16, 7, 2), (15, 7, 2), (17, 3, 2), (16, 3, 2), (16, 4, 4), (9, 3, 1), (13, 5, 3)):
        images = Images(size + kernel, channels=3, size=size)
        value = images.add("Relu", [images.conv("x", kernel=kernel, stride=stride)])
        value = images.add("GlobalAveragePool", [images.conv(value, kernel=1)], (CHANNELS, 1))
        agree(images, [value], ("channels_last",))


def check_stems_that_pool() -> None:
    """A pool right behind a first convolution, also of infinite and NaN pixels: the very numbers of the two."""
    for size, kernel, pads in ((32, 7, 1), (27, 3, 0), (40, 5, 1)):
        images = Images(size, channels=3, size=size)
        value = images.add("Relu", [images.conv("x", kernel=kernel, stride=2)])
        shape = (CHANNELS, ((size + 1) // 2 + 2 * pads - 3) // 2 + 1)
        value = images.add("MaxPool", [value], shape, kernel_shape=[3, 3], strides=[2, 2], pads=[pads] * 4)
        pooled = images.add("GlobalAveragePool", [images.conv(value, kernel=1)], (CHANNELS, 1))
        agree(images, [pooled], ("conv_epilogue", "channels_last", "stem_pool"))
        model = images.model([value, pooled], TensorProto.FLOAT16)
        fused = rewritten(model, ("stem_pool",))
        apart = joined(model, {"fusion": "1", "fusion_skip": "stem_pool"})
        for special in (0, np.nan, np.inf, -np.inf):
            x = images.rng.standard_normal((2, 3, size, size)).astype(np.float16)
            x[1, 2, 5, 8] = special
            mine, twin = _results(fused, x)[0], _results(apart, x)[0]
            assert np.array_equal(mine, twin, equal_nan=True), (size, kernel, pads, special)
            assert np.isfinite(mine).all() == (special == 0), special


def check_what_lies_beside_a_window_has_no_part_in_it() -> None:
    """Of infinite pixels a first convolution sees no more than the model's windows do.

    On GPUs cuDNN has the one of stride 4, and some of its channels-last engines lose infinities.
    """
    for kernel, stride in ((7, 2), (3, 2), (4, 4), (3, 1)):
        if stride == 4 and not simulated():
            continue
        images = Images(kernel, channels=3, size=16)
        stem = images.conv("x", kernel=kernel, stride=stride)
        pooled = images.add("GlobalAveragePool", [images.conv(stem, kernel=1)], (CHANNELS, 1))
        reference = ort.InferenceSession(images.model([stem], TensorProto.FLOAT), providers=["CPUExecutionProvider"])
        fused = rewritten(images.model([stem, pooled], TensorProto.FLOAT16), ("channels_last",))
        for row, column in ((5, 8), (8, 5), (15, 15), (0, 0)):
            x = images.rng.standard_normal((2, 3, 16, 16)).astype(np.float16)
            x[0, 1, row, column] = np.inf
            finite = np.isfinite(_results(reference, x.astype(np.float32))[0])
            assert finite.any() and not finite.all()
            assert np.array_equal(np.isfinite(_results(fused, x)[0]), finite), (kernel, stride, row, column)


def _gated_bottlenecks(squeezed: int) -> tuple[Images, str]:
    """Inverted bottlenecks with a gate a channel, as in MobileNet and EfficientNet, and the means of the last."""
    images = Images(2)
    value = "x"
    for kernel, stride in ((3, 1), (5, 1), (3, 2)):
        inner = images.add("HardSwish", [images.conv(value, 32, kernel=1)])
        inner = images.add("HardSwish", [images.conv(inner, 32, kernel, stride, group=32)])
        gate = images.add("GlobalAveragePool", [inner], (32, 1))
        gate = images.add("Relu", [images.conv(gate, squeezed, kernel=1)])
        gate = images.add("HardSigmoid", [images.conv(gate, 32, kernel=1)])
        inner = images.conv(images.add("Mul", [inner, gate]), kernel=1)
        value = images.add("Add", [inner, value]) if stride == 1 else inner
    return images, images.add("ReduceMean", [value, images.constant(np.array([2, 3]))], keepdims=0)


def check_depthwise_with_gates() -> None:
    """The convolutions of gates are products of the batch's rows, with squeezed channels filled up to whole packs."""
    for squeezed in (6, 8, 10):
        images, means = _gated_bottlenecks(squeezed)
        agree(images, [means], ("channels_last", "short_products"))
        half = images.model([means], TensorProto.FLOAT16)
        for options, products in (({}, 6), ({"deterministic_compute": "1"}, 0)):
            lines = [line for line in logged_fusions(half, options) if "short_products: " in line and " + " in line]
            assert len(lines) == products, lines


def check_gates_of_pixels_that_are_no_numbers() -> None:
    """The image with such a pixel is NaN in the channels that its means reach, others are as without it."""
    images, means = _gated_bottlenecks(6)
    model = images.model([means], TensorProto.FLOAT16)
    fused, plain = joined(model, {"fusion": "1"}), joined(model)
    for special in (np.inf, -np.inf, np.nan):
        x = images.rng.standard_normal((3, CHANNELS, 8, 8)).astype(np.float16)
        x[1, 3, 4, 4] = special
        mine, twin = _results(fused, x)[0], _results(plain, x)[0]
        assert np.array_equal(np.isnan(mine), np.isnan(twin)) and np.array_equal(np.isinf(mine), np.isinf(twin))
        assert np.isfinite(mine[[0, 2]]).all() and not np.isfinite(mine[1]).all(), special


def check_convolutions_of_one_pixel() -> None:
    """With residuals, infinite pixels and no image at all; a border or two pixels make it no product."""
    images = Images(5)
    pixel = images.add("GlobalAveragePool", [images.conv("x")], (CHANNELS, 1))
    value = images.add("LeakyRelu", [images.add("Add", [images.conv(pixel, kernel=1), pixel])], alpha=0.25)
    value = images.add("Clip", [images.conv(value, 24, kernel=1), *(images.constant(np.float16(b)) for b in (-1, 2))])
    bordered = images.conv(images.add("Concat", [value, value], (24, 1), axis=2), kernel=1)
    bordered = images.add("Add", [images.conv(value, kernel=3), bordered])
    agree(images, [value, bordered], ("channels_last", "short_products"))
    model = images.model([value, bordered], TensorProto.FLOAT16)
    fusions = logged_fusions(model, {})
    assert len([line for line in fusions if "short_products: " in line]) == 2, fusions
    fused, plain = joined(model, {"fusion": "1"}), joined(model, {"fusion": "0"})
    x = images.rng.standard_normal((3, CHANNELS, 8, 8)).astype(np.float16)
    x[1, 3, 4, 4] = np.inf
    for mine, twin in zip(_results(fused, x), _results(plain, x), strict=True):
        assert np.array_equal(np.isnan(mine), np.isnan(twin)) and np.array_equal(np.isinf(mine), np.isinf(twin))
        assert np.isfinite(mine[[0, 2]]).all()
    assert [y.shape for y in _results(fused, x[:0])] == [(0, 24, 1, 1), (0, CHANNELS, 2, 1)]


def check_the_models_own_channels_last() -> None:
    """Norms over channels between Transposes, as in ConvNeXt."""
    images = Images(3)
    value = images.conv("x")
    for _ in range(2):
        inner = images.add("Transpose", [images.conv(value, kernel=7, group=CHANNELS)], perm=[0, 2, 3, 1])
        inner = images.add("LayerNormalization", [inner, images.random(CHANNELS), images.random(CHANNELS)])
        inner = images.add("MatMul", [inner, images.random(CHANNELS, 32, scale=0.25)])
        inner = images.add("MatMul", [images.add("Relu", [inner]), images.random(32, CHANNELS, scale=0.2)])
        inner = images.add("Transpose", [inner], (CHANNELS, 8), perm=[0, 3, 1, 2])
        value = images.conv(images.add("Add", [value, inner]))
    agree(images, [value], ("channels_last",))


def check_patches() -> None:
    """Windows side by side whose results are tokens next, as in vision transformers and ConvNeXt."""
    for size, patch, tokens in ((16, 4, True), (15, 4, False), (28, 14, True), (9, 3, True), (12, 1, False)):
        images = Images(patch, channels=3, size=size)
        wide = size // patch
        w = images.random(CHANNELS, 3, patch, patch, scale=0.5 / patch)
        value = images.add("Conv", ["x", w, images.random(CHANNELS)], (CHANNELS, wide), strides=[patch, patch])
        if tokens:
            value = images.add("Reshape", [value, images.constant(np.array([0, CHANNELS, wide * wide]))])
        value = images.add("Transpose", [value], perm=[0, 2, 1] if tokens else [0, 2, 3, 1])
        value = images.add("LayerNormalization", [value, images.random(CHANNELS), images.random(CHANNELS)])
        if not tokens:
            value = images.add("Transpose", [value], (CHANNELS, wide), perm=[0, 3, 1, 2])
            inner = images.add("Transpose", [images.conv(value, kernel=7, group=CHANNELS)], perm=[0, 2, 3, 1])
            inner = images.add("Softmax", [inner])
            inner = images.add("Transpose", [inner], (CHANNELS, wide), perm=[0, 3, 1, 2])
            value = images.add("Add", [value, inner])
        agree(images, [value], ("channels_last",))


def check_up_and_down() -> None:
    """Sizes read from other images, joins along channels and borders, as in U-Net and feature pyramids."""
    images = Images(4)
    wide = images.add("Relu", [images.conv("x")])
    small = images.add("Relu", [images.conv(wide, stride=2)])
    sizes = images.add("Shape", [wide], start=2)
    all_sizes = images.add("Concat", [images.add("Shape", [small], end=2), sizes], axis=0)
    back = images.add("Resize", [small, "", "", all_sizes], (CHANNELS, 8), mode="nearest")
    both = images.add("Concat", [back, wide], (2 * CHANNELS, 8), axis=1)
    padded = images.add("Pad", [images.conv(both), images.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1]))], (CHANNELS, 9))
    agree(images, [images.add("Softmax", [padded], axis=1), small], ("channels_last",))


def _group_norm(images: Images, value: str, groups: int, as_node: bool, swish: bool = True) -> str:
    """GroupNorm of `value`, as older and newer exports have it, and SiLU."""
    channels, _ = images.shapes[value]
    if as_node:
        y = images.add("GroupNormalization", [value, images.random(channels), images.random(channels)],
                       num_groups=groups)  # fmt: skip
    else:
        one, zero = (images.constant(np.full(groups, fill, np.float16)) for fill in (1, 0))
        split = images.add("Reshape", [value, images.constant(np.array([0, groups, -1]))])
        normal = images.add("InstanceNormalization", [split, one, zero], epsilon=1e-5)
        back = images.add("Reshape", [normal, images.add("Shape", [value])], images.shapes[value])
        y = images.add("Mul", [back, images.random(channels, 1, 1)])
        y = images.add("Add", [y, images.random(channels, 1, 1)])
    return images.add("Mul", [y, images.add("Sigmoid", [y])]) if swish else y


def check_diffusion_blocks() -> None:
    """Residual blocks with group norms, a vector that is added to the channels, and connections past the middle."""
    for seed, as_node, size in ((11, False, 8), (12, True, 8), (13, False, 32)):
        images = Images(seed, channels=8, size=size, opset=21 if as_node else 18)
        time = images.add("Flatten", [images.add("GlobalAveragePool", ["x"], (8, 1))])
        skips = [images.conv("x", 40)]
        value = skips[0]
        for to, stride in ((40, 1), (80, 2), (40, 1)):
            if stride == 1 and len(skips) > 2:
                value = images.add("Resize", [value, "", images.constant(np.array([1, 1, 2, 2], np.float32))],
                                   (80, size), mode="nearest")  # fmt: skip
                value = images.add("Concat", [value, skips[-2]], (120, size), axis=1)
            inner = _group_norm(images, value, 4, as_node)
            inner = images.conv(inner, to, stride=stride)
            vector = images.add("Gemm", [time, images.random(8, to), images.random(to)])
            vector = images.add("Unsqueeze", [vector, images.constant(np.array([2, 3]))])
            inner = images.add("Add", [inner, vector])
            inner = images.conv(_group_norm(images, inner, 4, as_node), to)
            value = images.add("Add", [inner, images.conv(value, to, kernel=1, stride=stride)])
            skips.append(value)
        value = images.conv(_group_norm(images, value, 4, as_node, swish=False), 8, kernel=1)
        agree(images, [value], ("group_norm", "channels_last"))


def check_names_of_dimensions_that_lie() -> None:
    """Inputs whose dimensions have one name, and differ in a Run: refused by name, or run as the model's nodes."""
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["rows", 8])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "z"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    rng = np.random.default_rng(9)
    w, x, z = (rng.standard_normal(shape, dtype=np.float32) for shape in ((8, 8), (3, 8), (1, 8)))
    model = models.model(nodes, {"x": rows, "z": rows}, {"y": rows}, {"w": w})
    fused = rewritten(model, ("product_epilogue",))
    np.testing.assert_allclose(fused.run(None, {"x": x, "z": x})[0], np.maximum(x @ w + x, 0), rtol=1e-5, atol=1e-5)
    error = error_of(lambda: fused.run(None, {"x": x, "z": z}))
    assert "dimension 0 of 'x' and 0 of 'z' both 'rows', and they are 3 and 1: fusion=0" in error, error
    (plain,) = joined(model).run(None, {"x": x, "z": z})
    np.testing.assert_allclose(plain, np.maximum(x @ w + z, 0), rtol=1e-5, atol=1e-5)


def check_products_of_few_rows() -> None:
    """Convolutions up to 256 rows as soon as their plans are there, products before and above."""
    half = np.float16
    g = Graph()
    x = g.feed("x", g.normal(BATCH, STEPS, HIDDEN, dtype=half))
    wide = g.linear(x, 2 * HIDDEN, dtype=half)
    gate = g.add("Erf", g.add("Div", wide, g.constant(2**0.5, half)))
    active = g.add("Mul", g.add("Mul", wide, g.add("Add", gate, g.constant(1, half))), g.constant(0.5, half))
    summed = g.add("Add", g.linear(active, HIDDEN, 2 * HIDDEN, dtype=half), x)
    g.outputs.append(g.add("MatMul", summed, g.weight(HIDDEN, 24, dtype=half)))
    passes = ("product_epilogue", "short_products")
    fused, plain = rewritten(g.model(), passes), joined(g.model())
    for steps in (STEPS, 128, 129, STEPS):
        feed = g.normal(BATCH, steps, HIDDEN, dtype=half)
        wanted = _results(plain, feed)[0]
        for _ in range(4):
            np.testing.assert_allclose(_results(fused, feed)[0], wanted, rtol=2e-2, atol=2e-2)
            time.sleep(0.05)


def random_images(seed: int) -> tuple[Images, list[str]]:
    """Nodes that have a channels-last form, and some that have none, in any order."""
    images = Images(seed)
    rng, values = images.rng, ["x"]

    def some() -> str:
        return values[max(rng.integers(len(values)), rng.integers(len(values)))]

    def alike(x: str) -> str:
        return str(rng.choice([value for value in values if images.shapes[value] == images.shapes[x]]))

    def grow() -> str:
        x = some()
        channels, size = images.shapes[x]
        kind = rng.integers(15)
        if kind < 4:
            to = int(rng.choice([8, 16, 24]))
            return images.conv(x, to, int(rng.choice([1, 3])), int(rng.choice([1, 2])) if size > 2 else 1)
        if kind == 4:
            return images.conv(x, channels, group=channels)
        if kind == 5:
            return images.add("Tanh", [images.add(str(rng.choice(["Add", "Mul", "Sub"])), [x, alike(x)])])
        if kind == 6:
            shape = [(channels, 1, 1), (1, channels, 1, 1), (size, size), (1,), (channels, size, size)][rng.integers(5)]
            return images.add("Mul", [x, images.random(*shape)])
        if kind == 7:
            return images.add("Concat", [x, alike(x)], (2 * channels, size), axis=int(rng.choice([1, -3])))
        if kind == 8 and size > 2:
            pool = str(rng.choice(["MaxPool", "AveragePool"]))
            return images.add(pool, [x], (channels, size // 2), kernel_shape=[2, 2], strides=[2, 2])
        if kind == 9:
            gate = images.add("Sigmoid", [images.add("GlobalAveragePool", [x], (channels, 1))])
            return images.add("Mul", [x, gate])
        if kind == 10:
            last = images.add("Transpose", [x], perm=[0, 2, 3, 1])
            norm = images.add("LayerNormalization", [last, images.random(channels)])
            return images.add("Transpose", [norm], (channels, size), perm=[0, 3, 1, 2])
        if kind == 11:
            flat = images.add("Reshape", [x, images.constant(np.array([0, channels, -1]))])
            return images.add("Reshape", [images.add("Softmax", [flat]), images.add("Shape", [x])], (channels, size))
        if kind == 12:
            return images.add("Transpose", [x], (channels, size), perm=[0, 1, 3, 2])
        if kind == 13 and channels % 16 == 0:
            ends = [images.constant(np.array([v])) for v in (channels // 2, channels, 1)]
            return images.add("Slice", [x, *ends], (channels // 2, size))
        return images.add(str(rng.choice(["Relu", "Sigmoid", "Neg", "HardSwish"])), [x])

    for _ in range(rng.integers(4, 24)):
        values.append(grow())
    return images, sorted({values[-1], *(some() for _ in range(rng.integers(3)))} - {"x"})


def _agree_on_each(make: Callable[[int], tuple[Images, list[str]]], seeds: range, file: str) -> None:
    """Networks of these seeds; the first that fails is left in the folder for temporary files."""
    for seed in seeds:
        images, outputs = make(seed)
        try:
            agree(images, outputs)
        except Exception:
            Path(tempfile.gettempdir(), file).write_bytes(images.model(outputs, TensorProto.FLOAT16))
            raise


@on_one_host
def check_random_images() -> None:
    """Whatever stands between convolutions."""
    _agree_on_each(random_images, range(100, 135), "images.onnx")


def random_chain(seed: int) -> tuple[Images, list[str]]:
    """Element-wise nodes in any order, with some between them that are not; all values stay small."""
    images = Images(seed, size=int(np.random.default_rng(seed).integers(3, 17)))
    rng, values = images.rng, ["x"]
    channels, size = images.x
    bounds = [images.constant(np.float16(bound)) for bound in (-3, 3)]
    ones = [images.add("Less", ["x", images.random(size)])]

    def some() -> str:
        return values[max(rng.integers(len(values)), rng.integers(len(values)))]

    def operand() -> str:
        shape = [(), (size,), (channels, 1, 1), (channels, size, size)][rng.integers(4)]
        return some() if rng.integers(2) else images.random(*shape)

    def grow() -> str:
        x, kind = some(), rng.integers(9)
        if kind < 4:
            pair = [x, operand()]
            op = str(rng.choice(["Add", "Mul", "Sub", "Max", "Min"]))
            return images.add("Clip", [images.add(op, pair if rng.integers(2) else pair[::-1]), *bounds])
        if kind == 4:
            return images.add("Where", [ones[0], *((x, operand()) if rng.integers(2) else (operand(), x))])
        if kind == 5:
            return images.add("Softmax", [x], axis=int(rng.choice([1, -1])))
        if kind == 6:
            wide = images.add("Tanh", [images.add("Cast", [x], to=TensorProto.FLOAT)])
            return images.add("CastLike", [wide, "x"])
        unary = ["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "HardSwish", "LeakyRelu", "Softplus"]
        return images.add(str(rng.choice(unary)), [x])

    for _ in range(rng.integers(3, 40)):
        values.append(grow())
    return images, sorted({values[-1], *(some() for _ in range(rng.integers(3)))} - {"x"})


def check_gates() -> None:
    """Scales, shifts and gates of whole images, of channels and of columns, as in squeeze-and-excitation blocks."""
    images = Images(6, size=9)
    gate = images.add("Sigmoid", [images.add("GlobalAveragePool", ["x"], (CHANNELS, 1))])
    value = images.add("Add", [images.add("Mul", ["x", gate]), images.random(CHANNELS, 1, 1)])
    value = images.add("Mul", [images.add("Tanh", [value]), images.random(9)])
    below = images.add("Less", [value, images.constant(np.float16(-8))])
    value = images.add("Where", [below, images.constant(np.float16(0)), images.add("Sub", [value, "x"])])
    agree(images, [value, images.add("Softmax", [value])], ("chains",))


@on_one_host
def check_random_chains() -> None:
    """Whatever element-wise nodes there are, and what reads them."""
    _agree_on_each(random_chain, range(200, 235), "chain.onnx")


if __name__ == "__main__":
    run_checks(globals())
