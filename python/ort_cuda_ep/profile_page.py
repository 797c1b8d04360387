"""One HTML page of a profile: a timeline and a table, in one file that needs no network."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from .host_profile import node_name
from .profile_times import Profile, short_name

MOST_ACTIVITIES = 100_000  # what a browser still draws at once; of more, the last Runs are shown


@dataclass(frozen=True)
class Subject:
    """What was profiled, for the page's head."""

    model: str
    device: str
    host: str
    options: Mapping[str, str]
    shapes: Mapping[str, Sequence[int]]


def write_page(found: Profile, subject: Subject, path: Path) -> None:
    """Writes the page of a profile."""
    path.write_text(render(found, subject), encoding="utf-8")


def render(found: Profile, subject: Subject) -> str:
    """The page's text: the template with the profile's numbers as JSON, which no text of a model can end."""
    template = resources.files(__package__).joinpath("profile_page.html").read_text(encoding="utf-8")
    data = json.dumps(page_data(found, subject), separators=(",", ":"))
    safe = data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    head, mark, tail = template.partition("/*DATA*/")
    assert mark, "the template has no place for data"
    return head + safe + tail


def page_data(found: Profile, subject: Subject, most: int = MOST_ACTIVITIES) -> dict[str, Any]:
    """What the page draws: texts once each, times in us from its first event on."""
    runs = sorted((event for event in found.host_events if event["name"] == "model_run"), key=lambda run: run["ts"])
    begins = sorted(a.begin_ns for a in found.activities)
    skipped = 0
    while skipped + 1 < len(runs) and len(begins) - bisect_left(begins, runs[skipped]["ts"] * 1e3) > most:
        skipped += 1
    begin_us = runs[skipped]["ts"] if runs else min((a.begin_ns / 1e3 for a in found.activities), default=0)
    shown = [a for a in found.activities if a.begin_ns >= begin_us * 1e3]
    activities = shown[:most]
    host = [event for event in found.host_events if event["ts"] >= begin_us]

    index = {(node.name, node.op_type): number for number, node in enumerate(found.nodes)}
    by_name = {node.name: number for number, node in enumerate(found.nodes)}
    kernels = {name: number for number, name in enumerate(dict.fromkeys(a.kernel for a in activities))}
    device = {"sim": found.simulated}
    lanes: dict[tuple[str, int, int], int] = {}
    for event in host:
        lanes.setdefault(("thread", int(event["pid"]), int(event["tid"])), len(lanes))
    for activity in activities:
        lanes.setdefault(("stream", activity.device, activity.stream), len(lanes))
    return {
        **device,
        "model": subject.model,
        "device": subject.device,
        "host": subject.host,
        "options": dict(subject.options),
        "shapes": {name: list(dims) for name, dims in subject.shapes.items()},
        "runs": found.runs,
        "skipped": skipped,
        "cut": len(shown) - len(activities),
        "us": {"run": found.host_us, "busy": found.span_us, "nodes": found.node_us, "copies": found.copy_us},
        "peaks": {"bytes": found.peaks.bytes_per_s, "products": dict(found.peaks.products)},
        "nodes": [
            {
                "name": node.name,
                "op": node.op_type,
                "kernels": [[short_name(kernel.name), round(kernel.us, 3)] for kernel in node.kernels],
                "calls": node.calls,
                "us": node.us,
                "share": node.share,
                "percent": node.percent,
                "limit": node.limit,
            }
            for node in found.nodes
        ],
        "kernels": [[short_name(name), name] for name in kernels],
        "lanes": [
            f"host thread {number}" if kind == "thread" else f"device {owner}, stream {number}"
            for kind, owner, number in lanes
        ],
        "streams": [number for (kind, _, _), number in lanes.items() if kind == "stream"],
        # lane, begin, duration, kernel, node or -1, replayed
        "work": [
            [
                lanes["stream", a.device, a.stream],
                round(a.begin_ns / 1e3 - begin_us, 3),
                round(a.duration_ns / 1e3, 3),
                kernels[a.kernel],
                index.get((a.node, a.op_type), -1),
                int(a.replayed),
                a.event,
            ]
            for a in activities
        ],
        # lane, begin, duration, node or -1, text
        "calls": [
            [
                lanes["thread", int(event["pid"]), int(event["tid"])],
                event["ts"] - begin_us,
                event["dur"],
                by_name.get(node_name(event), -1),
                node_name(event),
                event.get("args", {}).get("op_name", ""),
            ]
            for event in host
        ],
    }
