"""What must hold about streams on every supported host: run as a child process, one JSON line a check.

    python -m tests.session.stream_suite PROBE

PROBE is the test build of the plug-in (tests/session/probe), whose simulated device runs an operation only when
something waits for it: a producer that nobody waited for is infinitely slow here, and memory that two streams use
without an order between them is an error of the Run. Several caller streams over one session need the C API:
tests/session/test_stream_host.py has them.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.capi import _pybind_state

from tests.session import models
from tests.session.session_probe import Counters, Probe
from tests.session.suite import EP, SkippedError, devices, error_of, run_checks, session

LEGACY = 0
WIDTH = 64
HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
NO_WAIT = "disable_synchronize_execution_providers"

probe: Probe


def without_waiting() -> ort.RunOptions:
    options = ort.RunOptions()
    options.add_run_config_entry(NO_WAIT, "1")
    return options


class DeviceRun:
    """Runs of a session with one input and one output on buffers of the application's in device memory."""

    def __init__(self, created: ort.InferenceSession, shape: list[int]) -> None:
        self.session, self.shape = created, shape
        self.count = int(np.prod(shape))
        self.x, self.y = probe.malloc(self.count), probe.malloc(self.count)
        self._binding = created.io_binding()
        place = _pybind_state.OrtDevice(1, 0, 0x10DE, 0)
        names = created.get_inputs()[0].name, created.get_outputs()[0].name
        self._binding._iobinding.bind_input(names[0], place, np.float32, shape, self.x)
        self._binding._iobinding.bind_output(names[1], place, np.float32, shape, self.y)

    def __call__(self) -> None:
        """Queues one Run."""
        self.session.run_with_iobinding(self._binding, without_waiting())

    def wait(self) -> None:
        """Waits for the outputs as the host does."""
        self._binding.synchronize_outputs()

    def spent_by(self, runs: int) -> Counters:
        """What a number of steady Runs costs the device."""
        before = probe.counters()
        for _ in range(runs):
            self()
        return probe.counters() - before

    def close(self) -> None:
        probe.synchronize_device()
        probe.free(self.x)
        probe.free(self.y)


def double_chain(length: int = 4) -> bytes:
    """y = 2 ** length * x, one Add after the other."""
    nodes = [helper.make_node("Add", [f"v{i}"] * 2, [f"v{i + 1}"], name=f"add{i}") for i in range(length)]
    vector = (TensorProto.FLOAT, ["n"])
    return models.model(nodes, {"v0": vector}, {f"v{length}": vector})


def two_branches() -> bytes:
    """Two independent chains from one input, joined at the end: y = 8 * x."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a1"], name="a1"),
        helper.make_node("Add", ["a1", "a1"], ["a2"], name="a2"),
        helper.make_node("Add", ["x", "x"], ["b1"], name="b1"),
        helper.make_node("Add", ["b1", "b1"], ["b2"], name="b2"),
        helper.make_node("Add", ["a2", "b2"], ["y"], name="join"),
    ]
    vector = (TensorProto.FLOAT, ["n"])
    return models.model(nodes, {"x": vector}, {"y": vector})


def through_the_cpu() -> bytes:
    """Ours, an operator that only the CPU has, and ours again: a copy in each direction."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["before"], name="before"),
        helper.make_node("Det", ["before"], ["det"], name="on_the_cpu"),
        helper.make_node("Mul", ["det", "det"], ["y"], name="after"),
    ]
    return models.model(nodes, {"x": (TensorProto.FLOAT, ["n", 3, 3])}, {"y": (TensorProto.FLOAT, ["n"])})


def steady(run: DeviceRun) -> Counters:
    """The cost of ten Runs once plans, streams and memory are there."""
    for _ in range(3):
        run()
    probe.synchronize_device()
    return run.spent_by(10)


def check_an_asynchronous_run_neither_waits_nor_allocates() -> None:
    """No synchronisation and no driver allocation in a steady Run; its work is still queued when it returns."""
    for model, shape in ((double_chain(), [1000]), (models.product_chain(3, WIDTH), [7, WIDTH])):
        run = DeviceRun(session(model), shape)
        spent = steady(run)
        assert not spent.waits(), spent.waits()
        assert not spent.driver_calls(), spent.driver_calls()
        assert spent["launches"] + spent["host_work"] >= 30, spent.values
        probe.synchronize_device()
        probe.produce(LEGACY, run.x, 1.0, run.count)
        probe.produce(LEGACY, run.y, -1.0, run.count)
        probe.synchronize(LEGACY)
        run()
        assert probe.peek(run.y) == -1, "the work was done before anybody asked for it"
        probe.synchronize_device()
        assert probe.peek(run.y) != -1
        run.close()


