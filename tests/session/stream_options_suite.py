"""What options do to streams, and many threads over one session: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.stream_options_suite PROBE

PROBE is the test build of the plug-in; stream_support.py says what it shows.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import onnxruntime as ort

from tests.session import models
from tests.session.stream_support import double_chain, in_threads, partition, probe, through_the_cpu, two_branches
from tests.session.suite import add_provider, error_of, on_one_host, run_checks, session, simulated


def check_the_unified_stream_is_the_only_one() -> None:
    """use_ep_level_unified_stream: Runs of any thread and every node share one stream, and wait for their turn."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"session.node_partition_config_file": partition(folder, [["a1", "a2", "join"], ["b1", "b2"]])}
        created = session(two_branches(), {"use_ep_level_unified_stream": "1"}, entries=entries)
        x = np.arange(10, dtype=np.float32)
        np.testing.assert_array_equal(created.run(None, {"x": x})[0], 8 * x)
        probe().refuse_streams(True)
        try:
            in_threads(4, lambda _: np.testing.assert_array_equal(created.run(None, {"x": x})[0], 8 * x))
            assert "no more streams" in error_of(lambda: session(two_branches()).run(None, {"x": x}))
        finally:
            probe().refuse_streams(False)


def check_copies_use_the_stream_that_the_option_names() -> None:
    """do_copy_in_default_stream=0 gives them one of their own, ordered by events; the numbers are the same."""
    x = np.random.default_rng(5).standard_normal((4, 3), dtype=np.float32)
    results, events = [], []
    for value in ("1", "0"):
        created = session(through_the_cpu(), {"do_copy_in_default_stream": value}, cpu_allowed=True)
        created.run(None, {"x": x})
        before = probe().counters()
        for _ in range(5):
            results.append(created.run(None, {"x": x})[0])
        spent = probe().counters() - before
        events.append(spent["event_records"])
        assert spent["host_to_device"] >= 5 and spent["device_to_host"] >= 5, spent.values
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], (2 * (2 * x - 1)) ** 2, rtol=1e-5)
    assert events[1] >= events[0] + 2 * 2 * 5, f"event records {events}: the copies have no stream of their own"


@on_one_host
def check_concurrent_runs_of_mixed_shapes_agree_with_serial_ones() -> None:
    """32 threads over one session with scratch memory, bit by bit; also where Runs take turns on one stream.

    Every thread meets every shape, in an order of its own.
    """
    stream = probe().stream()
    model = models.mixer()
    inputs = [np.random.default_rng(i).standard_normal((1 + i % 5, 8, 32), dtype=np.float32) for i in range(15)]
    expected = [session(model).run(None, {"x": x})[0] for x in inputs]
    for options in ({}, {"user_compute_stream": str(stream)}, {"use_ep_level_unified_stream": "1"}):
        shared = session(model, options)

        def work(index: int, shared: ort.InferenceSession = shared) -> None:
            generator = np.random.default_rng(index)
            for choice in [choice for _ in range(2) for choice in generator.permutation(len(inputs))]:
                (found,) = shared.run(None, {"x": inputs[choice]})
                assert found.tobytes() == expected[choice].tobytes(), f"other bits for input {choice}"

        in_threads(32, work)


def check_the_options_are_in_the_sessions_log() -> None:
    """The text that says what is in force names the switches and their values."""
    read, write = os.pipe()
    saved = os.dup(2)
    os.dup2(write, 2)
    try:
        settings = ort.SessionOptions()
        settings.log_severity_level = 1
        ort.set_default_logger_severity(1)
        add_provider(settings, {"use_tf32": "0", "deterministic_compute": "1"})
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
        before = probe().counters()
        results.append(created.run(None, x)[0])
        launches.append((probe().counters() - before)["launches"])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
    assert launches[0] == 0 and launches[1] > 0, launches


def check_deterministic_runs_have_the_same_bits() -> None:
    """Whatever thread, memory limit or search mode: the plan is the same."""
    x = {"x": np.random.default_rng(4).standard_normal((2, 3, 40, 40), dtype=np.float32)}
    expected = session(models.residual_network(), {"deterministic_compute": "1"}).run(None, x)[0].tobytes()
    limit = (30 if simulated() else 300) * 10**6  # of which NVIDIA's libraries take some 10 MB a thread
    for more in ({"gpu_mem_limit": str(limit)}, {"cudnn_conv_algo_search": "EXHAUSTIVE"}):
        created = session(models.residual_network(), {"deterministic_compute": "1", **more})

        def work(_: int, created: ort.InferenceSession = created) -> None:
            for _ in range(5):
                assert created.run(None, x)[0].tobytes() == expected

        in_threads(8, work)


if __name__ == "__main__":
    run_checks(globals())
