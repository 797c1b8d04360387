"""GPU time of each node of a model, from the host's own profile: Runs, analysis, and what the device can do at most.

The provider writes one event of the category "Kernel" for each kernel, copy and fill (src/abi/profiler.h): which node,
which call of it, exact times in nanoseconds, and what the node's plan states. Hosts before 1.25 have no hook for it.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from . import _host, _provider, host_profile
from .host_profile import Event, is_node, node_name

SINCE = 25  # of the host's minor versions
NVIDIA = 0x10DE
_GRAPHS = "enable_cuda_graph"
# Options that say how much memory the model's session has, not how its kernels work; peaks are measured without them.
_OF_MEMORY = ("gpu_mem_limit", "arena", "gpu_external_", "budget_", "debug.")
Progress = Callable[[str], None]


class ProfileError(Exception):
    """What makes a profile impossible; the text says what to do."""


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


def profile(
    make_session: Callable[[ort.SessionOptions], ort.InferenceSession],
    feeds: Mapping[str, np.ndarray],
    *,
    device_id: int,
    options: Mapping[str, str],
    warm_up: int,
    repeat: int,
    with_peaks: bool,
    progress: Progress,
) -> Profile:
    """Runs a session `warm_up` + `repeat` times under the host's profiler; ProfileError, or errors of the host."""
    if _host.version() < (1, SINCE):
        raise ProfileError(f"GPU times need ONNX Runtime 1.{SINCE} or newer, whose profiler asks providers; "
                           f"this is {ort.__version__}")  # fmt: skip

    def run(session: ort.InferenceSession) -> None:
        call = _graph_run(session, feeds, device_id) if options.get(_GRAPHS) in ("1", "true", "True") else None
        for index in range(warm_up + repeat):
            progress(f"run {index + 1 - warm_up} of {repeat}" if index >= warm_up else "warming up")
            call() if call else session.run(None, dict(feeds))

    events = _profiled(make_session, run)
    require_runs(events, warm_up + repeat)
    activities = read_activities(_since_run(events, repeat))
    if not activities:
        raise ProfileError("the profile has no GPU times: no node runs on the provider, or the log says why there are "
                           "none (`ort-cuda-ep doctor` looks for CUPTI)")  # fmt: skip
    peaks = Peaks()
    if with_peaks:
        flops = {a.node for a in activities if a.cost_flops}
        wanted = {_type_of(event) for event in events if is_node(event) and node_name(event) in flops}
        peaks = measure_peaks(device_id, options, wanted, progress)
    return analyse(events, repeat, peaks)


def require_runs(events: Iterable[Event], runs: int) -> None:
    """ProfileError where the host had no room for all of them."""
    recorded = sum(event.get("name") == "model_run" for event in events)
    if recorded < runs:
        raise ProfileError(
            f"the host's profile has {recorded} of {runs} Runs: it keeps a million events; take a smaller --repeat"
        )


def analyse(events: list[Event], repeat: int, peaks: Peaks | None = None) -> Profile:
    """What the last `repeat` Runs of a profile's events say."""
    peaks = peaks or Peaks()
    measured = _since_run(events, repeat)
    activities = read_activities(measured)
    runs = [event for event in measured if event.get("name") == "model_run"]
    types = {node_name(event): _type_of(event) for event in events if is_node(event)}
    nodes = _node_times([a for a in activities if a.node], repeat, peaks, types)
    copy_ns = sum(a.busy_ns for a in activities if not a.node)
    return Profile(
        runs=repeat,
        nodes=nodes,
        node_us=sum(node.us for node in nodes),
        copy_us=copy_ns / 1e3 / repeat,
        span_us=_busy_ns(activities) / 1e3 / repeat,
        host_us=float(np.median([run["dur"] for run in runs])) if runs else 0.0,
        activities=tuple(activities),
        host_events=tuple(event for event in measured if is_node(event) or event.get("name") == "model_run"),
        events=tuple(events),
        peaks=peaks,
        simulated=any("simulated" in event["args"] for event in events if event.get("cat") == "Kernel"),
    )


def read_activities(events: Iterable[Event]) -> list[Activity]:
    """The device's work in a profile, by begin."""
    found = [event for event in events if event.get("cat") == "Kernel" and "begin_ns" in event.get("args", {})]
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