def check_a_run_waits_for_its_own_stream_alone() -> None:
    """Without that option a Run waits once, for its own stream; other work of the application is not waited for."""
    elsewhere = probe.stream()
    pointer = probe.malloc(1)
    probe.produce(elsewhere, pointer, 1.0, 1)
    probe.synchronize(elsewhere)
    x = np.arange(6, dtype=np.float32)
    chain = session(double_chain())
    chain.run(None, {"v0": x})
    probe.produce(elsewhere, pointer, 2.0, 1)
    before = probe.counters()
    np.testing.assert_array_equal(chain.run(None, {"v0": x})[0], 16 * x)
    spent = probe.counters() - before
    assert spent["device_syncs"] == 0, spent.values
    assert probe.peek(pointer) == 1, "the Run waited for another stream"
    probe.synchronize(elsewhere)
    probe.free(pointer)
    probe.destroy_stream(elsewhere)


def partition(folder: str, streams: list[list[str]]) -> str:
    """The host's file that puts nodes on streams."""
    path = Path(folder) / "partition.json"
    path.write_text(json.dumps({"type": "DeviceBasedPartitioner", "streams": streams, "devices": ["1"] * len(streams)}))
    return str(path)


def check_several_streams_in_one_graph_do_not_wait_either() -> None:
    """Nodes on two streams, ordered by events alone."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a1", "a2", "join"], ["b1", "b2"]])}
        run = DeviceRun(session(two_branches(), entries=entries), [100])
        spent = steady(run)
        assert spent["event_waits"] >= 10, f"the graph has one stream only: {spent.values}"
        assert not spent.waits(), spent.waits()
        assert not spent.driver_calls(), spent.driver_calls()
        probe.synchronize_device()
        probe.produce(LEGACY, run.x, 3.0, run.count)
        probe.synchronize(LEGACY)
        run()
        probe.synchronize_device()
        np.testing.assert_array_equal(probe.read(LEGACY, run.y, run.count), np.full(run.count, 24, np.float32))
        run.close()


def check_a_users_stream_carries_everything() -> None:
    """Wrapped, never owned: no work elsewhere, no synchronisation, alive afterwards; stream 0 is one too."""
    own, blocking = probe.stream(), probe.stream(blocking=True)
    for stream in (own, blocking, LEGACY):
        for model, shape in ((double_chain(), [100]), (models.product_chain(3, WIDTH), [5, WIDTH])):
            created = session(model, {"user_compute_stream": str(stream), "has_user_compute_stream": "1"})
            run = DeviceRun(created, shape)
            if stream != LEGACY:
                probe.restrict(stream)
            try:
                spent = steady(run)
            finally:
                probe.restrict(None)
            assert not spent.waits() and not spent.driver_calls(), spent.values
            assert spent["event_waits"] == 0, spent.values
            run.close()
            del run, created
            gc.collect()
    for stream in (own, blocking):
        probe.synchronize(stream)
        probe.destroy_stream(stream)


def check_waiting_for_a_binding_waits_for_the_users_stream_alone() -> None:
    """`synchronize_outputs`, from host 1.25 on, does not wait for other work on the device."""
    stream, elsewhere = probe.stream(), probe.stream()
    other = probe.malloc(1)
    run = DeviceRun(session(double_chain(), {"user_compute_stream": str(stream)}), [10])
    probe.produce(stream, run.x, 1.0, run.count)
    probe.produce(elsewhere, other, 1.0, 1)
    run()
    before = probe.counters()
    run.wait()
    spent = probe.counters() - before
    if HOST < (1, 25):
        assert not spent.waits(), spent.values
        raise SkippedError(f"host {ort.__version__} does not ask the provider to wait")
    assert spent["stream_syncs"] >= 1 and spent["device_syncs"] == 0, spent.values
    assert probe.peek(run.y) == 16 and probe.peek(other) != 1
    probe.synchronize(elsewhere)
    run.close()


def check_a_slow_producer_on_the_users_stream_is_waited_for() -> None:
    """1,000 loops of produce, Run, consume on one stream of the caller's: no stale input, no synchronisation."""
    stream = probe.stream()
    run = DeviceRun(session(double_chain(), {"user_compute_stream": str(stream)}), [50])
    ordered_loops(run, stream)
    probe.destroy_stream(stream)


