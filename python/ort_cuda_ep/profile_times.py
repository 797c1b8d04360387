"""What a host's profile says of the device's work: activities, times of nodes, percents of the device's peaks.

The provider writes one event of the category "Kernel" for each kernel, copy and fill (src/abi/profiler.h): which node,
which call of it, exact times in nanoseconds, and what the node's plan states.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .host_profile import Event, is_node, node_name


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill. `begin_ns` counts from the begin of the host's profile.

    `busy_ns` is the part of its time in which no earlier work of its stream ran: kernels that are launched ahead wait
    for their predecessor. `node` is empty for what belongs to no node, and `event` says whose it is then.
    """

    kernel: str
    kind: str
    node: str
    op_type: str
    type: str  # element type of a region's step; of other nodes the host's event has it
    event: str
    call: str
    begin_ns: int
    duration_ns: int
    busy_ns: int
    device: int
    stream: int
    bytes: int
    cost_bytes: float
    cost_flops: float
    replayed: bool


@dataclass(frozen=True)
class Peaks:
    """What was measured of this device: bytes a second of a large copy, operations a second of a large product.

    `products` is by the host's name of the element type. `failed` has why a measurement could not be made, by its name.
    """

    bytes_per_s: float = 0.0
    products: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelTime:
    """A kernel of a node: its full name and us a Run."""

    name: str
    us: float


@dataclass(frozen=True)
class NodeTime:
    """A node's work: calls, kernels and us of device time a Run. `percent` of `limit`, where its plan states a cost."""

    name: str
    op_type: str
    kernels: tuple[KernelTime, ...]
    calls: float
    us: float
    share: float
    percent: float | None
    limit: str


@dataclass(frozen=True)
class Profile:
    """The measured Runs of a model. Times in us a Run; `host_us` is the median of the Runs as their caller saw them."""

    runs: int
    nodes: tuple[NodeTime, ...]
    node_us: float
    copy_us: float
    span_us: float
    host_us: float
    activities: tuple[Activity, ...]
    host_events: tuple[Event, ...]
    events: tuple[Event, ...]
    peaks: Peaks
    simulated: bool


def analyse(events: list[Event], repeat: int, peaks: Peaks | None = None) -> Profile:
    """What the last `repeat` Runs of a profile's events say."""
    measured = _since_run(events, repeat)
    activities = read_activities(measured)
    runs = [event for event in measured if event.get("name") == "model_run"]
    nodes = _node_times([a for a in activities if a.node], repeat, Peaks(), {})
    copy_ns = sum(a.busy_ns for a in activities if not a.node)
    found = Profile(
        runs=repeat,
        nodes=nodes,
        node_us=sum(node.us for node in nodes),
        copy_us=copy_ns / 1e3 / repeat,
        span_us=_busy_ns(activities) / 1e3 / repeat,
        host_us=float(np.median([run["dur"] for run in runs])) if runs else 0.0,
        activities=tuple(activities),
        host_events=tuple(event for event in measured if is_node(event) or event.get("name") == "model_run"),
        events=tuple(events),
        peaks=Peaks(),
        simulated=any("simulated" in event["args"] for event in events if event.get("cat") == "Kernel"),
    )
    return found if peaks is None else rated(found, peaks)


def rated(found: Profile, peaks: Peaks) -> Profile:
    """The same with percents of these peaks."""
    types = {node_name(event): type_of(event) for event in found.events if is_node(event)}
    nodes = _node_times([a for a in found.activities if a.node], found.runs, peaks, types)
    return replace(found, nodes=nodes, peaks=peaks)


def is_device_work(event: Event) -> bool:
    """Whether this is a kernel, copy or fill that the provider told."""
    return event.get("cat") == "Kernel" and "begin_ns" in event.get("args", {})


