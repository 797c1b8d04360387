"""Reports: their form as JSON, and as tables for people.

{"schema": "ort-cuda-ep-bench/1", "created": ISO time, "simulated": bool, "scale": "full" | "tiny",
 "machine": {gpu, driver, cpu, cores, python, libraries: {package: version}},
 "subjects": {NAME: {name, kind, library, sha256, options, offline, fixed, onnxruntime, device, device_clock}},
 "copy": {SUBJECT: series},                      the device's own copy, copy_bytes read and as many written
 "copy_bytes": int,
 "cases": [{name, group, axes, bytes, flops, launches, repeated, results: {SUBJECT: result}}]}

result  {"error": text}, or series and: create_ms, first_run_ms, placement {provider: nodes, before the host's last
        fusions}, error_norm (|output - reference| / |reference|; none of torch, whose weights are its own), timeline
        [{name, calls, us}: a Run's, of the last repeat], clocks {sm_mhz, memory_mhz, watts, celsius: after the first
        repeat, where there is a device clock}
series  {"wall_us": [...], "device_us": [...], "span_us": [...], "activities": [...]}: one entry a repeat, each the
        median over the repeat's Runs. wall: host time of a Run and its wait; device: time with a kernel, copy or
        fill running; span: from the first one's start to the last one's end; activities: how many there were.
        The last three are empty without a device clock. Repeat i of all subjects of a file was measured together.
"""

from __future__ import annotations

import os
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ort_cuda_ep import _driver
from rich.console import Console
from rich.table import Table

from bench.cases import Case
from bench.driver import COPY_BYTES
from bench.subjects import Subject

SCHEMA = "ort-cuda-ep-bench/1"
Json = dict[str, Any]


def new(subjects: list[Subject], hello: dict[str, Json], tiny: bool) -> Json:
    """A report without figures."""
    entries = {s.name: {**s.describe(), **hello[s.name]} for s in subjects}
    libraries: dict[str, str] = next((entry["libraries"] for entry in entries.values() if entry.get("libraries")), {})
    for entry in entries.values():
        entry.pop("libraries", None)
    driver = _driver.probe()
    machine = {
        "gpu": driver.names[0] if driver.names else "",
        "driver": driver.version,
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": libraries,
    }
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": any(entry.get("simulated") for entry in entries.values()),
        "scale": "tiny" if tiny else "full",
        "machine": machine,
        "subjects": entries,
        "copy_bytes": COPY_BYTES,
        "copy": {},
        "cases": [],
    }


def entry(case: Case, results: dict[str, Json]) -> Json:
    """A case's place in a report."""
    keys = ("name", "group", "axes", "bytes", "flops", "launches", "repeated")
    return {**{key: getattr(case, key) for key in keys}, "results": results}


def metric(case: Json) -> str:
    """What counts in a case: device time of kernels, host time of whole models and of the host's own work."""
    return "device_us" if case["group"] in ("product", "memory") else "wall_us"


def series(case: Json, result: Json) -> list[float]:
    """The case's metric, one value a repeat; host time where there is no device clock."""
    values: list[float] = result.get(metric(case)) or result.get("wall_us") or []
    return values


def show(report: Json, case: Json, console: Console) -> None:
    """One case's lines."""
    table = Table(title=title(report, case), title_justify="left", box=None, pad_edge=False)
    for name in ("", "wall us", "device us", "span us", "range", "vs first", "", "error", "placement"):
        table.add_column(name, justify="left" if name in ("", "placement") else "right")
    first: float | None = None
    for name, result in case["results"].items():
        if "error" in result:
            table.add_row(name, "-", "", "", "", "", result["error"].splitlines()[0][:90])
            continue
        values = series(case, result)
        middle = statistics.median(values)
        first = first or middle
        table.add_row(
            name,
            *(_median(result[key]) for key in ("wall_us", "device_us", "span_us")),
            f"{min(values):.1f}..{max(values):.1f}",
            f"{middle / first:.3f}",
            rate(report, case, name, middle),
            f"{result['error_norm']:.1e}" if "error_norm" in result else "",
            " ".join(f"{ep.removesuffix('ExecutionProvider')} {n}" for ep, n in result.get("placement", {}).items()),
        )
    console.print(table)


def title(report: Json, case: Json) -> str:
    """Name and what the figures are."""
    note = ", simulated device: no measure of speed" if report["simulated"] else ""
    return f"[bold]{case['name']}[/bold] ({metric(case).removesuffix('_us')} time counts{note})"


def rate(report: Json, case: Json, subject: str, us: float) -> str:
    """The figure in the terms of its group: TFLOP/s, share of the device's copy, us a node."""
    if case["flops"]:
        return f"{case['flops'] * case['repeated'] / us / 1e6:.1f} TFLOP/s, {us / case['repeated']:.2f} us each"
    copy = report["copy"].get(subject, {}).get("device_us")
    if case["bytes"] and copy:
        return f"{100 * case['bytes'] / us / (2 * report['copy_bytes'] / statistics.median(copy)):.0f}% of copy"
    if case["launches"] > 1:
        return f"{us / case['launches']:.2f} us a node"
    return ""


def show_timeline(case: Json, console: Console, rows: int = 12) -> None:
    """The kernels that take longest, of each subject that has a device clock."""
    for name, result in case["results"].items():
        timeline = result.get("timeline") or []
        if not timeline:
            continue
        table = Table(title=f"{case['name']}, {name}", title_justify="left", box=None, pad_edge=False)
        for column in ("us a Run", "calls", "kernel"):
            table.add_column(column, justify="left" if column == "kernel" else "right")
        for row in timeline[:rows]:
            table.add_row(f"{row['us']:.1f}", f"{row['calls']:g}", str(row["name"])[:100])
        rest = timeline[rows:]
        if rest:
            table.add_row(f"{sum(r['us'] for r in rest):.1f}", f"{sum(r['calls'] for r in rest):g}", "others")
        console.print(table)


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else ""


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
