"""Where each node of a model goes and why, without running it.

The plug-in writes its decisions to the file that the provider option `placement_report` names. The host asks for them
after its first optimisers (constant folding, removal of what does nothing) and before its fusions, so the nodes are
those of that moment. The graph that the host keeps in the end tells which nodes its fusions made of them, and which
copies between host and device memory it put in. The host does not save it where it has compiled regions: the copies are
then those that the provider expects of its decisions.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from . import _provider

REPORT_OPTION = "placement_report"
REPORT_FORMAT = 1
BUDGET_KEY = "session.resource_cuda_partitioning_settings"
_NHWC = "com.ms.internal.nhwc"
_HOST_DROPPED = "the host, which counts costs on its own, ended the memory budget before it"

_DIRECTIONS = {"MemcpyFromHost": "to device", "MemcpyToHost": "to host"}


class ExplainError(RuntimeError):
    """The session ended before the provider was asked about the model's nodes."""


@dataclass(frozen=True)
class Cost:
    """What a node adds to the memory that those before it need, in bytes.

    `bytes` is the sum of the parts, or what the stats file has (`recorded`). `unknown` says which part is not counted.
    """

    bytes: int
    weights: int
    copies: int
    outputs: int
    workspace: int
    recorded: bool
    unknown: str


@dataclass(frozen=True)
class Budget:
    """A session's memory budget: its limit, which is free memory unless `is_stated`, and what the nodes taken cost."""

    limit_bytes: int
    is_stated: bool
    stats_file: str
    stated_bytes: int
    nodes: int
    unknown_nodes: int


@dataclass(frozen=True)
class Node:
    """One node and its place.

    "provider", "shape" (stays on the CPU), "evaluated" (the same inside a region, on the host, once for each set of
    input dimensions), "other" (another provider's), "unsupported", "budget" (did not fit).
    """

    name: str
    first_output: str
    op_type: str
    domain: str
    since_version: int
    placement: str
    reason: str
    graph: str  # the control-flow node around it; empty in the main graph
    cost: Cost | None = None  # stated where there is a memory budget
    region: int | None = None  # number of the compiled region that it is in

    @property
    def elsewhere(self) -> bool:
        """Whether this is a compute node that is not on the provider."""
        return self.placement in ("other", "unsupported", "budget")

    @property
    def operator(self) -> str:
        """The operator, with its domain unless that is ONNX's own."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type


@dataclass(frozen=True)
class Copy:
    """A copy between host and device memory that the host put in; producer and consumers are node labels."""

    direction: str
    value: str
    producer: str
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """What runs in a region in place of `nodes`.

    Once for each set of input dimensions: `on_host` there, `once` on the device, where results can be kept.
    """

    op_type: str
    domain: str
    on_host: bool
    once: bool
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Rewriting:
    """What the provider's rewriting `name` did with nodes of a region, or, with a reason, nearly did."""

    name: str
    nodes: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Region:
    """A compiled region."""

    number: int
    steps: tuple[Step, ...]
    rewritten: tuple[Rewriting, ...]
    missed: tuple[Rewriting, ...]


@dataclass(frozen=True)
class Explanation:
    """What became of a model.

    `fused` is None where the host could not save the graph it ended with, as with regions; `copies` then are what the
    provider expects.
    """

    nodes: tuple[Node, ...]
    model_nodes: int | None  # in the file, before the host's optimisers; None when it cannot be read on its own
    libraries: tuple[dict[str, Any], ...]  # as the plug-in found them: name, found, path, version, status
    copies: tuple[Copy, ...]
    fused: dict[str, int] | None = None  # operators of nodes that the host's fusions made
    error: str = ""  # why the session could not be created all the same
    budget: Budget | None = None
    regions: tuple[Region, ...] = ()
    missed: tuple[Rewriting, ...] = ()  # what nearly became part of a region

    def count(self, placement: str) -> int:
        """The number of nodes with a placement."""
        return sum(node.placement == placement for node in self.nodes)

    @property
    def elsewhere(self) -> list[Node]:
        """The compute nodes that are not on the provider."""
        return [node for node in self.nodes if node.elsewhere]


