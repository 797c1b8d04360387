"""Charts of reports: cost against batch, tokens or threads, as one HTML page that needs nothing else."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.report import series

Json = dict[str, Any]
_AXES = ("batch", "tokens", "length", "past")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 360, 70, 200, 40, 45
_COLOURS = ("#0b6e4f", "#c8553d", "#2a6fb0", "#8a4fbf", "#b8860b", "#444444", "#d0448c", "#1f9e9e")


@dataclass
class Chart:
    """Lines of (x, low, middle, high) by subject; both axes are logarithmic."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float, float, float]]] = field(default_factory=dict)

    def add(self, subject: str, x: float, values: list[float]) -> None:
        """A point: the median of values, and their range."""
        if values and min(values) > 0:
            self.lines.setdefault(subject, []).append((x, min(values), statistics.median(values), max(values)))


def charts(report: Json) -> list[Chart]:
    """Of a report of `run`: one a model and axis that varies while the others stay; of throughput: one a model."""
    if "cases" not in report:
        return [_threads(name, found) for name, found in report.items()]
    made: dict[tuple[Any, ...], Chart] = {}
    for case in report["cases"]:
        numbers = {axis: case["axes"][axis] for axis in _AXES if axis in case["axes"]}
        for axis, at in numbers.items():
            rest = tuple((name, value) for name, value in case["axes"].items() if name != axis)
            title = ", ".join(str(value) if name in ("model", "dtype") else f"{name} {value}" for name, value in rest)
            chart = made.setdefault((axis, rest), Chart(title, axis, "us a Run"))
            for subject, result in case["results"].items():
                if "error" not in result:
                    chart.add(subject, float(at), series(case, result))
    return [
        chart for chart in made.values() if any(len({point[0] for point in line}) > 1 for line in chart.lines.values())
    ]


def _threads(name: str, report: Json) -> Chart:
    chart = Chart(name, "threads", "Runs a second")
    for kind in ("hosts", "callers", "bare"):
        for entry in report.get(kind, []):
            chart.add(kind, float(entry["threads"]), [float(entry["runs_per_second"])])
    return chart


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within the range and around it."""
    steps = [
        m * 10.0**e for e in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
    ]
    inside = [step for step in steps if low <= step <= high]
    below = [step for step in steps if step < low][-1:]
    above = [step for step in steps if step > high][:1]
    return below + inside + above


def draw(chart: Chart) -> str:
    """The chart as SVG."""
    points = [point for line in chart.lines.values() for point in line]
    xs = sorted({point[0] for point in points})
    ticks = _ticks(min(point[1] for point in points), max(point[3] for point in points))

    def across(x: float) -> float:
        return _LEFT + _share(x, xs[0], xs[-1]) * (_WIDTH - _LEFT - _RIGHT)

    def down(y: float) -> float:
        return _HEIGHT - _BOTTOM - _share(y, ticks[0], ticks[-1]) * (_HEIGHT - _TOP - _BOTTOM)

    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [f'<text x="{_LEFT}" y="20" font-weight="bold">{html.escape(chart.title)}</text>']
    for tick in ticks:
        y = down(tick)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for x in xs:
        parts.append(f'<text x="{across(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{chart.x}</text>')
    parts.append(f'<text x="14" y="{bottom / 2}" transform="rotate(-90 14 {bottom / 2})">{chart.y}</text>')
    for number, (subject, line) in enumerate(chart.lines.items()):
        colour, line = _COLOURS[number % len(_COLOURS)], sorted(line)
        path = " ".join(f"{across(x):.1f},{down(middle):.1f}" for x, _, middle, _ in line)
        dash = ' stroke-dasharray="5 3"' if number >= len(_COLOURS) else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, low, middle, high in line:
            at = across(x)
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{down(low):.1f}" y2="{down(high):.1f}" stroke="{colour}"/>'
            )
            told = f"{subject}, {chart.x} {x:g}: {middle:.4g} ({low:.4g}..{high:.4g}) {chart.y}"
            tip = f"<title>{html.escape(told)}</title>"
            parts.append(f'<circle cx="{at:.1f}" cy="{down(middle):.1f}" r="3" fill="{colour}">{tip}</circle>')
        y = _TOP + 16 * number
        parts.append(f'<text x="{right + 12}" y="{y}" fill="{colour}">{html.escape(subject)}</text>')
    height = max(_HEIGHT, _TOP + 16 * len(chart.lines))
    return f'<svg width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def page(reports: Iterable[Json]) -> str:
    """All charts of some reports. ValueError where nothing varies."""
    reports = list(reports)
    drawn = [draw(chart) for report in reports for chart in charts(report) if chart.lines]
    if not drawn:
        raise ValueError("no case of these reports varies in batch, tokens or threads: measure --cases sweep")
    machines = {_machine(report) for report in reports if "machine" in report}
    notes = "".join(f"<p>{html.escape(machine)}</p>" for machine in sorted(machines))
    return f"<!doctype html><meta charset=utf-8><title>Benchmark</title>{notes}{''.join(drawn)}\n"


def _machine(report: Json) -> str:
    machine = report["machine"]
    what = (
        "simulated device: no measure of speed"
        if report["simulated"]
        else f"{machine['gpu']}, driver {machine['driver']}"
    )
    return f"{what}; {report['created']}; medians and ranges over repeats"
