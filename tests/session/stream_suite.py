"""Whose work waits for whose, on every supported host: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.stream_suite PROBE

PROBE is the test build of the plug-in; stream_support.py says what it shows. Several caller streams over one session
need the C API: tests/session/test_stream_host.py has them.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

from tests.session import models
from tests.session.control_flow_cases import Case
from tests.session.stream_support import (
    HOST,
    LEGACY,
    WIDTH,
    DeviceRun,
    double_chain,
    in_threads,
    ordered_loops,
    partition,
    probe,
    steady,
    two_branches,
)
from tests.session.suite import SkippedError, error_of, run_checks, session


def check_an_asynchronous_run_neither_waits_nor_allocates() -> None:
    """No synchronisation and no driver allocation in a steady Run; its work is still queued when it returns."""
    cases = ((double_chain(), [1000]), (models.product_chain(3, WIDTH), [7, WIDTH]))
    for (model, shape), regions in itertools.product(cases, "01"):
        run = DeviceRun(session(model, {"compiled_regions": regions}), shape)
        spent = steady(run)
        assert not spent.waits(), spent.waits()
        assert not spent.driver_calls(), spent.driver_calls()
        assert spent["launches"] + spent["host_work"] >= (30 if regions == "0" else 1), spent.values
        probe().synchronize_device()
        probe().produce(LEGACY, run.x, 1.0, run.count)
        probe().produce(LEGACY, run.y, -1.0, run.count)
        probe().synchronize(LEGACY)
        run()
        assert probe().peek(run.y) == -1, "the work was done before anybody asked for it"
        probe().synchronize_device()
        assert probe().peek(run.y) != -1
        run.close()


def check_a_run_waits_for_its_own_stream_alone() -> None:
    """Without that option a Run waits once, for its own stream; other work of the application is not waited for."""
    elsewhere = probe().stream()
    pointer = probe().malloc(1)
    probe().produce(elsewhere, pointer, 1.0, 1)
    probe().synchronize(elsewhere)
    x = np.arange(6, dtype=np.float32)
    chain = session(double_chain())
    chain.run(None, {"v0": x})
    probe().produce(elsewhere, pointer, 2.0, 1)
    before = probe().counters()
    np.testing.assert_array_equal(chain.run(None, {"v0": x})[0], 16 * x)
    spent = probe().counters() - before
    assert spent["device_syncs"] == 0, spent.values
    assert probe().peek(pointer) == 1, "the Run waited for another stream"
    probe().synchronize(elsewhere)
    probe().free(pointer)
    probe().destroy_stream(elsewhere)


def check_several_streams_in_one_graph_do_not_wait_either() -> None:
    """Nodes on two streams, ordered by events alone."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a1", "a2", "join"], ["b1", "b2"]])}
        run = DeviceRun(session(two_branches(), entries=entries), [100])
        spent = steady(run)
        assert spent["event_waits"] >= 10, f"the graph has one stream only: {spent.values}"
        assert not spent.waits(), spent.waits()
        assert not spent.driver_calls(), spent.driver_calls()
        probe().synchronize_device()
        probe().produce(LEGACY, run.x, 3.0, run.count)
        probe().synchronize(LEGACY)
        run()
        probe().synchronize_device()
        np.testing.assert_array_equal(probe().read(LEGACY, run.y, run.count), np.full(run.count, 24, np.float32))
        run.close()


