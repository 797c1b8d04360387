"""GPU time in the host's profile on a real GPU: `python -m tests.gpu.profile_suite LIBRARY`, one JSON line a check.

CUPTI against events: PyTorch has the stream and the events. What holds on the simulated device too is in
tests/session/profile_suite.py.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime.capi import _pybind_state

from tests.gpu.memory_suite import open_session, report
from tests.gpu.stream_suite import NO_WAIT, sleep
from tests.session import models
from tests.session.profile_suite import device_events, end, host_nodes, nodes_of, profiled
from tests.session.stream_support import in_threads
from tests.session.suite import SkippedError, run_checks

PLACE = _pybind_state.OrtDevice(1, 0, 0x10DE, 0)  # GPU, default memory, NVIDIA, ordinal 0


def bind(session: ort.InferenceSession, tensor: torch.Tensor) -> ort.IOBinding:
    """Input and output are the same number of floats, each in memory of PyTorch's."""
    binding = session.io_binding()
    result = torch.empty_like(tensor)
    binding.kept = (tensor, result)
    for put, value, entry in (
        (binding._iobinding.bind_input, tensor, session.get_inputs()[0]),
        (binding._iobinding.bind_output, result, session.get_outputs()[0]),
    ):
        put(entry.name, PLACE, np.float32, list(value.shape), value.data_ptr())
    return binding


def options_of(graph: int = -1) -> ort.RunOptions:
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(graph))
    options.add_run_config_entry(NO_WAIT, "1")
    return options


def check_times_of_nodes_add_up_to_what_events_measure() -> None:
    """Within 2% on chains of large kernels: sums of 64 Mi floats, and products of 16384 x 4096 x 4096."""
    for title, model, shape in (
        ("sums", models.add_chain(20, constant=False), [1 << 26]),
        ("products", models.product_chain(10, 4096), [16384, 4096]),
    ):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.zeros(shape, device="cuda")
            b = torch.ones(shape, device="cuda") if title == "sums" else None
        handle = {"user_compute_stream": str(stream.cuda_stream), "has_user_compute_stream": "1"}
        with profiled(model, handle) as session:
            binding = bind(session, x)
            if b is not None:
                binding._iobinding.bind_input("b", PLACE, np.float32, shape, b.data_ptr())
            session.run_with_iobinding(binding, options_of())
            stream.synchronize()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.stream(stream):
                sleep(20)  # everything is queued before it begins
                first.record()
                session.run_with_iobinding(binding, options_of())
                last.record()
            stream.synchronize()
            events = end(session)
        kernels = [event["args"] for event in device_events(events) if "node_name" in event["args"]]
        assert kernels and "simulated" not in kernels[0], kernels
        second = kernels[len(kernels) // 2 :]
        total_ms, sum_ms = first.elapsed_time(last), sum(int(kernel["duration_ns"]) for kernel in second) / 1e6
        report(**{f"{title}_event_ms": total_ms, f"{title}_sum_ms": sum_ms, f"{title}_ratio": sum_ms / total_ms})
        assert nodes_of(events) == host_nodes(events)
        assert abs(sum_ms / total_ms - 1) <= 0.02, (title, sum_ms, total_ms)


def check_replays_have_the_names_of_nodes() -> None:
    """Each kernel of a replay under the node that launched it in an ordinary Run."""
    for model, shape in ((models.mixer(), [4, 8, 32]), (models.residual_network(), [2, 3, 32, 32])):
        with profiled(model, {"enable_cuda_graph": "1"}) as session:
            x = torch.zeros(shape, device="cuda")
            y = torch.zeros(session.run(None, {session.get_inputs()[0].name: x.cpu().numpy()}, options_of())[0].shape,
                            device="cuda")  # fmt: skip
            binding = session.io_binding()
            binding._iobinding.bind_input(session.get_inputs()[0].name, PLACE, np.float32, shape, x.data_ptr())
            binding._iobinding.bind_output(
                session.get_outputs()[0].name, PLACE, np.float32, list(y.shape), y.data_ptr()
            )
            for _ in range(4):
                session.run_with_iobinding(binding, options_of(1))
            torch.cuda.synchronize()
            events = end(session)
        named: list[Counter[tuple[str, str]]] = [Counter(), Counter()]
        for event in device_events(events):
            replayed = "replayed" in event["args"]
            assert not replayed or "node_name" in event["args"], event
            if "node_name" in event["args"]:
                named[replayed][event["args"]["node_name"], event["name"]] += 1
        report(replayed_kernels=sum(named[1].values()), replayed_nodes=len({name for name, _ in named[1]}))
        assert named[1] and {name for name, _ in named[1]} == {name for name, _ in named[0]}, named
        assert set(named[1]) <= set(named[0]), set(named[1]) - set(named[0])
        assert all(count % 4 == 0 for count in named[1].values()), named[1]


def check_threads_and_sessions_beside_each_other() -> None:
    """No event is lost, and none is another's."""

    def work(thread: int) -> None:
        with profiled(models.add_chain(thread + 10, constant=True)) as session:
            for _ in range(200):
                session.run(None, {"v0": np.zeros(4, np.float32)})
            events = end(session)
        assert nodes_of(events) == Counter({f"add{i}": 200 for i in range(thread + 10)}), nodes_of(events)

    in_threads(4, work)


def check_another_tool_is_no_failure() -> None:
    """With torch.profiler at work the host's profile may lack GPU times, and that is all."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        torch.zeros(10, device="cuda").add_(1)
        with profiled(models.add_chain(3, constant=True)) as session:
            (y,) = session.run(None, {"v0": np.zeros(4, np.float32)})
            events = end(session)
    np.testing.assert_array_equal(y, np.full(4, 3, np.float32))
    report(device_events_beside_torch=len(device_events(events)))


def check_what_profiling_costs() -> None:
    """Of a node of a thousand small ones, in us: before any profiling of the process, while it is on, and after."""
    if "check_what_profiling_costs" not in sys.argv:
        raise SkippedError("other checks of this process have profiled: name it alone on the command line")
    session = open_session(models.add_chain(1000, constant=True), {})
    x = {"v0": np.zeros(4, np.float32)}

    def us_a_node(of: ort.InferenceSession) -> float:
        of.run(None, x)
        times = []
        for _ in range(30):
            start = time.perf_counter()
            of.run(None, x)
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 2] * 1e3

    before = us_a_node(session)
    with profiled(models.add_chain(1000, constant=True)) as other:
        on = us_a_node(other)
        count = len(device_events(end(other)))
    after = us_a_node(session)
    report(before_us=before, on_us=on, after_us=after, events=count)


if __name__ == "__main__":
    run_checks(globals())