def read_activities(events: Iterable[Event]) -> list[Activity]:
    """The device's work in a profile, by begin."""
    found = [event for event in events if is_device_work(event)]
    found.sort(key=lambda event: int(event["args"]["begin_ns"]))
    reached: dict[tuple[int, int], int] = {}
    activities = []
    for event in found:
        arguments = event["args"]
        begin, duration = int(arguments["begin_ns"]), int(arguments["duration_ns"])
        lane = int(arguments["device"]), int(arguments["stream"])
        free = max(begin, reached.get(lane, 0))
        reached[lane] = max(reached.get(lane, 0), begin + duration)
        activities.append(
            Activity(
                kernel=str(event["name"]),
                kind=arguments["activity"],
                node=arguments.get("node_name", "") or (arguments.get("op_name", "")),
                op_type=arguments.get("op_name", ""),
                type=arguments.get("type", ""),
                event=arguments.get("event_name", ""),
                call=arguments["call"],
                begin_ns=begin,
                duration_ns=duration,
                busy_ns=max(0, begin + duration - free),
                device=lane[0],
                stream=lane[1],
                bytes=int(arguments.get("bytes", 0)),
                cost_bytes=float(arguments.get("cost_bytes", 0)),
                cost_flops=float(arguments.get("cost_flops", 0)),
                replayed=arguments.get("replayed") == "1",
            )
        )
    return activities


def short_name(kernel: str) -> str:
    """A kernel's name without return type, parameters and the project's own namespaces."""
    text = re.sub(r"\(anonymous namespace\)::", "", kernel)
    text = re.sub(r"\b(?:cudaep|kernels)::", "", text)
    text = re.sub(r"^(?:void|static) ", "", text)
    depth, end = 0, len(text)
    for index, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "(" and depth == 0 and index:
            end = index
            break
    return text[:end].strip() or kernel


def _since_run(events: list[Event], repeat: int) -> list[Event]:
    """What happened from the begin of the last `repeat` Runs on."""
    runs = sorted(int(event["ts"]) for event in events if event.get("name") == "model_run")
    begin = runs[-repeat] if len(runs) >= repeat else 0
    return [event for event in events if int(event.get("ts", 0)) >= begin]


def type_of(event: Event) -> str:
    """The element type of a node's first output, in the host's words."""
    shapes = event.get("args", {}).get("output_type_shape") or [{}]
    return next(iter(shapes[0]), "")


def _busy_ns(activities: list[Activity]) -> int:
    """With anything running on a device; what overlaps counts once."""
    busy = reached = 0
    for activity in activities:
        end = activity.begin_ns + activity.duration_ns
        busy += max(0, end - max(reached, activity.begin_ns))
        reached = max(reached, end)
    return busy


def _node_times(
    activities: list[Activity], repeat: int, peaks: Peaks, types: Mapping[str, str]
) -> tuple[NodeTime, ...]:
    grouped: dict[tuple[str, str], list[Activity]] = {}
    for activity in activities:
        grouped.setdefault((activity.node, activity.op_type), []).append(activity)
    total = sum(a.busy_ns for a in activities) or 1
    nodes = []
    for (name, op_type), work in grouped.items():
        kernels: dict[str, int] = {}
        for activity in work:
            kernels[activity.kernel] = kernels.get(activity.kernel, 0) + activity.busy_ns
        busy = sum(kernels.values())
        calls = {activity.call: activity for activity in work}
        percent, limit = _percent(list(calls.values()), busy, peaks, types.get(name, work[0].type))
        by_time = sorted(kernels.items(), key=lambda entry: -entry[1])
        times = tuple(KernelTime(kernel, ns / 1e3 / repeat) for kernel, ns in by_time)
        nodes.append(
            NodeTime(name, op_type, times, len(calls) / repeat, busy / 1e3 / repeat, busy / total, percent, limit)
        )
    return tuple(sorted(nodes, key=lambda node: -node.us))


def _percent(calls: list[Activity], busy_ns: int, peaks: Peaks, kind: str) -> tuple[float | None, str]:
    """Of the rate that binds: whichever of bytes and operations takes more of its peak."""
    rates = [
        ("bytes", sum(call.cost_bytes for call in calls), peaks.bytes_per_s),
        (f"{kind} FLOPs", sum(call.cost_flops for call in calls), peaks.products.get(kind, 0.0)),
    ]
    found = [(100 * cost / (busy_ns / 1e9) / peak, limit) for limit, cost, peak in rates if cost and peak and busy_ns]
    return max(found, default=(None, ""))
