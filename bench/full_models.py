"""Models of full size that people serve, as torch's exporters write them: graphs without weights in `bench/graphs`.

`tools/export_models.py --full` makes the files from `bench/torch_models.py`, which also gives the same models to torch.
Weights are drawn anew, of the statistics that a file tells (tests/models/weights.py says how).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from bench import models
from tests.models import weights

GRAPHS = Path(__file__).resolve().parent / "graphs"
Feeds = dict[str, np.ndarray]
Dims = tuple[int | str, ...]


@dataclass(frozen=True)
class FullModel:
    """A file of `graphs`, and the inputs of its cases.

    `inputs`: for each input, in the order of the module's arguments, what it holds ("number", "word", "mask") and its
    dimensions; `sizes`: of the open ones but "batch", for each case by its name, "" for a model of one.
    """

    name: str
    exporter: str
    inputs: dict[str, tuple[str, Dims]]
    sizes: dict[str, dict[str, int]]
    batches: tuple[int, ...] = (1, 32)
    words: int = 0
    outputs: int = 1

    def feeds(self, batch: int, variant: str = "") -> Feeds:
        """Random inputs; numbers are fp16."""
        sizes = {"batch": batch, **self.sizes[variant]}
        made = {}
        for seed, (name, (kind, dims)) in enumerate(self.inputs.items()):
            shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
            if kind == "number":
                made[name] = np.roll(models.numbers("float16", *shape), 31 * seed)
            elif kind == "word":
                made[name] = np.random.default_rng(seed).integers(3, self.words, shape)
            else:
                made[name] = np.ones(shape, np.int64)
        return made

    def open_axes(self) -> dict[str, dict[int, str]]:
        """The dimensions that an export leaves open, by input and axis."""
        return {
            name: {axis: dim for axis, dim in enumerate(dims) if isinstance(dim, str)}
            for name, (_, dims) in self.inputs.items()
        }


def _images(name: str, side: int = 224) -> FullModel:
    return FullModel(name, "torchscript", {"image": ("number", ("batch", 3, side, side))}, {"": {}})


def _tokens(name: str, words: int, length: int) -> FullModel:
    dims = ("batch", "length")
    inputs: dict[str, tuple[str, Dims]] = {"input_ids": ("word", dims), "attention_mask": ("mask", dims)}
    return FullModel(name, "dynamo", inputs, {"": {"length": length}}, words=words)


DECODER_LAYERS, DECODER_KV_HEADS, DECODER_HEAD_SIZE = 16, 8, 64
UNET_CONTEXT = (77, 768)
_PAST: dict[str, tuple[str, Dims]] = {
    f"past{layer}_{kind}": ("number", ("batch", DECODER_KV_HEADS, "past", DECODER_HEAD_SIZE))
    for layer in range(DECODER_LAYERS)
    for kind in ("key", "value")
}
TABLE = (
    _images("mobilenet_v3"),
    _images("efficientnet_b0"),
    _images("convnext_tiny"),
    _images("vit_b16"),
    _images("swin_t"),
    _images("detector", 640),
    _tokens("modernbert", 50368, 128),
    FullModel("whisper_encoder", "dynamo", {"mel": ("number", ("batch", 80, 3000))}, {"": {}}),
    FullModel(
        "unet",
        "dynamo",
        {
            "latent": ("number", ("batch", 4, 64, 64)),
            "time": ("number", ("batch", 320)),
            "context": ("number", ("batch", *UNET_CONTEXT)),
        },
        {"": {}},
        (1, 8),
    ),
    FullModel(
        "decoder",
        "dynamo",
        {
            "input_ids": ("word", ("batch", "length")),
            "attention_mask": ("mask", ("batch", "total")),
            **_PAST,
        },
        {
            "prefill": {"length": 512, "past": 0, "total": 512},
            "step": {"length": 1, "past": 1024, "total": 1025},
        },
        words=32000,
        outputs=1 + 2 * DECODER_LAYERS,
    ),
)


def model(name: str, dtype: str) -> onnx.ModelProto:
    """With weights, as it was exported ("float16") or the same function in "float32". ValueError without a file."""
    path = GRAPHS / f"{name}.onnx.xz"
    if not path.is_file():
        raise ValueError(f"there is no {path.name} in bench/graphs")
    found = weights.load(path, models.normal)[0]
    if dtype == "float32":
        _widen(found.graph)
    return found


def _widen(graph: onnx.GraphProto) -> None:
    """Makes every float16 a float32, in place: tensors, casts, inputs, outputs."""
    narrow, wide = TensorProto.FLOAT16, TensorProto.FLOAT
    for tensor in weights.tensors(graph):
        if tensor.data_type == narrow:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(TensorProto(name=tensor.name, dims=tensor.dims, data_type=wide, raw_data=values.tobytes()))
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = wide
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == narrow:
                attribute.i = wide
            if attribute.HasField("g"):
                _widen(attribute.g)