def measure_peaks(device_id: int, options: Mapping[str, str], types: Iterable[str], progress: Progress) -> Peaks:
    """The rates of a large copy and of a large product of each of `types`, through the provider itself.

    What cannot be measured, for want of memory for one, is missing and says why. On the simulated device small ones do:
    its times say nothing about a GPU.
    """
    simulated = _provider.is_simulated(_provider.devices()[device_id])
    plain = {key: value for key, value in options.items() if key != _GRAPHS and not key.startswith(_OF_MEMORY)}
    failed: dict[str, str] = {}

    def best(what: str, model: bytes, feeds: dict[str, np.ndarray], name: str) -> float:
        progress(f"measuring {what}")

        def run(session: ort.InferenceSession) -> None:
            for _ in range(4):
                session.run(None, feeds)

        try:
            found = _profiled(lambda settings: _provider.session(model, settings, plain, device_id), run)
        except Exception as error:  # of the host, which has classes of its own
            failed[what] = str(error)
            return 0.0
        calls: dict[str, int] = {}
        for activity in read_activities(found):
            if activity.node == name:
                calls[activity.call] = calls.get(activity.call, 0) + activity.busy_ns
        if not calls:
            failed[what] = "its profile has no GPU times"
        return min(calls.values(), default=0) / 1e9

    elems = 1 << (18 if simulated else 26)
    seconds = best("a copy", _copy_model(elems), {"x": np.zeros(elems, np.float32)}, "copy")
    bytes_per_s = 8 * elems / seconds if seconds else 0.0
    products = {}
    column = np.random.default_rng(0).standard_normal((128 if simulated else 8192, 1), dtype=np.float32)
    for kind in sorted(set(types) & set(_PRODUCT_TYPES)):
        size = len(column)
        seconds = best(f"a product of {kind}", _product_model(size, _PRODUCT_TYPES[kind]), {"x": column}, "product")
        if seconds:
            products[kind] = 2.0 * size**3 / seconds
    return Peaks(bytes_per_s, products, failed)


def write_trace(found: Profile, path: Path) -> None:
    """The host's profile with names for the device's rows, for Perfetto or chrome://tracing."""
    rows = sorted({(a.device, a.stream) for a in read_activities(found.events)})
    kind = "simulated GPU" if found.simulated else "GPU"
    names: list[Event] = [
        {"ph": "M", "pid": -1 - device, "name": "process_name", "args": {"name": f"{kind} {device}"}}
        for device in sorted({device for device, _ in rows})
    ]
    names += [
        {"ph": "M", "pid": -1 - device, "tid": stream, "name": "thread_name", "args": {"name": f"stream {stream}"}}
        for device, stream in rows
    ]
    path.write_text(json.dumps([*names, *found.events]), encoding="utf-8")


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


def _profiled(
    make_session: Callable[[ort.SessionOptions], ort.InferenceSession], run: Callable[[ort.InferenceSession], None]
) -> list[Event]:
    with tempfile.TemporaryDirectory() as folder:
        settings = ort.SessionOptions()
        settings.log_severity_level = 3
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(folder) / "profile")
        session = make_session(settings)
        run(session)
        path = session.end_profiling()
        try:
            return host_profile.read(path)
        except ValueError as error:
            raise ProfileError(
                f"the host wrote a profile that is no JSON (names of nodes with quotes or backslashes?): {error}"
            ) from error


def _graph_run(session: ort.InferenceSession, feeds: Mapping[str, np.ndarray], device_id: int) -> Callable[[], None]:
    """A Run that is captured, and replayed from the second call on: inputs and outputs stay in device memory."""
    ordinary = ort.RunOptions()
    ordinary.add_run_config_entry("gpu_graph_id", "-1")
    outputs = session.run(None, dict(feeds), ordinary)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, "gpu", device_id, NVIDIA))
    for entry, array in zip(session.get_outputs(), outputs, strict=True):
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype, "gpu", device_id, NVIDIA)
        binding.bind_ortvalue_output(entry.name, value)
    return lambda: session.run_with_iobinding(binding)


def _since_run(events: list[Event], repeat: int) -> list[Event]:
    """What happened from the begin of the last `repeat` Runs on."""
    runs = sorted(int(event["ts"]) for event in events if event.get("name") == "model_run")
    begin = runs[-repeat] if len(runs) >= repeat else 0
    return [event for event in events if int(event.get("ts", 0)) >= begin]


def _type_of(event: Event) -> str:
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
        percent, limit = _percent(list(calls.values()), busy, peaks, types.get(name, ""))
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


_PRODUCT_TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def _copy_model(elems: int) -> bytes:
    """x is read and written once by the node "copy"; only its maximum comes back."""
    nodes = [
        helper.make_node("Neg", ["x"], ["y"], "copy"),
        helper.make_node("ReduceMax", ["y"], ["most"], "most", keepdims=0),
    ]
    return _model(nodes, {"x": [elems]}, "most")


def _product_model(size: int, kind: int) -> bytes:
    """The node "product" multiplies two square matrices that are spread from a column; only a maximum comes back."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"], "wide"),
        helper.make_node("Cast", ["wide"], ["a"], "cast", to=kind),
        helper.make_node("MatMul", ["a", "a"], ["c"], "product"),
        helper.make_node("ReduceMax", ["c"], ["most"], "most", keepdims=0),
        helper.make_node("Cast", ["most"], ["y"], "result", to=TensorProto.FLOAT),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [size, size])
    return _model(nodes, {"x": [size, 1]}, "y", [shape])


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int]],
    output: str,
    constants: list[onnx.TensorProto] | None = None,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "peak",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [])],
        constants or [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
