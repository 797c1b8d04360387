"""Statistics in the text format that Prometheus reads, for whatever server an application has."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._statistics import statistics

_PREFIX = "ort_cuda_ep_"

_Sample = tuple[dict[str, str], float]


class Metric(NamedTuple):
    """One metric: where its samples are in a part of the statistics, and by how much they are multiplied."""

    name: str  # without _PREFIX
    kind: str  # "gauge" or "counter"
    help: str
    key: str
    scale: float = 1.0


_MEMORY = (
    Metric("memory_in_use_bytes", "gauge", "Memory handed out", "in_use_bytes"),
    Metric("memory_peak_in_use_bytes", "gauge", "Most memory handed out at once", "peak_in_use_bytes"),
    Metric("memory_reserved_bytes", "gauge", "Memory taken from the driver", "reserved_bytes"),
    Metric("memory_peak_reserved_bytes", "gauge", "Most memory taken from the driver", "peak_reserved_bytes"),
    Metric("memory_allocations_total", "counter", "Requests for memory that were served", "allocations"),
    Metric("memory_extensions_total", "counter", "Times memory was taken from the driver", "extensions"),
    Metric("memory_returns_total", "counter", "Times memory was given back to the driver", "returns"),
    Metric("memory_shrinks_total", "counter", "Calls that give idle memory back", "shrinks"),
    Metric("memory_stream_waits_total", "counter", "Times a stream waited for another for memory", "stream_waits"),
    Metric("memory_failures_total", "counter", "Requests for memory that failed", "failures"),
)
_ACCOUNT = Metric("memory_charged_bytes", "gauge", "What counts against the memory limit", "")
_LIMIT = Metric("memory_limit_bytes", "gauge", "The memory limit, 0 for none", "limit_bytes")
_DEVICE = (
    Metric("sessions", "gauge", "Sessions alive", "sessions"),
    Metric("streams", "gauge", "Streams of sessions", "streams"),
    Metric("compiled_regions", "gauge", "Compiled regions of sessions", "compiled_regions"),
)
_GRAPHS = (
    Metric("graphs", "gauge", "CUDA graphs alive", "graphs"),
    Metric("graph_memory_bytes", "gauge", "Memory charged for CUDA graphs, without their tensors", "memory_bytes"),
    Metric("graphs_captured_total", "counter", "CUDA graphs that were made", "captured"),
    Metric("graph_launches_total", "counter", "Launches of CUDA graphs", "launches"),
)
_PLANS = (
    Metric("plans", "gauge", "Plans of vendor libraries that are kept", "kept"),
    Metric("plans_built_total", "counter", "Plans that a vendor library made", "built"),
    Metric("plans_loaded_total", "counter", "Plans that came from the plan file", "loaded"),
    Metric("plans_found_total", "counter", "Times a plan was there already", "found"),
    Metric("plans_dropped_total", "counter", "Plans that made room for others", "dropped"),
    Metric("plan_build_seconds_total", "counter", "Time that making plans took", "build_us", 1e-6),
    Metric("plan_load_seconds_total", "counter", "Time that loading plans took", "load_us", 1e-6),
    Metric("plans_in_background", "gauge", "Plans made in the background, or waiting for it", "in_background"),
    Metric("plan_replacements_total", "counter", "Rounds of plans replaced by better ones", "replacements"),
)
_INFO = Metric("info", "gauge", "The library, as labels", "")

_METRICS = (_INFO, *_MEMORY, _ACCOUNT, _LIMIT, *_DEVICE, *_GRAPHS, *_PLANS)
METRICS = tuple(_PREFIX + metric.name for metric in _METRICS)


def prometheus_text(found: Mapping[str, Any] | None = None, labels: Mapping[str, str] | None = None) -> str:
    """`found`, or `statistics()` without it, as Prometheus metrics; every sample carries `labels` (a replica's name).

    A server returns it with the content type "text/plain; version=0.0.4".
    """
    return _text([(labels or {}, statistics() if found is None else found)])


def prometheus_texts(found: Mapping[str, Mapping[str, Any]], label: str) -> str:
    """The statistics of several processes in one text, each under its name as the value of `label`."""
    return _text([({label: name}, one) for name, one in found.items()])


def _text(parts: Sequence[tuple[Mapping[str, str], Mapping[str, Any]]]) -> str:
    lines = []
    all_samples = [(labels, _samples(found)) for labels, found in parts]
    for metric in _METRICS:
        name = _PREFIX + metric.name
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
        for labels, samples in all_samples:
            for own, value in samples[metric]:
                lines.append(f"{name}{_label_text({**labels, **own})} {_number(value * metric.scale)}")
    return "\n".join(lines) + "\n"


def _samples(found: Mapping[str, Any]) -> dict[Metric, list[_Sample]]:
    devices = [({"device": str(device["ordinal"])}, device) for device in found["devices"]]

    def by_kind(part: str, key: str) -> list[_Sample]:
        return [({**own, "kind": kind}, figures[key]) for own, device in devices
                for kind, figures in device[part].items()]  # fmt: skip

    account = [
        ({**own, "kind": key.removesuffix("_bytes")}, value)
        for own, device in devices
        for key, value in device["account"].items()
        if key != _LIMIT.key
    ]
    return {
        _INFO: [({"version": found["version"], "backend": found["backend"]}, 1)],
        **{metric: by_kind("memory", metric.key) for metric in _MEMORY},
        _ACCOUNT: account,
        _LIMIT: [(own, device["account"][_LIMIT.key]) for own, device in devices],
        **{metric: [(own, device[metric.key]) for own, device in devices] for metric in _DEVICE},
        **{metric: by_kind("graphs", metric.key) for metric in _GRAPHS},
        **{metric: [({}, found["plans"][metric.key])] for metric in _PLANS},
    }


def _label_text(labels: Mapping[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    pairs = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}"
