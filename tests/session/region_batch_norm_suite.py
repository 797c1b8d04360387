"""Batch normalisations that no convolution in front of them takes, with what stands around them.

    python -m tests.session.region_batch_norm_suite LIBRARY

Pre-activation networks, branches that meet and norms behind activations, against the same nodes one by one.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.session.image_models import CHANNELS, Images
from tests.session.region_fusion_suite import agree, logged_fusions
from tests.session.suite import run_checks


def _norm(images: Images, x: str) -> str:
    channels = images.shapes[x][0]
    spread = images.constant(images.rng.uniform(0.25, 4, channels).astype(np.float16))
    return images.add("BatchNormalization", [x, *(images.random(channels) for _ in range(3)), spread])


def _pooled(images: Images, x: str) -> str:
    return images.add("GlobalAveragePool", [x], (images.shapes[x][0], 1))


def check_dense_blocks() -> None:
    """Norms of joined channels and their activations, as in DenseNet."""
    images = Images(31)
    value = images.conv("x")
    for _ in range(3):
        inner = images.conv(images.add("Relu", [_norm(images, value)]), 32, kernel=1)
        inner = images.conv(images.add("Relu", [_norm(images, inner)]), 8)
        channels, size = images.shapes[value]
        value = images.add("Concat", [value, inner], (channels + 8, size), axis=1)
    agree(images, [_pooled(images, images.add("Relu", [_norm(images, value)]))], ("channels_last",))


def check_residual_blocks() -> None:
    """Norms of sums that others read, as in pre-activation ResNets; gates and other activations behind them."""
    for seed, activation in enumerate(("Relu", "HardSwish", "LeakyRelu", "Sigmoid")):
        images = Images(seed)
        value = images.conv("x")
        for _ in range(2):
            norm = _norm(images, value)
            active = images.add(activation, [norm])
            active = images.add("Mul", [norm, active]) if activation == "Sigmoid" else active
            value = images.add("Add", [images.conv(images.conv(active)), value])
        agree(images, [_pooled(images, _norm(images, value)), value], ("channels_last",))


def check_branches() -> None:
    """Sums of convolutions and norms of one image, as in RepVGG; norms behind activations, as in ConvMixer."""
    images = Images(41)
    value = images.conv("x")
    for _ in range(2):
        both = images.add("Add", [_norm(images, images.conv(value)), _norm(images, images.conv(value, kernel=1))])
        value = images.add("Relu", [images.add("Add", [both, _norm(images, value)])])
        mixed = images.conv(value, group=CHANNELS)
        mixed = images.add("Mul", [mixed, images.add("Sigmoid", [mixed])])
        value = images.add("Add", [_norm(images, mixed), value])
    agree(images, [value], ("channels_last",))


def check_what_a_convolution_reads() -> None:
    """Norms in front of convolutions, which take them over unless these see a border."""
    images = Images(61)
    value = images.conv("x")
    for kernel in (1, 3):
        inner = images.add("HardSwish", [images.conv(_norm(images, value), 24, kernel=kernel)])
        value = images.add("Add", [images.conv(inner, kernel=1), value])
    agree(images, [value], ("conv_affine", "channels_last"))
    lines = logged_fusions(images.model([value], TensorProto.FLOAT16), {})
    assert len([line for line in lines if "fusion conv_affine: " in line]) == 1, lines


if __name__ == "__main__":
    run_checks(globals())
