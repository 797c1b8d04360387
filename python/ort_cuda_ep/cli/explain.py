"""`ort-cuda-ep explain`: which node of a model goes where, and why, without running it."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import onnxruntime as ort
import typer
from rich.markup import escape

from .. import _provider
from ..explain import ExplainError, Explanation, Node
from ..explain import explain as explain_model
from .output import (
    CHECK_FAILED,
    PROVIDER_FAILED,
    check_model,
    console,
    error_text,
    exit_code_of,
    fail,
    parse_options,
    print_json,
    print_table,
)
from .parameters import AsJson, DeviceId, DeviceKind, Model, Options

_MOST_SHOWN = 40  # lines of a table, unless --all is given


def explain(
    model: Model,
    option: Options = None,
    budget: Annotated[
        str, typer.Option(help="memory budget: kilobytes, or KB,FILE as session.resource_cuda_partitioning_settings")
    ] = "",
    device: DeviceKind = "auto",
    device_id: DeviceId = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="exit code 1 when a compute node is not on the provider")
    ] = False,
    show_all: Annotated[
        bool, typer.Option("--all", help=f"tables of any length, not only {_MOST_SHOWN} lines")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which node of MODEL goes where, and why. Nothing is run."""
    check_model(model, as_json)
    options = parse_options(option, as_json)
    try:
        _provider.register(device)
        label = _provider.device_label(device_id)
    except Exception as error:
        fail(PROVIDER_FAILED, error_text(error), as_json)
    try:
        found = explain_model(model, options, device_id, f"{budget}," if budget.isdigit() else budget)
    except ExplainError as error:
        fail(exit_code_of(error), f"{model}: {error_text(error)}", as_json)
    if as_json:
        print_json(_report(model, label, found))
    else:
        _print(label, found, None if show_all else _MOST_SHOWN)
    if found.error:
        raise typer.Exit(PROVIDER_FAILED)
    if strict and found.elsewhere:
        raise typer.Exit(CHECK_FAILED)


def _report(model: Path, label: str, found: Explanation) -> dict[str, Any]:
    return {
        "ok": not found.error and not found.elsewhere,
        "error": error_text(found.error),
        "model": str(model),
        "host": ort.__version__,
        "provider": _provider.get_ep_name(),
        "device": label,
        "model_nodes": found.model_nodes,
        "compute_nodes_on_provider": found.count("provider"),
        "compute_nodes_elsewhere": len(found.elsewhere),
        "shape_nodes": found.count("shape"),
        "shape_nodes_in_regions": found.count("evaluated"),
        "budget": asdict(found.budget) if found.budget else None,
        "copies": [asdict(copy) for copy in found.copies],
        "fused": found.fused,
        "regions": [asdict(region) for region in found.regions],
        "missed": [asdict(note) for note in found.missed],
        "nodes": [asdict(node) for node in found.nodes],
        "libraries": list(found.libraries),
    }


def _print(label: str, found: Explanation, most: int | None) -> None:
    ep_name = _provider.get_ep_name()
    total = len(found.nodes)
    in_file = "" if found.model_nodes in (None, total) else f", {found.model_nodes} in the file"
    evaluated = found.count("evaluated")
    in_regions = f"; {evaluated} in regions: on the host, once for each set of input dimensions" if evaluated else ""
    for title, text in (
        ("host", f"ONNX Runtime {ort.__version__}"),
        ("device", label),
        ("nodes", f"{total} after the host's first optimisers{in_file}"),
        ("compute", f"{found.count('provider')} on {ep_name}, {len(found.elsewhere)} elsewhere"),
        ("shape", f"{found.count('shape')} on the CPU, to save copies{in_regions}"),
        ("copies", f"{len(found.copies)} between host and device memory, put in by the host"),
        *([("regions", _regions_text(found))] if found.regions else []),
        *([("budget", _budget_text(found))] if found.budget else []),
    ):
        console.print(f"{title:<10} {escape(text)}", highlight=False)
    _print_elsewhere(found.elsewhere, most)
    _print_operators(found, ep_name, most)
    _print_regions(found, most)
    _print_shape_nodes(found, most)
    _print_copies(found, most)
    _print_costs(found, most)
    if found.error:
        console.print(
            f"\n[red]the session cannot be created:[/red] {escape(error_text(found.error))}",
            highlight=False,
            soft_wrap=True,
        )


