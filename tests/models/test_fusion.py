"""What compiled regions rewrite models to, and that results are no further from the CPU's in float32 for it."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from ort_cuda_ep import optimize

from ..session import host
from . import precision, runs, weights
from .test_models import FORMS, QUANTISED_TOLERANCE, TOLERANCE, forms, reference

# How often each rewriting is done; of two layers.
_DENSE = {"product_epilogue": 12}
# Products of queries, keys and values, and of the gate and what it gates.
_DECODER = {
    "activation": 2, "rotary": 4, "attention": 2, "decoder_attention": 2, "product_epilogue": 6, "projections": 4,
}  # fmt: skip
_ROTATED = {"rotary": 6, "attention": 3, "decoder_attention": 3, "projections": 6}
_GPT2 = {"activation": 2, "attention": 2, "decoder_attention": 2, "product_epilogue": 6, "projections": 2}
_T5 = {"product_epilogue": 6, "activation": 2, "attention": 2, "projections": 4, "norm": 5}
_WAV2VEC2 = {"attention": 2, "group_norm": 1, "product_epilogue": 14, "projections": 2, "skip_norm": 1}
FUSED = {
    "bart_decoder.torchscript": {
        "activation": 2,
        "attention": 4,
        "decoder_attention": 2,
        "product_epilogue": 21,
        "projections": 2,
    },
    "bart_encoder.dynamo": _DENSE | {"attention": 2, "projections": 2},
    "bert.dynamo": _DENSE | {"attention": 2, "projections": 2},
    "bert.torchscript": _DENSE | {"activation": 2, "attention": 2, "projections": 2},
    "clip_text.dynamo": _DENSE | {"activation": 2, "attention": 2, "projections": 2},
    "convnext.dynamo": {"conv_affine": 4, "product_epilogue": 8},
    "dlrm.dynamo": {"embedding_bag": 3, "product_epilogue": 4},
    "dlrm.torchscript": {"embedding_bag": 3, "product_epilogue": 4},
    "distilbert.dynamo": {"product_epilogue": 13, "attention": 2, "projections": 2},
    "efficientnet.torchscript": {"conv_epilogue": 44},
    "gpt2.dynamo": _GPT2,
    "gpt2.torchscript": _GPT2,
    "llama.dynamo": _DECODER | {"norm": 5},
    "llama.torchscript": _DECODER | {"norm": 5},
    "mixtral.dynamo": _DECODER | {"norm": 5, "product_epilogue": 2, "skip_norm": 2},
    "mobilenet_v3.dynamo": {"conv_epilogue": 48, "product_epilogue": 1},
    "modernbert.dynamo": _ROTATED | {"product_epilogue": 6},
    "modernbert.torchscript": _ROTATED | {"activation": 3, "product_epilogue": 6},
    "qwen3.dynamo": _DECODER | {"norm": 9},
    "qwen3.torchscript": _DECODER | {"norm": 9},
    "resnet.torchscript": {"conv_epilogue": 9},
    "resnext.dynamo": {"conv_epilogue": 13},
    "swin.dynamo": {"joins": 5, "attention": 4, "product_epilogue": 16, "projections": 4, "skip_norm": 4},
    "t5_decoder.torchscript": {
        "activation": 2,
        "attention": 4,
        "decoder_attention": 1,
        "norm": 7,
        "product_epilogue": 8,
        "projections": 3,
    },
    "t5_encoder.dynamo": _T5,
    "t5_encoder.torchscript": _T5 | {"projections": 3},
    "unet_group_norm.dynamo": {"group_norm": 10, "attention": 1, "product_epilogue": 1},
    "vit.dynamo": {"product_epilogue": 8, "attention": 2, "projections": 2},
    "vit.torchscript": {"activation": 2, "attention": 2, "product_epilogue": 8, "projections": 2},
    "wav2vec2.dynamo": _WAV2VEC2 | {"conv_epilogue": 2},
    "wav2vec2.torchscript": _WAV2VEC2 | {"activation": 6},
    "whisper_decoder.torchscript": {
        "activation": 2,
        "attention": 4,
        "decoder_attention": 2,
        "product_epilogue": 16,
    },
    "whisper_encoder.torchscript": {"product_epilogue": 10, "activation": 4, "attention": 2, "projections": 2},
}
# In the 16-bit forms; a group of images that lie channels last is one.
CHANNELS_LAST = {
    "convnext.dynamo": 4,
    "efficientnet.torchscript": 1,
    "mobilenet_v3.dynamo": 1,
    "resnet.torchscript": 1,
    "resnext.dynamo": 1,
    "swin.dynamo": 1,
    "unet_group_norm.dynamo": 1,
    "vit.dynamo": 1,
    "vit.torchscript": 1,
    "wav2vec2.dynamo": 1,
    "wav2vec2.torchscript": 1,
    "whisper_encoder.torchscript": 1,
}
# In float32, where no convolution gains: what stands between the model's Transposes.
FLOAT_LAST = {"convnext.dynamo": 3}
# Their first convolution pools, in the 16-bit forms.
POOLED = {"resnet.torchscript", "resnext.dynamo"}
# Of tokens, once, in every form.
_TOKENS = (
    "bart",
    "bert",
    "clip",
    "distilbert",
    "gpt2",
    "llama",
    "mixtral",
    "modernbert",
    "qwen3",
    "t5",
    "whisper_decoder",
)
EMBEDDED = {name for name in FUSED if name.startswith(_TOKENS)}
# Element-wise nodes are left, in every form.
CHAINED = {"bert.dynamo", "modernbert.dynamo"}
# In the 16-bit forms: products by themselves that may run as convolutions.
SHORT = {
    "efficientnet.torchscript": 19,
    "gpt2.dynamo": 1,
    "gpt2.torchscript": 1,
    "llama.dynamo": 1,
    "llama.torchscript": 1,
    "mixtral.dynamo": 1,
    "mobilenet_v3.dynamo": 18,
    "modernbert.dynamo": 3,
    "modernbert.torchscript": 3,
    "qwen3.dynamo": 1,
    "qwen3.torchscript": 1,
    "swin.dynamo": 1,
    "t5_decoder.torchscript": 10,
    "t5_encoder.torchscript": 3,
    "whisper_decoder.torchscript": 5,
}
# In the 16-bit forms: products with a gate.
GATED = {
    "llama.dynamo": 2,
    "llama.torchscript": 2,
    "modernbert.dynamo": 3,
    "modernbert.torchscript": 3,
    "qwen3.dynamo": 2,
    "qwen3.torchscript": 2,
    "t5_decoder.torchscript": 2,
    "t5_encoder.dynamo": 2,
    "t5_encoder.torchscript": 2,
}
# In the 16-bit forms: products in front of a normalisation, and those that read its rows.
NORM_PRODUCTS = {
    "bart_decoder.torchscript": 12,
    "bart_encoder.dynamo": 7,
    "bert.dynamo": 7,
    "bert.torchscript": 7,
    "clip_text.dynamo": 6,
    "distilbert.dynamo": 7,
    "gpt2.dynamo": 4,
    "gpt2.torchscript": 4,
    "modernbert.dynamo": 4,
    "modernbert.torchscript": 4,
    "vit.dynamo": 6,
    "vit.torchscript": 6,
    "whisper_decoder.torchscript": 14,
    "whisper_encoder.torchscript": 6,
}
# Data that is moved about; other layouts of images bring more of it.
MOVED_LAST = {"unet_group_norm.dynamo": 2}
MOVED = {
    "bart_decoder.torchscript": 1,
    "bart_encoder.dynamo": 2,
    "bert.dynamo": 2,
    "bert.torchscript": 1,
    "clip_text.dynamo": 3,
    "convnext.dynamo": 1,
    "distilbert.dynamo": 3,
    "dlrm.dynamo": 3,
    "dlrm.torchscript": 1,
    "gpt2.dynamo": 18,
    "gpt2.torchscript": 20,
    "llama.torchscript": 1,
    "modernbert.dynamo": 12,
    "modernbert.torchscript": 10,
    "qwen3.torchscript": 1,
    "swin.dynamo": 16,
    "t5_decoder.torchscript": 5,
    "t5_encoder.dynamo": 2,
    "t5_encoder.torchscript": 3,
    "unet_group_norm.dynamo": 4,
    "vit.dynamo": 15,
    "vit.torchscript": 15,
    "wav2vec2.dynamo": 4,
}
# What the host's optimisers make of them.
OPTIMISED = {
    "bert.dynamo": {"FusedMatMul", "BiasGelu"},
    "gpt2.dynamo": {"FusedMatMul"},
    "llama.dynamo": {"FusedMatMul"},
    "swin.dynamo": {"FusedMatMul", "BiasSoftmax"},
    "dlrm.dynamo": {"FusedMatMul"},  # and nodes in another order
}
CASES = [(name, form) for name in FUSED for form in forms(name)]
# Of quantised models, and how far a step of a code that ties decide otherwise is from the twin's.
QUANTISED = {"bert.qdq": {"qdq": 46, "views": 1}, "resnet.qdq": {"qdq": 16, "channels_last": 1, "stem_pool": 1}}
CODE = 2.0**-11


def root_mean_square(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Of all outputs' errors, as a share of each one's largest value."""
    shares = [
        np.sqrt(np.mean((a.astype(np.float64) - e) ** 2)) / max(float(np.max(np.abs(e))), 1e-30)
        for a, e in zip(actual, expected, strict=True)
        if e.dtype.kind == "f"
    ]
    return float(max(shares))


