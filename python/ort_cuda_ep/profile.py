"""GPU time of each node of a model, from the host's own profile. Hosts before 1.25 have no hook for it."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort

from . import _host, host_profile
from .host_profile import Event, ProfileError, is_node, node_name
from .peaks import Progress, measure_peaks
from .profile_times import Profile, analyse, is_device_work, rated, type_of

SINCE = 25  # of the host's minor versions
NVIDIA = 0x10DE
_GRAPHS = "enable_cuda_graph"


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

    events = host_profile.record(make_session, run, log_severity=3)
    require_runs(events, warm_up + repeat)
    found = analyse(events, repeat)
    if not found.activities:
        raise ProfileError("the profile has no GPU times: no node runs on the provider, or the log says why there are "
                           "none (`ort-cuda-ep doctor` looks for CUPTI)")  # fmt: skip
    if not with_peaks:
        return found
    flops = {a.node: a.type for a in found.activities if a.cost_flops}
    wanted = {type_of(event) for event in events if is_node(event) and node_name(event) in flops}
    wanted |= {kind for kind in flops.values() if kind}
    return rated(found, measure_peaks(device_id, options, wanted, progress))


def require_runs(events: Iterable[Event], runs: int) -> None:
    """ProfileError where the host had no room for all of them."""
    recorded = sum(event.get("name") == "model_run" for event in events)
    if recorded < runs:
        raise ProfileError(
            f"the host's profile has {recorded} of {runs} Runs: it keeps a million events; take a smaller --repeat"
        )


def write_trace(found: Profile, path: Path) -> None:
    """The host's profile with names for the device's rows, for Perfetto or chrome://tracing."""
    work = [event["args"] for event in found.events if is_device_work(event)]
    rows = sorted({(int(arguments["device"]), int(arguments["stream"])) for arguments in work})
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
