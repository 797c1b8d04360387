"""A model as the host's optimisers leave it on the provider, saved.

The host saves no graph with compiled regions, so they are off here; sessions of the saved model may have them. It does
save the copies between host and device memory that it put in; they are taken out again, since a session takes them for
nodes of the model and adds its own.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import onnx
import onnxruntime as ort

from . import _provider

Level = Literal["basic", "extended", "all"]
LEVELS: tuple[Level, ...] = get_args(Level)

# What a file of the format may have is 2 GiB.
_MOST_IN_ONE_FILE = 3 << 29


def optimize(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    provider_options: Mapping[str, Any] | None = None,
    device_id: int = 0,
    level: Level = "extended",
) -> list[Path]:
    """Creates a session of `model`, with which the host saves its graph to `out`; returns the files that it wrote.

    Weights of models that no single file may hold are in a second file beside `out`, whose name has `.data` behind it.
    "all" adds what the host does for nodes on this machine's CPU. Errors of the host pass through.
    """
    out = Path(out)
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 4  # errors come as exceptions
    written = [out]
    if _bytes_of(Path(model)) > _MOST_IN_ONE_FILE:
        data = out.with_name(f"{out.name}.data")
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", data.name)
        written.append(data)
    _provider.session(model, options, {**(provider_options or {}), _provider.REGIONS_OPTION: "0"}, device_id)
    saved = onnx.load(out, load_external_data=False)
    _remove_copies(saved.graph)
    onnx.save(saved, out)
    return written


def _remove_copies(graph: onnx.GraphProto) -> None:
    # The name on the device is of the host's making.
    names = {}
    for node in graph.node:
        if node.op_type == "MemcpyToHost":
            names[node.input[0]] = node.output[0]
        elif node.op_type == "MemcpyFromHost":
            names[node.output[0]] = node.input[0]
    for index in reversed(range(len(graph.node))):
        if graph.node[index].op_type in ("MemcpyToHost", "MemcpyFromHost"):
            del graph.node[index]
    _rename(graph, names)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(value, value) for value in values]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)
                _remove_copies(inner)


def _bytes_of(model: Path) -> int:
    """Of a model with the files that it names."""
    total = model.stat().st_size
    try:
        graph = onnx.load(model, load_external_data=False).graph
    except Exception:
        return total  # the host's own format, for instance
    for tensor in graph.initializer:
        total += sum(int(entry.value) for entry in tensor.external_data if entry.key == "length")
    return total
