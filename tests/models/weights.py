"""Graphs without weights: what a file of `graphs/` holds, and how it becomes a model again.

`strip` takes the values of every large float or 8-bit tensor away and leaves "mean std min max" in its doc_string;
`fill` puts seeded values of those statistics back. Small tensors, wider integers, truth values and tensors of few
distinct values (masks, biases of nought) stay as they are: shapes, indices and constants of the graph are among them.
Inputs travel the same way, as tensors in the model's metadata: "feed.<number>.<input>".
"""

import base64
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

KEPT_ELEMS = 64
_KEPT_DISTINCT = 4
_REFILLED = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8}
_FEED = "feed"

Feeds = list[dict[str, np.ndarray]]
# Normal float32 numbers of a seed and of dimensions.
Draw = Callable[[int, tuple[int, ...]], np.ndarray]


def tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Every initializer and every tensor attribute of a graph and the graphs inside it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from tensors(attribute.g)


def strip(model: onnx.ModelProto, feeds: Feeds) -> bytes:
    """The bytes of a file of `graphs/`. Empties `model`."""
    del model.metadata_props[:]
    for number, feed in enumerate(feeds):
        for name, array in feed.items():
            tensor = numpy_helper.from_array(array)
            _strip_tensor(tensor)
            text = base64.b64encode(tensor.SerializeToString()).decode()
            model.metadata_props.add(key=f"{_FEED}.{number}.{name}", value=text)
    model.doc_string = ""
    for tensor in tensors(model.graph):
        _strip_tensor(tensor)
    _strip_graph(model.graph)
    return lzma.compress(model.SerializeToString(deterministic=True), preset=9 | lzma.PRESET_EXTREME)


def _draw(seed: int, dims: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims, np.float32)


def load(path: Path, draw: Draw = _draw) -> tuple[onnx.ModelProto, Feeds]:
    """A model with its weights, and its inputs for each Run. The same values on every machine."""
    model = onnx.ModelProto.FromString(lzma.decompress(path.read_bytes()))
    return fill(model, draw)


def fill(model: onnx.ModelProto, draw: Draw = _draw) -> tuple[onnx.ModelProto, Feeds]:
    """Fills what `strip` emptied, in place; also returns the inputs."""
    for number, tensor in enumerate(tensors(model.graph)):
        _fill_tensor(tensor, number, draw)
    feeds: Feeds = []
    for entry in model.metadata_props:
        _, number, name = entry.key.split(".", 2)
        feeds += [{} for _ in range(int(number) + 1 - len(feeds))]
        tensor = TensorProto.FromString(base64.b64decode(entry.value))
        _fill_tensor(tensor, zlib.crc32(entry.key.encode()), draw)
        feeds[int(number)][name] = numpy_helper.to_array(tensor)
    return model, feeds


def _strip_tensor(tensor: TensorProto) -> None:
    tensor.doc_string = ""
    if tensor.data_type not in _REFILLED or int(np.prod(tensor.dims)) <= KEPT_ELEMS:
        return
    values = numpy_helper.to_array(tensor)
    if not np.all(np.isfinite(values)) or np.unique(values).size <= _KEPT_DISTINCT:
        return
    bare = TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name)
    wide = values.astype(np.float64)
    bare.doc_string = " ".join(f"{value:.4g}" for value in (wide.mean(), wide.std(), wide.min(), wide.max()))
    tensor.CopyFrom(bare)


def _fill_tensor(tensor: TensorProto, seed: int, draw: Draw) -> None:
    if not tensor.doc_string:
        return
    mean, std, low, high = (float(value) for value in tensor.doc_string.split())
    values = draw(seed, tuple(tensor.dims))
    np.clip(values * np.float32(std) + np.float32(mean), low, high, out=values)
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    tensor.raw_data = (values if kind.kind == "f" else np.rint(values)).astype(kind).tobytes()
    tensor.doc_string = ""


def _strip_graph(graph: onnx.GraphProto) -> None:
    """Takes away what an exporter tells people: no run needs it."""
    graph.doc_string = ""
    del graph.value_info[:], graph.metadata_props[:], graph.quantization_annotation[:]
    for value in (*graph.input, *graph.output):
        value.doc_string = ""
        del value.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _strip_graph(attribute.g)
