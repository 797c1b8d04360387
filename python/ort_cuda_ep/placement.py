"""Where the host ran each node of a model, read from the session's own profile.

The profile names the provider of every node that ran, after all optimisers, in the same form from ONNX Runtime 1.24 to
1.31. (The host's graph-assignment record is taken before its level-2 fusions and so lists nodes that no longer exist.)
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from . import host_profile
from .host_profile import Event
from .shape_nodes import find_shape_nodes

_COPIES = {"MemcpyToHost", "MemcpyFromHost"}


@dataclass(frozen=True)
class NodePlacement:
    """One node that ran. `kind` is "compute", "shape" (allowed on the CPU) or "copy" (the host's own transfers)."""

    name: str
    op_type: str
    provider: str
    kind: str
    calls: int
    duration_us: int


@dataclass(frozen=True)
class Placement:
    """All nodes that ran in a profiled session, in the order of their first run."""

    nodes: tuple[NodePlacement, ...]

    def compute_on(self, provider: str) -> list[NodePlacement]:
        """The compute nodes on `provider`."""
        return [node for node in self.nodes if node.kind == "compute" and node.provider == provider]

    def compute_elsewhere(self, provider: str) -> list[NodePlacement]:
        """The compute nodes on other providers than `provider`."""
        return [node for node in self.nodes if node.kind == "compute" and node.provider != provider]

    def count(self, kind: str) -> int:
        """The number of nodes of a kind, on any provider."""
        return sum(node.kind == kind for node in self.nodes)


SessionFactory = Callable[[ort.SessionOptions], ort.InferenceSession]


def run_profiled(
    make_session: SessionFactory, model_path: str | Path, feeds: list[dict[str, np.ndarray]]
) -> tuple[Placement, list[list[np.ndarray]]]:
    """Runs each of `feeds` in a profiled session and returns the placement and the outputs of each run."""
    outputs: list[list[np.ndarray]] = []
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder) / "optimized.onnx"
        events = host_profile.record(
            lambda options: _make_and_save(make_session, options, optimized),
            lambda session: outputs.extend(session.run(None, feed) for feed in feeds),
            log_severity=4,  # errors come as exceptions
        )
        graph = optimized if optimized.is_file() else Path(model_path)
        return parse_profile(events, onnx.load(graph, load_external_data=False)), outputs


def parse_profile(events: list[Event], model: onnx.ModelProto) -> Placement:
    """The placement that a profile's `events` tell; `model` is the graph that ran, to know its shape nodes."""
    shape_names, shape_types = find_shape_nodes(model)
    named = {node.name for node in model.graph.node if node.name}
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if host_profile.is_node(event) and "provider" in event["args"]:
            key = (host_profile.node_name(event), str(event["args"].get("node_index")))
            found.setdefault(key, []).append(event)
    nodes = []
    for (name, _), runs in found.items():
        op_type = runs[0]["args"]["op_name"]
        is_shape = name in shape_names or (name not in named and op_type in shape_types)
        kind = "copy" if op_type in _COPIES else "shape" if is_shape else "compute"
        duration = sum(int(run["dur"]) for run in runs)
        nodes.append(NodePlacement(name, op_type, runs[0]["args"]["provider"], kind, len(runs), duration))
    return Placement(tuple(nodes))


def _make_and_save(make_session: SessionFactory, options: ort.SessionOptions, path: Path) -> ort.InferenceSession:
    """A session that also writes its optimised graph, or, where the host cannot write it, one that does not."""
    options.optimized_model_filepath = str(path)
    try:
        return make_session(options)
    except Exception:
        path.unlink(missing_ok=True)
        plain = ort.SessionOptions()
        plain.log_severity_level = options.log_severity_level
        plain.enable_profiling = True
        plain.profile_file_prefix = options.profile_file_prefix
        return make_session(plain)
