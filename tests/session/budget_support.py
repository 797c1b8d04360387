"""What the suites about memory budgets share: sessions with one, and what became of their nodes.

Which hosts keep an account of their own, and which cost they count, is said in src/abi/session_budget.h.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.suite import EP, add_provider, session_options

KEY = "session.resource_cuda_partitioning_settings"
OTHER_EP = "CudaPluginExecutionProvider"
HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
NEEDS_FILE = HOST < (1, 25)
HOSTS_ACCOUNT = {EP: HOST >= (1, 26), OTHER_EP: HOST in ((1, 26), (1, 27))}
MIB = 1 << 20
SIZE = 256
FLOAT = TensorProto.FLOAT


def devices_of(name: str) -> list[ort.OrtEpDevice]:
    if name == OTHER_EP and not any(device.ep_name == name for device in ort.get_ep_devices()):
        ort.register_execution_provider_library(name, sys.argv[1])
    return [device for device in ort.get_ep_devices() if device.ep_name == name]


class Outcome:
    """A session with a budget: what the provider decided, and which nodes the host gave it in the end."""

    def __init__(self, session: ort.InferenceSession, report: dict[str, Any], name: str) -> None:
        self.session = session
        self.budget = report.get("budget")
        self.graphs = report["graphs"]
        self.nodes = [node for graph in report["graphs"] for node in graph["nodes"]]
        self.claimed = [node for node in self.nodes if node["placement"] == "provider"]
        parts = session.get_provider_graph_assignment_info()
        self.kept = [node.name for part in parts if part.ep_name == name for node in part.get_nodes()]

    def costs(self) -> list[int]:
        return [node["cost"]["bytes"] for node in self.claimed]


@contextmanager
def saved(model: bytes) -> Iterator[Path]:
    """A model's file, beside an empty stats file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        (path.parent / "none.csv").write_text("#name,a,b,c,d\n")
        yield path


def opened(
    path: Path,
    setting: str | None,
    name: str = EP,
    options: dict[str, str] | None = None,
    entries: dict[str, str] | None = None,
    device: int = 0,
) -> Outcome:
    settings = session_options()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if setting is not None:
        settings.add_session_config_entry(KEY, setting)
    for key, value in {"session.record_ep_graph_assignment_info": "1", **(entries or {})}.items():
        settings.add_session_config_entry(key, value)
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        chosen = {"placement_report": report.name, **(options or {})}
        add_provider(settings, chosen, [devices_of(name)[device]])
        session = ort.InferenceSession(str(path), settings, enable_fallback=0)
        return Outcome(session, json.loads(Path(report.name).read_text()), name)


def recording(path: Path) -> Outcome:
    """A session whose Runs write stats.csv. The host records what it runs, so no nodes of regions."""
    entries = {"session.collect_node_memory_stats_to_file": "stats.csv"}
    return opened(path, None, options={"compiled_regions": "0"}, entries=entries)


def limit(kilobytes: int | str) -> str:
    """A setting without stats, as far as the host takes one."""
    return f"{kilobytes},none.csv" if NEEDS_FILE else f"{kilobytes},"


def room_for(path: Path, nodes: int, options: dict[str, str] | None = None) -> int:
    """Kilobytes that hold the first nodes of a model and not the next one."""
    return sum(opened(path, limit(1 << 30), options=options).costs()[:nodes]) // 1024 + 50


def chain(length: int, rows: int | str = 4, shared: bool = False) -> bytes:
    """Products with weights of 256 KiB each, or with one for all."""
    rng = np.random.default_rng(0)
    names = ["w" if shared else f"w{i}" for i in range(length)]
    constants = {name: rng.standard_normal((SIZE, SIZE), dtype=np.float32) / 16 for name in names}
    nodes = [helper.make_node("MatMul", [f"v{i}", names[i]], [f"v{i + 1}"], name=f"product{i}") for i in range(length)]
    dims: tuple[int, Sequence[int | str]] = (FLOAT, [rows, SIZE])
    return models.model(nodes, {"v0": dims}, {f"v{length}": dims}, constants)