def _print_elsewhere(nodes: list[Node], most: int | None) -> None:
    rows = [(node.operator, _name(node), node.reason) for node in nodes]
    print_table("compute nodes elsewhere", ("operator", "node", "why"), rows, most)


def _print_operators(found: Explanation, ep_name: str, most: int | None) -> None:
    ours = Counter(node.operator for node in found.nodes if node.placement == "provider")
    columns = ("operator", "nodes")
    print_table(f"on {ep_name}", columns, [(operator, str(count)) for operator, count in ours.most_common()], most)
    made = [(operator, str(count)) for operator, count in (found.fused or {}).items()]
    print_table("made by the host afterwards (fusions, casts)", columns, made, most)


def _regions_text(found: Explanation) -> str:
    joined = sum(node.region is not None for node in found.nodes)
    steps = [step for region in found.regions for step in region.steps if not step.on_host]
    once = sum(step.once for step in steps)
    joined_to = f"{len(found.regions)} compiled, of {joined} nodes in {len(steps)} steps"
    if once:
        joined_to += f", {once} of them once for each set of input dimensions"
    return f"{joined_to}; the host saves no such graph (--option {_provider.REGIONS_OPTION}=0)"


def _print_regions(found: Explanation, most: int | None) -> None:
    several = len(found.regions) > 1
    rewritten = [(str(region.number), note) for region in found.regions for note in region.rewritten]
    missed = [(str(region.number), note) for region in found.regions for note in region.missed]
    missed += [("", note) for note in found.missed]
    for title, notes, last in (("rewritten in regions", rewritten, ()), ("nearly rewritten", missed, ("why",))):
        rows = [
            (note.name, *((number,) if several else ()), " + ".join(note.nodes), *([note.reason] * len(last)))
            for number, note in notes
        ]
        columns = ("rewriting", *(("region",) if several else ()), "nodes", *last)
        print_table(title, columns, rows, most)


def _print_shape_nodes(found: Explanation, most: int | None) -> None:
    rows = [(node.operator, _name(node)) for node in found.nodes if node.placement == "shape"]
    print_table("shape nodes on the CPU", ("operator", "node"), rows, most)


def _print_copies(found: Explanation, most: int | None) -> None:
    rows = [(c.direction, c.value, c.producer, ", ".join(c.consumers)) for c in found.copies]
    print_table("copies between host and device memory", ("direction", "value", "from", "to"), rows, most)


def _budget_text(found: Explanation) -> str:
    budget = found.budget
    assert budget is not None
    free = "" if budget.is_stated else ", which was free"
    unknown = f", {budget.unknown_nodes} of them in part unknown" if budget.unknown_nodes else ""
    return f"{_mib(budget.limit_bytes)}{free}; {_mib(budget.stated_bytes)} stated for {budget.nodes} nodes{unknown}"


def _print_costs(found: Explanation, most: int | None) -> None:
    rows = [
        (
            node.operator,
            _name(node),
            _mib(cost.bytes),
            *(_mib(part) for part in (cost.weights, cost.copies, cost.outputs, cost.workspace)),
            "from the stats file" if cost.recorded else f"without {cost.unknown}" if cost.unknown else "",
        )
        for node in found.nodes
        if (cost := node.cost) is not None
    ]
    columns = ("operator", "node", "cost", "weights", "copies", "outputs", "workspace", "note")
    print_table("what nodes cost of the memory budget", columns, rows, most)


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _name(node: Node) -> str:
    name = node.name or f"with output {node.first_output}"
    return f"{name} (inside {node.graph})" if node.graph else name