def check_a_producer_on_the_legacy_stream_is_waited_for_with_the_option() -> None:
    """The same without a user's stream: order_with_legacy_stream orders both ways, and no stream waits for an event."""
    ordered_loops(DeviceRun(session(double_chain(), {"order_with_legacy_stream": "1"}), [50]), LEGACY)


def ordered_loops(run: DeviceRun, stream: int) -> None:
    run()  # plans and streams
    probe.synchronize_device()
    for i in range(1000):
        before = probe.counters()
        probe.produce(stream, run.x, float(i), run.count)
        run()
        spent = probe.counters() - before
        assert not spent.waits(), spent.waits()
        assert spent["event_waits"] == 0, spent.values
        found = probe.read(stream, run.y, run.count)
        np.testing.assert_array_equal(found, np.full(run.count, 16 * i, np.float32))
    run.close()


def check_without_either_the_caller_waits() -> None:
    """The documented rule: a producer elsewhere must be done, or the Run reads stale data (an error here)."""
    run = DeviceRun(session(double_chain()), [50])
    for stream in (LEGACY, probe.stream()):
        run()
        probe.synchronize_device()
        probe.produce(stream, run.x, 1.0, run.count)
        assert "unordered access" in error_of(run)
        probe.synchronize(stream)
        run()
        probe.synchronize_device()
        np.testing.assert_array_equal(probe.read(stream, run.y, run.count), np.full(run.count, 16, np.float32))
    run.close()


def check_bad_streams_are_refused_before_the_session_exists() -> None:
    """Another device's, one that does not exist, and options that contradict each other."""
    stream = probe.stream()
    cases = [
        ({"user_compute_stream": str(probe.stream(1))}, "CUDA ordinal 1"),
        ({"user_compute_stream": "64"}, "user_compute_stream"),
        ({"user_compute_stream": "2"}, "per-thread"),
        ({"user_compute_stream": "0xzz"}, "user_compute_stream='0xzz'"),
        ({"has_user_compute_stream": "1"}, "user_compute_stream is not"),
        ({"user_compute_stream": str(stream), "has_user_compute_stream": "0"}, "contradict"),
        ({"user_compute_stream": str(stream), "order_with_legacy_stream": "1"}, "contradict"),
    ]
    for options, expected in cases:
        text = error_of(lambda options=options: session(double_chain(), options))
        assert expected in text, text
    assert session(double_chain(), {"user_compute_stream": str(stream)})