def run_fused(
    model: onnx.ModelProto, feeds: weights.Feeds, capfd: pytest.CaptureFixture[str]
) -> tuple[runs.Result, Counter[str], list[str]]:
    """Results, how often each rewriting was done, and what the log says of them."""
    capfd.readouterr()
    ort.set_default_logger_severity(0)
    try:
        fused, _ = runs.run_compiled(model, feeds, host.EXACT)
    finally:
        ort.set_default_logger_severity(2)
    lines = [line for line in capfd.readouterr().err.splitlines() if "fusion " in line]
    return fused, Counter(line.split("fusion ")[1].split(":")[0] for line in lines if "left alone" not in line), lines


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    host.require_plugin()
    model, feeds, expected = reference(name)
    fused, done, lines = run_fused(model, feeds, capfd)
    assert done.pop("chains", 0) > 0
    assert done == QUANTISED[name], "\n".join(lines)
    plain, _ = runs.run_compiled(model, feeds, host.EXACT | {"fusion": "0"})
    assert not runs.worst(fused, expected, QUANTISED_TOLERANCE)
    for mine, twin, right in zip(fused.outputs, plain.outputs, expected, strict=True):
        assert root_mean_square(mine, right) <= 1.1 * root_mean_square(twin, right) + CODE


@pytest.mark.parametrize("name", OPTIMISED)
def test_fused_as_optimised(name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Models that the host's optimisers have been over lose neither attention nor bags."""
    host.require_plugin()
    assert host.devices()  # registers the library, which `optimize` finds then
    model, feeds, expected = reference(name)
    plain, optimised = tmp_path / "plain.onnx", tmp_path / "optimised.onnx"
    onnx.save(model, plain)
    optimize.optimize(plain, optimised)
    saved = onnx.load(optimised)
    assert OPTIMISED[name] <= {node.op_type for node in saved.graph.node}
    fused, done, lines = run_fused(saved, feeds, capfd)
    patterns = ("attention", "decoder_attention", "embedding_bag", "projections")
    kept = {what: FUSED[name].get(what) for what in patterns}
    assert {what: done.get(what) for what in kept} == kept, "\n".join(lines)
    assert not runs.worst(fused, expected, TOLERANCE["float32"])


@pytest.mark.parametrize(("name", "form"), CASES)
def test_fused(name: str, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    host.require_plugin()
    model, feeds, expected = reference(name)
    if form != "float32":
        model, feeds = precision.convert(model, FORMS[form]), precision.convert_feeds(feeds, FORMS[form])
    fused, done, lines = run_fused(model, feeds, capfd)
    short = SHORT.get(name, 0) if form != "float32" else 0
    assert done.pop("short_products", 0) == short, "\n".join(lines)
    assert done.pop("gated_products", 0) == (GATED.get(name, 0) if form != "float32" else 0), "\n".join(lines)
    norms = NORM_PRODUCTS.get(name, 0) if form != "float32" else 0
    assert done.pop("norm_products", 0) == norms, "\n".join(lines)
    moved = MOVED.get(name, 0) + (MOVED_LAST.get(name, 0) if form != "float32" else 0)
    assert done.pop("views", 0) == moved, "\n".join(lines)
    chains, last = done.pop("chains", 0), (CHANNELS_LAST if form != "float32" else FLOAT_LAST).get(name, 0)
    once = {"embedding": 1} if name in EMBEDDED else {}
    if name in POOLED and form != "float32":
        once["stem_pool"] = 1
    assert done == FUSED[name] | once | ({"channels_last": last} if last else {}), "\n".join(lines)
    assert chains > 0 or name not in CHAINED
    plain, _ = runs.run_compiled(model, feeds, host.EXACT | {"fusion": "0"})
    assert not runs.worst(fused, expected, TOLERANCE[form])
    for mine, twin, right in zip(fused.outputs, plain.outputs, expected, strict=True):
        slack = 2.0**-20 if form == "float32" else 2.0**-11 if form == "float16" else 2.0**-8
        assert root_mean_square(mine, right) <= 1.1 * root_mean_square(twin, right) + slack