def explain(
    model: str | os.PathLike[str],
    provider_options: Mapping[str, Any] | None = None,
    device_id: int = 0,
    budget: str = "",
) -> Explanation:
    """Creates a session of `model` and returns what the provider decided; nothing is run.

    `budget` is the value of session.resource_cuda_partitioning_settings, such as "4096," (in kilobytes); empty: none.
    Raises ExplainError when the provider was never asked: the host could not load the model, or refused an option.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, optimized = Path(folder) / "report.json", Path(folder) / "optimized.onnx"
        options = {**(provider_options or {}), REPORT_OPTION: report}
        error, kept = _create(model, options, device_id, optimized, budget)
        if error and report.is_file():
            # Some graphs cannot be saved; that is no error of the session.
            error, kept = _create(model, options, device_id, None, budget)
        if not report.is_file():
            raise ExplainError(error or "the provider was not asked: the model has no nodes left after optimisation")
        raw = json.loads(report.read_text(errors="replace"))
        if raw["format"] != REPORT_FORMAT:
            raise ExplainError(
                f"the library writes reports of format {raw['format']}, this package reads {REPORT_FORMAT}"
            )
        nodes = tuple(_nodes_of(raw))
        if budget and kept is not None:
            nodes = tuple(_kept_by_host(nodes, kept))
        copies, fused = _final_graph(optimized, nodes) if optimized.is_file() else (tuple(_expected(raw)), None)
        stated = Budget(**raw["budget"]) if "budget" in raw else None
        regions = tuple(_region(found) for found in raw.get("regions", ()))
        missed = _rewritings(raw.get("missed", ()))
        return Explanation(
            nodes, _count_nodes(model), tuple(raw["libraries"]), copies, fused, error, stated, regions, missed
        )


def _create(
    model: str | os.PathLike[str],
    provider_options: Mapping[str, Any],
    device_id: int,
    optimized: Path | None,
    budget: str,
) -> tuple[str, list[str] | None]:
    """The error text of a session's creation, empty when it succeeds, and the domains of the nodes given to us.

    Writes the final graph to `optimized`.
    """
    options = ort.SessionOptions()
    if budget:
        options.add_session_config_entry(BUDGET_KEY, budget)
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.log_severity_level = 4  # errors come as exceptions
    if optimized:
        options.optimized_model_filepath = str(optimized)
    try:
        session = _provider.session(model, options, provider_options, device_id)
    except Exception as error:
        if optimized:
            optimized.unlink(missing_ok=True)
        return str(error), None
    if not budget:
        return "", None
    assigned = session.get_provider_graph_assignment_info()
    name = _provider.find_device(device_id).ep_name
    ours = [part for part in assigned if part.ep_name == name]
    return "", [node.domain for part in ours for node in part.get_nodes()]


def _kept_by_host(nodes: tuple[Node, ...], domains: list[str]) -> Iterator[Node]:
    """A host that keeps an account too drops the end of what was claimed: as many nodes stay as it gave us.

    Hosts that list none of the nodes that they turned channels-last list only what they gave us after that, so nothing
    can be told from their number.
    """
    turned = any(node.domain == _NHWC and node.placement == "provider" for node in nodes)
    if turned and _NHWC not in domains:
        yield from nodes
        return
    kept = len(domains)
    for node in nodes:
        kept -= node.placement == "provider"
        if node.placement == "provider" and kept < 0:
            yield replace(node, placement="budget", reason=_HOST_DROPPED)
        else:
            yield node


def _nodes_of(report: dict[str, Any]) -> Iterator[Node]:
    for graph in report["graphs"]:
        for node in graph["nodes"]:
            cost = Cost(**node.pop("cost")) if "cost" in node else None
            yield Node(**node, graph=graph["parent"], cost=cost)


def _region(found: dict[str, Any]) -> Region:
    steps = tuple(Step(**{**step, "nodes": tuple(step["nodes"])}) for step in found["steps"])
    return Region(found["number"], steps, _rewritings(found["rewritten"]), _rewritings(found["missed"]))


def _rewritings(notes: Iterable[dict[str, Any]]) -> tuple[Rewriting, ...]:
    return tuple(Rewriting(**{**note, "nodes": tuple(note["nodes"])}) for note in notes)


def _expected(report: dict[str, Any]) -> Iterator[Copy]:
    for graph in report["graphs"]:
        labels = [f"{node['op_type']} {node['name'] or node['first_output']}" for node in graph["nodes"]]
        for copy in graph.get("copies", ()):
            producer = labels[copy["producer"]] if copy["producer"] >= 0 else "graph input"
            readers = tuple(labels[reader] for reader in copy["readers"])
            yield Copy("to device" if copy["to_device"] else "to host", copy["value"], producer, readers)


def _count_nodes(model: str | os.PathLike[str]) -> int | None:
    try:
        return sum(1 for _ in _walk(onnx.load(os.fspath(model), load_external_data=False).graph))
    except Exception:
        return None  # the host's own format, for instance


def _walk(graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto]]:
    """Every node of a graph and of those inside its nodes, each with its graph."""
    for node in graph.node:
        yield graph, node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _walk(inner)


def _final_graph(path: Path, nodes: tuple[Node, ...]) -> tuple[tuple[Copy, ...], dict[str, int]]:
    copies = []
    made: Counter[str] = Counter()
    known = {(node.op_type, node.first_output) for node in nodes} | {(node.op_type, node.name) for node in nodes}
    for graph, node in _walk(onnx.load(path, load_external_data=False).graph):
        if node.op_type in _DIRECTIONS:
            copies.append(_copy(graph, node))
        elif not {(node.op_type, name) for name in (node.name, *node.output)} & known:
            made[f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] += 1
    return tuple(copies), dict(made.most_common())


def _copy(graph: onnx.GraphProto, node: onnx.NodeProto) -> Copy:
    source, target = node.input[0], node.output[0]
    producer = next((_label(other) for other in graph.node if source in other.output), "graph input")
    if source in {tensor.name for tensor in graph.initializer}:
        producer = "constant"
    consumers = [_label(other) for other in graph.node if target in other.input]
    if target in {value.name for value in graph.output}:
        consumers.append("graph output")
    # The copy on the device carries a name of the host's making.
    value = source if node.op_type == "MemcpyFromHost" else target
    return Copy(_DIRECTIONS[node.op_type], value, producer, tuple(consumers))


def _label(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name or node.output[0]}"