def check_inputs_in_host_memory_reach_nodes_on_several_streams() -> None:
    """They are copied on one of the streams, and the nodes that read them are on two."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a1", "a2", "join"], ["b1", "b2"]])}
        created = session(two_branches(), entries=entries)
        for i in range(3):
            x = np.arange(100, dtype=np.float32) + i
            np.testing.assert_array_equal(created.run(None, {"x": x})[0], 8 * x)


def check_what_a_loop_ends_with_is_copied_in_order_from_any_thread() -> None:
    """Nodes of one stream run on a thread of the host's; older hosts copy a Loop's results outside any stream."""
    graph = """(float[n] x) => (float[n] y) {
      two = Constant <value_int = 2> ()  one = Constant <value_int = 1> ()  go = Cast <to = 9> (one)
      a = Mul(x, x)
      start = Add(x, x)
      b = Loop (two, go, start) <body = l (int64 i, bool before, float[n] v) => (bool after, float[n] w) {
        after = Identity(before)  w = Add(v, v)
      }>
      c = Add(b, b)
      y = Add(a, c)
    }"""
    model = onnx.load_from_string(Case(graph, []).model())
    for node in model.graph.node:
        node.name = node.output[0]
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a", "y"], ["start", "b", "c"]])}
        created = session(model.SerializeToString(), cpu_allowed=True, entries=entries, parallel=True)
        for i in range(5):
            x = np.arange(1000, dtype=np.float32) + i
            np.testing.assert_array_equal(created.run(None, {"x": x})[0], x * x + 16 * x)


def check_one_thread_may_bind_and_another_run() -> None:
    """Some hosts copy an input when it is bound, on a stream of the thread that binds it."""
    created = session(double_chain())
    created.run(None, {"v0": np.ones(7, np.float32)})
    binding = created.io_binding()
    results: list[np.ndarray] = []

    def work(_: int) -> None:
        created.run_with_iobinding(binding)
        results.append(binding.copy_outputs_to_cpu()[0])

    for value in (1, 2, 3):
        binding.bind_cpu_input("v0", np.full(7, value, np.float32))
        binding.bind_output("v4")
        in_threads(1, work)
        np.testing.assert_array_equal(results.pop(), np.full(7, 16 * value, np.float32))


def check_a_users_stream_carries_everything() -> None:
    """Wrapped, never owned: no work elsewhere, no synchronisation, alive afterwards; stream 0 is one too."""
    own, blocking = probe().stream(), probe().stream(blocking=True)
    for stream in (own, blocking, LEGACY):
        for model, shape in ((double_chain(), [100]), (models.product_chain(3, WIDTH), [5, WIDTH])):
            created = session(model, {"user_compute_stream": str(stream), "has_user_compute_stream": "1"})
            run = DeviceRun(created, shape)
            if stream != LEGACY:
                probe().restrict(stream)
            try:
                spent = steady(run)
            finally:
                probe().restrict(None)
            assert not spent.waits() and not spent.driver_calls(), spent.values
            assert spent["event_waits"] == 0, spent.values
            run.close()
            del run, created
            gc.collect()
    for stream in (own, blocking):
        probe().synchronize(stream)
        probe().destroy_stream(stream)


def check_waiting_for_a_binding_waits_for_the_users_stream_alone() -> None:
    """`synchronize_outputs`, from host 1.25 on, does not wait for other work on the device."""
    stream, elsewhere = probe().stream(), probe().stream()
    other = probe().malloc(1)
    run = DeviceRun(session(double_chain(), {"user_compute_stream": str(stream)}), [10])
    probe().produce(stream, run.x, 1.0, run.count)
    probe().produce(elsewhere, other, 1.0, 1)
    run()
    before = probe().counters()
    run.wait()
    spent = probe().counters() - before
    if HOST < (1, 25):
        assert not spent.waits(), spent.values
        raise SkippedError(f"host {ort.__version__} does not ask the provider to wait")
    assert spent["stream_syncs"] >= 1 and spent["device_syncs"] == 0, spent.values
    assert probe().peek(run.y) == 16 and probe().peek(other) != 1
    probe().synchronize(elsewhere)
    run.close()


def check_a_slow_producer_on_the_users_stream_is_waited_for() -> None:
    """1,000 loops of produce, Run, consume on one stream of the caller's: no stale input, no synchronisation."""
    stream = probe().stream()
    run = DeviceRun(session(double_chain(), {"user_compute_stream": str(stream)}), [50])
    ordered_loops(run, stream)
    probe().destroy_stream(stream)


def check_a_producer_on_the_legacy_stream_is_waited_for_with_the_option() -> None:
    """The same without a user's stream: order_with_legacy_stream orders both ways, and no stream waits for an event."""
    ordered_loops(DeviceRun(session(double_chain(), {"order_with_legacy_stream": "1"}), [50]), LEGACY)


def check_without_either_the_caller_waits() -> None:
    """The documented rule: a producer elsewhere must be done, or the Run reads stale data (an error here)."""
    run = DeviceRun(session(double_chain()), [50])
    for stream in (LEGACY, probe().stream()):
        run()
        probe().synchronize_device()
        probe().produce(stream, run.x, 1.0, run.count)
        assert "unordered access" in error_of(run)
        probe().synchronize(stream)
        run()
        probe().synchronize_device()
        np.testing.assert_array_equal(probe().read(stream, run.y, run.count), np.full(run.count, 16, np.float32))
    run.close()


def check_bad_streams_are_refused_before_the_session_exists() -> None:
    """Another device's, one that does not exist, and options that contradict each other."""
    stream = probe().stream()
    cases = [
        ({"user_compute_stream": str(probe().stream(1))}, "CUDA ordinal 1"),
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


def check_a_users_stream_and_the_callers_allocator_go_together() -> None:
    """Blocks come and go with the stream's own order: no synchronisation in a steady Run."""
    stream = probe().stream()
    pointers: set[int] = set()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
    def alloc(size: int) -> int:
        pointer = probe().malloc((size + 3) // 4)
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


if __name__ == "__main__":
    run_checks(globals())
