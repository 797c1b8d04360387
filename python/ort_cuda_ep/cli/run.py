"""`ort-cuda-ep run`: one model on the provider: placement, timing, and a check against the CPU provider."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnxruntime as ort
import typer
from rich.markup import escape

from .. import _provider
from ..comparison import Difference, compare
from ..feeds import FeedError, make_feeds
from ..placement import Placement, run_profiled
from .output import (
    BAD_INPUT,
    CHECK_FAILED,
    check_model,
    console,
    error_text,
    exit_code_of,
    fail,
    parse_options,
    print_json,
    print_table,
)
from .parameters import AsJson, DeviceId, DeviceKind, Dims, Inputs, Model, Options, Seed, Shapes
from .timing import quiet_options, time_runs

CPU = "CPUExecutionProvider"


def run(
    model: Model,
    inputs: Inputs = None,
    dim: Dims = None,
    shape: Shapes = None,
    option: Options = None,
    device: DeviceKind = "auto",
    device_id: DeviceId = 0,
    repeat: Annotated[int, typer.Option(help="timed runs", min=1)] = 10,
    atol: Annotated[float, typer.Option(help="absolute tolerance of the check")] = 1e-3,
    rtol: Annotated[float, typer.Option(help="relative tolerance of the check")] = 1e-3,
    seed: Seed = 0,
    all_nodes: Annotated[bool, typer.Option("--nodes", help="list every node, not only a summary")] = False,
    as_json: AsJson = False,
    provider: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Run MODEL on the provider: where each node went, how long it took, and how far it is from the CPU provider."""
    check_model(model, as_json)
    options = parse_options(option, as_json)
    try:
        reference = ort.InferenceSession(str(model), quiet_options(), providers=[CPU])
    except Exception as error:
        fail(BAD_INPUT, f"ONNX Runtime cannot load {model}: {error_text(error)}", as_json)
    try:
        feeds = make_feeds(reference.get_inputs(), inputs, dim, shape, seed)
    except (FeedError, OSError, ValueError) as error:
        fail(BAD_INPUT, str(error), as_json)
    try:
        expected = reference.run(None, feeds)
    except Exception as error:
        fail(BAD_INPUT, f"the CPU provider cannot run the model with these inputs: {error_text(error)}", as_json)

    def on_cpu(settings: ort.SessionOptions) -> ort.InferenceSession:
        return ort.InferenceSession(str(model), settings, providers=[CPU])

    def on_provider(settings: ort.SessionOptions) -> ort.InferenceSession:
        return _provider.session(model, settings, options, device_id)

    try:
        if provider == "cpu":
            name, label, make_session = CPU, "CPU", on_cpu
        else:
            _provider.register(device)
            name, make_session = _provider.get_ep_name(), on_provider
            label = _provider.device_label(device_id)
        placement, outputs = run_profiled(make_session, model, [feeds])
        times = time_runs(make_session(quiet_options()), feeds, repeat, as_json)
    except Exception as error:
        fail(exit_code_of(error), error_text(error), as_json)
    difference = compare(outputs[0], expected, atol, rtol)
    if as_json:
        print_json(_report(model, name, label, placement, times, difference))
    else:
        _print(name, label, placement, times, difference, all_nodes)
    if not difference.ok:
        raise typer.Exit(CHECK_FAILED)


def _report(
    model: Path, provider: str, label: str, placement: Placement, times: list[float], difference: Difference
) -> dict[str, Any]:
    return {
        "ok": difference.ok,
        "model": str(model),
        "host": ort.__version__,
        "provider": provider,
        "device": label,
        "compute_nodes_on_provider": len(placement.compute_on(provider)),
        "compute_nodes_elsewhere": len(placement.compute_elsewhere(provider)),
        "shape_nodes": placement.count("shape"),
        "copies": placement.count("copy"),
        "time_ms": {"median": float(np.median(times)), "min": min(times), "max": max(times), "runs": len(times)},
        "difference": asdict(difference),
        "nodes": [asdict(node) for node in placement.nodes],
    }


def _print(
    provider: str, label: str, placement: Placement, times: list[float], difference: Difference, all_nodes: bool
) -> None:
    console.print(f"host       ONNX Runtime {ort.__version__}", highlight=False)
    console.print(f"device     {escape(label)}", highlight=False)
    elsewhere = placement.compute_elsewhere(provider)
    console.print(
        f"nodes      {len(placement.compute_on(provider))} compute nodes on {provider}, {len(elsewhere)} elsewhere; "
        f"{placement.count('shape')} shape nodes, {placement.count('copy')} copies",
        highlight=False,
    )
    console.print(f"time       median {np.median(times):.3f} ms, best {min(times):.3f} ms", highlight=False)
    verdict = "[green]ok[/green]" if difference.ok else "[red]too large[/red]"
    console.print(
        f"difference {difference.max_abs:.3g} absolute, {difference.max_rel:.3g} relative: {verdict}", highlight=False
    )
    if all_nodes:
        nodes = [(node.name, node.op_type, node.provider, node.kind, str(node.duration_us)) for node in placement.nodes]
        print_table("nodes", ("node", "operator", "provider", "kind", "us"), nodes)
        return
    rows = []
    for (op_type, place), count in Counter((node.op_type, node.provider) for node in elsewhere).most_common():
        us = sum(node.duration_us for node in elsewhere if (node.op_type, node.provider) == (op_type, place))
        rows.append((op_type, place, str(count), str(us)))
    title = "compute nodes elsewhere (all nodes: --nodes; why: ort-cuda-ep explain)"
    print_table(title, ("operator", "provider", "nodes", "us"), rows)
