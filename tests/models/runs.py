"""A model in a session of ours, and everything that is asked of it."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from ort_cuda_ep import host_profile
from ort_cuda_ep.placement import parse_profile

from ..session import host
from .weights import Feeds

_COPIES = ("MemcpyToHost", "MemcpyFromHost")


@dataclass(frozen=True)
class Result:
    """Outputs of each Run, compute nodes on other providers by operator, copies between nodes by the value copied."""

    outputs: list[list[np.ndarray]]
    elsewhere: dict[str, int]
    copies: list[str]
    names: list[str]


def run_on_cpu(model: onnx.ModelProto, feeds: Feeds) -> list[list[np.ndarray]]:
    """The reference: the host's CPU provider, one thread."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Processors without dot products of bytes saturate sums of signed and unsigned ones in 16 bits otherwise.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def run_on_ours(model: onnx.ModelProto, feeds: Feeds, more: dict[str, str] | None = None) -> Result:
    """The same at the default optimisation level on our provider, with the CPU for what it lacks; `more` options."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.add_provider_for_devices([host.devices()[0]], host.EXACT | host.NODES | (more or {}))
        session = ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
        outputs = [host.run(session, feed) for feed in feeds]
        events = json.loads(Path(session.end_profiling()).read_text())
        optimized = onnx.load(options.optimized_model_filepath)
    elsewhere: dict[str, int] = {}
    for node in parse_profile(events, optimized).compute_elsewhere(host.EP_NAME):
        elsewhere[node.op_type] = elsewhere.get(node.op_type, 0) + 1
    names = [output.name for output in session.get_outputs()]
    return Result(outputs, elsewhere, list(copies_between(optimized.graph)), names)


class Ran(NamedTuple):
    """A node that the host ran."""

    provider: str
    op_type: str


def run_compiled(model: onnx.ModelProto, feeds: Feeds, options: dict[str, str]) -> tuple[Result, list[Ran]]:
    """With compiled regions, and the nodes of the first Run. The host saves no optimised model of such a session."""
    outputs: list[list[np.ndarray]] = []
    names: list[str] = []

    def make_session(settings: ort.SessionOptions) -> ort.InferenceSession:
        settings.intra_op_num_threads = 1
        settings.add_provider_for_devices([host.devices()[0]], options)
        return ort.InferenceSession(model.SerializeToString(), settings, enable_fallback=0)

    def run(session: ort.InferenceSession) -> None:
        outputs.extend(host.run(session, feed) for feed in feeds)
        names.extend(output.name for output in session.get_outputs())

    events = host_profile.record(make_session, run, log_severity=4)
    nodes = [event["args"] for event in events if host_profile.is_node(event) and "op_name" in event["args"]]
    ran = [Ran(node["provider"], node["op_name"]) for node in nodes[: len(nodes) // len(feeds)]]
    return Result(outputs, {}, [], names), ran


def copies_between(graph: onnx.GraphProto) -> Iterator[str]:
    """What the host copies from node to node: neither an input of the graph nor an output."""
    ends = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    makers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type in _COPIES and node.input[0] not in ends and node.output[0] not in ends:
            maker = makers.get(node.input[0])
            users = sorted({user.op_type for user in graph.node if node.output[0] in user.input})
            yield f"{node.op_type} from {maker.op_type if maker else '?'} {node.input[0]} to {', '.join(users)}"


def worst(result: Result, expected: list[list[np.ndarray]], tolerance: float) -> list[str]:
    """Outputs that are not right, each in a line. `tolerance` is a share of an output's largest value."""
    wrong = []
    for run, (actual_run, expected_run) in enumerate(zip(result.outputs, expected, strict=True)):
        for name, actual, wanted in zip(result.names, actual_run, expected_run, strict=True):
            if actual.shape != wanted.shape:
                wrong.append(f"run {run}, {name}: shape {actual.shape}, expected {wanted.shape}")
                continue
            a, e = actual.astype(np.float64), wanted.astype(np.float64)
            error = float(np.max(np.abs(a - e), initial=0.0))
            limit = tolerance * float(np.max(np.abs(e), initial=0.0)) if wanted.dtype.kind == "f" else 0.0
            if not error <= limit:
                wrong.append(f"run {run}, {name}{list(a.shape)}: off by {error:.3g}, at most {limit:.3g} is right")
    return wrong