def check_the_unified_stream_is_the_only_one() -> None:
    """use_ep_level_unified_stream: Runs of any thread and every node share one stream, and wait for their turn."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a1", "a2", "join"], ["b1", "b2"]])}
        created = session(two_branches(), {"use_ep_level_unified_stream": "1"}, entries=entries)
        x = np.arange(10, dtype=np.float32)
        np.testing.assert_array_equal(created.run(None, {"x": x})[0], 8 * x)
        probe.refuse_streams(True)
        try:
            in_threads(4, lambda _: np.testing.assert_array_equal(created.run(None, {"x": x})[0], 8 * x))
            other = session(two_branches())
            assert "no more streams" in error_of(lambda: other.run(None, {"x": x}))
        finally:
            probe.refuse_streams(False)


def check_copies_use_the_stream_that_the_option_names() -> None:
    """do_copy_in_default_stream=0 gives them one of their own, ordered by events; the numbers are the same."""
    x = np.random.default_rng(5).standard_normal((4, 3, 3), dtype=np.float32)
    results, events = [], []
    for value in ("1", "0"):
        created = session(through_the_cpu(), {"do_copy_in_default_stream": value}, cpu_allowed=True)
        created.run(None, {"x": x})
        before = probe.counters()
        for _ in range(5):
            results.append(created.run(None, {"x": x})[0])
        spent = probe.counters() - before
        events.append(spent["event_records"])
        assert spent["host_to_device"] >= 5 and spent["device_to_host"] >= 5, spent.values
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], np.linalg.det(2 * x.astype(np.float64)) ** 2, rtol=1e-3)
    assert events[1] >= events[0] + 2 * 2 * 5, f"event records {events}: the copies have no stream of their own"


def in_threads(count: int, work: Callable[[int], object]) -> None:
    errors: list[str] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(f"thread {index}: {error}")

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[:3]


def check_concurrent_runs_of_mixed_shapes_agree_with_serial_ones() -> None:
    """32 threads over one session with scratch memory, bit by bit; also where Runs take turns on one stream."""
    stream = probe.stream()
    model = models.mixer()
    inputs = [np.random.default_rng(i).standard_normal((1 + i % 5, 8, 32), dtype=np.float32) for i in range(15)]
    expected = [session(model).run(None, {"x": x})[0] for x in inputs]
    for options in ({}, {"user_compute_stream": str(stream)}, {"use_ep_level_unified_stream": "1"}):
        shared = session(model, options)
        end = time.monotonic() + 4

        def work(index: int, shared: ort.InferenceSession = shared, end: float = end) -> None:
            generator = np.random.default_rng(index)
            while True:
                choice = int(generator.integers(len(inputs)))
                (found,) = shared.run(None, {"x": inputs[choice]})
                assert found.tobytes() == expected[choice].tobytes(), f"other bits for input {choice}"
                if time.monotonic() > end:
                    return

        in_threads(32, work)


def check_a_users_stream_and_the_callers_allocator_go_together() -> None:
    """Blocks come and go with the stream's own order: no synchronisation in a steady Run."""
    stream = probe.stream()
    pointers: set[int] = set()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
    def alloc(size: int) -> int:
        pointer = probe.malloc((size + 3) // 4)
        pointers.add(pointer)
        return pointer

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def free(pointer: int) -> None:
        pointers.discard(pointer)  # and no more: a caching allocator keeps the memory

    options = {
        "gpu_external_alloc": str(ctypes.cast(alloc, ctypes.c_void_p).value),
        "gpu_external_free": str(ctypes.cast(free, ctypes.c_void_p).value),
        "user_compute_stream": str(stream),
    }
    run = DeviceRun(session(models.product_chain(3, WIDTH), options), [5, WIDTH])
    spent = steady(run)
    waits = spent.waits()
    run.close()
    del run
    gc.collect()
    assert not pointers, f"{len(pointers)} blocks were not given back"
    if waits and HOST < (1, 29):
        raise SkippedError(f"host {ort.__version__} names no stream for some memory, so that its blocks wait: {waits}")
    assert not waits, waits
    assert spent["event_waits"] == 0, spent.values


def check_the_options_are_in_the_sessions_log() -> None:
    """The text that says what is in force names the switches and their values."""
    read, write = os.pipe()
    saved = os.dup(2)
    os.dup2(write, 2)
    try:
        settings = ort.SessionOptions()
        settings.log_severity_level = 1
        ort.set_default_logger_severity(1)
        settings.add_provider_for_devices(devices()[:1], {"use_tf32": "0", "deterministic_compute": "1"})
        ort.InferenceSession(double_chain(), settings)
    finally:
        ort.set_default_logger_severity(2)
        os.dup2(saved, 2)
        os.close(saved)
        os.close(write)
    with os.fdopen(read, errors="replace") as stream:
        text = stream.read()
    for entry in ("use_tf32=0", "deterministic_compute=1", "order_with_legacy_stream=0", "enable_cudnn=1"):
        assert entry in text, text[-3000:]


def check_cudnn_off_uses_other_kernels_for_the_same_numbers() -> None:
    """enable_cudnn=0: convolutions run by the project's kernels and a product."""
    x = {"x": np.random.default_rng(8).standard_normal((1, 16, 20, 20), dtype=np.float32)}
    launches, results = [], []
    for value in ("1", "0"):
        created = session(models.convolution(16), {"enable_cudnn": value})
        created.run(None, x)
        before = probe.counters()
        results.append(created.run(None, x)[0])
        launches.append((probe.counters() - before)["launches"])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
    assert launches[0] == 0 and launches[1] > 0, launches


def check_deterministic_runs_have_the_same_bits() -> None:
    """Whatever thread, memory limit or search mode: the plan is the same."""
    x = {"x": np.random.default_rng(4).standard_normal((2, 3, 40, 40), dtype=np.float32)}
    expected = session(models.residual_network(), {"deterministic_compute": "1"}).run(None, x)[0].tobytes()
    for more in ({"gpu_mem_limit": "30000000"}, {"cudnn_conv_algo_search": "EXHAUSTIVE"}):
        created = session(models.residual_network(), {"deterministic_compute": "1", **more})

        def work(_: int, created: ort.InferenceSession = created) -> None:
            for _ in range(5):
                assert created.run(None, x)[0].tobytes() == expected

        in_threads(8, work)


if __name__ == "__main__":
    assert EP and onnx
    os.environ["CUDAEP_SIM_DEVICES"] = "2"
    probe = Probe(sys.argv[1])
    run_checks(globals())
