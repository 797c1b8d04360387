"""Streams and threads on a real GPU: `python -m tests.gpu.stream_suite LIBRARY`, one JSON line a check.

PyTorch is the application beside the session: producers and consumers on its streams, and the events that tell whether
work is still queued. `stream_suite LIBRARY --bits` prints a hash of one deterministic result, for comparing processes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper
from onnxruntime.capi import _pybind_state

from bench import throughput
from tests.gpu.memory_suite import open_session, report
from tests.session import models
from tests.session.stream_support import in_threads
from tests.session.suite import EP, run_checks

NO_WAIT = "disable_synchronize_execution_providers"
# What the producers of these checks take at least; far longer than a launch.
SLOW_MS = 1.0


def sleep(milliseconds: float) -> None:
    """Keeps PyTorch's current stream busy; the clock runs at 1 to 2 GHz."""
    torch.cuda._sleep(int(milliseconds * 2e6))


class DeviceRun:
    """Runs of a session with one input and one output on tensors of PyTorch's."""

    def __init__(self, session: ort.InferenceSession, shape: list[int], wait: bool = False) -> None:
        self.x, self.y = torch.zeros(shape, device="cuda"), torch.zeros(shape, device="cuda")
        torch.cuda.synchronize()
        self._session, self._options = session, ort.RunOptions()
        if not wait:
            self._options.add_run_config_entry(NO_WAIT, "1")
        self._binding = session.io_binding()
        place = _pybind_state.OrtDevice(1, 0, 0x10DE, 0)  # GPU, default memory, NVIDIA, ordinal 0
        names = session.get_inputs()[0].name, session.get_outputs()[0].name
        self._binding._iobinding.bind_input(names[0], place, np.float32, shape, self.x.data_ptr())
        self._binding._iobinding.bind_output(names[1], place, np.float32, shape, self.y.data_ptr())

    def __call__(self) -> None:
        self._session.run_with_iobinding(self._binding, self._options)


def identity_chain() -> bytes:
    """y = x through products with the identity, exact in every precision for small whole numbers."""
    nodes = [helper.make_node("MatMul", [f"v{i}", "eye"], [f"v{i + 1}"], name=f"product{i}") for i in range(3)]
    rows = (TensorProto.FLOAT, ["n", 256])
    return models.model(nodes, {"v0": rows}, {"v3": rows}, {"eye": np.eye(256, dtype=np.float32)})


def check_concurrent_runs_are_bit_equal_to_serial_ones() -> None:
    """32 threads, 10,000 Runs each over one session, shapes drawn anew for each Run."""
    session = open_session(models.mixer())
    inputs = [np.random.default_rng(i).standard_normal((1 + i % 24, 8, 32), dtype=np.float32) for i in range(100)]
    expected = [session.run(None, {"x": x})[0].tobytes() for x in inputs]
    begin = time.monotonic()

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for choice in generator.integers(len(inputs), size=10000):
            (found,) = session.run(None, {"x": inputs[choice]})
            assert found.tobytes() == expected[choice], f"seed {seed}, input {choice}: other bits"

    in_threads(32, work)
    seconds = time.monotonic() - begin
    report(seconds=seconds, runs_per_second=320000 / seconds)


def check_throughput_grows_with_threads() -> None:
    """From C++: small models give four times one thread's Runs with 16, or what saturates the driver.

    Which of the two is seen from bare launches in the same process (bench/throughput.py); both kinds of streams.
    """
    program = throughput.program_beside(sys.argv[1])
    shortfalls = []
    for name, model, bare in throughput.MODELS:
        arguments = ["--threads", "1,4,16", "--seconds", "3", "--bare", bare]
        measured = throughput.measure(program, sys.argv[1], model, arguments)
        for kind in ("bare", "hosts", "callers"):
            rates = throughput.rates(measured, kind)
            numbers = {f"runs_per_second_{threads}": rate for threads, rate in rates.items()}
            print(f"{name}, {kind}:", end=" ")
            report(**numbers, ratio=rates[16] / rates[1])
        for kind in ("hosts", "callers"):
            text = throughput.shortfall(measured, kind)
            shortfalls += [f"{name}, {kind}: {text}"] if text else []
    assert not shortfalls, shortfalls


def loops(run: DeviceRun, stream: torch.cuda.Stream) -> None:
    """1,000 times a slow producer, a Run and a consumer on one stream of PyTorch's, and not one wait between them."""
    found = torch.zeros(1000, device="cuda")
    run()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for i in range(1000):
            sleep(SLOW_MS)
            run.x.fill_(float(i))
            run()
            found[i] = run.y[0, 0]
    torch.cuda.synchronize()
    stale = int((found != torch.arange(1000, device="cuda", dtype=torch.float32)).sum())
    report(stale=stale)
    assert stale == 0, f"{stale} of 1,000 Runs saw another input: {found[:10].tolist()}"


def check_a_slow_producer_on_the_users_stream_is_waited_for() -> None:
    """Producer, session and consumer share a stream."""
    stream = torch.cuda.Stream()
    session = open_session(identity_chain(), {"user_compute_stream": str(stream.cuda_stream)})
    loops(DeviceRun(session, [64, 256]), stream)


def check_a_slow_producer_on_stream_zero_is_waited_for() -> None:
    """The same with the legacy default stream as the user's."""
    session = open_session(identity_chain(), {"user_compute_stream": "0"})
    loops(DeviceRun(session, [64, 256]), torch.cuda.default_stream())


def check_a_slow_producer_on_the_legacy_stream_is_waited_for_with_the_option() -> None:
    """The session has a stream of its own, which order_with_legacy_stream orders with PyTorch's default stream."""
    session = open_session(identity_chain(), {"order_with_legacy_stream": "1"})
    assert torch.cuda.default_stream().cuda_stream == 0
    loops(DeviceRun(session, [64, 256]), torch.cuda.default_stream())


def check_without_the_option_nothing_is_waited_for() -> None:
    """The documented rule, and the proof that the checks above can fail: a Run goes ahead of a busy default stream."""
    run = DeviceRun(open_session(identity_chain()), [64, 256], wait=True)
    run.x.fill_(7.0)
    torch.cuda.synchronize()
    run()
    sleep(200)
    run.x.fill_(9.0)
    done = torch.cuda.Event()
    done.record()
    begin = time.monotonic()
    run()
    elapsed = time.monotonic() - begin
    busy = not done.query()
    torch.cuda.synchronize()
    report(run_ms=1000 * elapsed, producer_was_busy=float(busy), value=float(run.y[0, 0]))
    assert busy, "the Run waited for work that it was not told of"
    assert float(run.y[0, 0]) == 7.0, "stale data was expected here"


def check_a_run_returns_before_its_work_is_done() -> None:
    """IO binding and no synchronisation at the end: on a user's stream, and on the session's own behind the default."""
    stream = torch.cuda.Stream()
    for options, current in (
        ({"user_compute_stream": str(stream.cuda_stream)}, stream),
        ({"order_with_legacy_stream": "1"}, torch.cuda.default_stream()),
    ):
        run = DeviceRun(open_session(identity_chain(), options), [64, 256])
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        done = torch.cuda.Event()
        with torch.cuda.stream(current):
            sleep(200)
            begin = time.monotonic()
            for _ in range(10):
                run()
            elapsed = time.monotonic() - begin
            done.record()
        pending = not done.query()
        torch.cuda.synchronize()
        report(ten_runs_ms=1000 * elapsed, pending=float(pending))
        assert pending, "the work was done when Run returned"
        assert elapsed < 0.1, f"ten Runs took {elapsed} s behind a busy stream"


def check_copies_on_a_stream_of_their_own_give_the_same_numbers() -> None:
    """do_copy_in_default_stream=0 with inputs and outputs on the host, eight threads."""
    x = {"x": np.random.default_rng(3).standard_normal((4, 3, 64, 64), dtype=np.float32)}
    (expected,) = open_session(models.residual_network()).run(None, x)
    session = open_session(models.residual_network(), {"do_copy_in_default_stream": "0"})

    def work(_: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(session.run(None, x)[0], expected)

    in_threads(8, work)


def check_the_unified_stream_serves_all_threads() -> None:
    """use_ep_level_unified_stream: Runs take turns, numbers stay."""
    x = {"x": np.random.default_rng(4).standard_normal((3, 8, 32), dtype=np.float32)}
    session = open_session(models.mixer(), {"use_ep_level_unified_stream": "1"})
    (expected,) = session.run(None, x)

    def work(_: int) -> None:
        for _ in range(200):
            np.testing.assert_array_equal(session.run(None, x)[0], expected)

    in_threads(16, work)


def deterministic_inputs() -> list[tuple[bytes, dict[str, np.ndarray]]]:
    rng = np.random.default_rng(5)
    return [
        (models.residual_network(), {"x": rng.standard_normal((4, 3, 96, 96), dtype=np.float32)}),
        (models.mixer(4, 128, 64), {"x": rng.standard_normal((8, 64, 128), dtype=np.float32)}),
        (models.convolution(64, True), {"x": rng.standard_normal((2, 64, 48, 48), dtype=np.float32)}),
        # A product with a long inner size and a small result, where libraries split sums.
        (models.product_chain(1, 4096), {"v0": rng.standard_normal((3, 4096), dtype=np.float32)}),
    ]


def deterministic_bits() -> str:
    """One hash of the results of all models, each in a session of its own."""
    digest = hashlib.sha256()
    for model, feeds in deterministic_inputs():
        digest.update(open_session(model, {"deterministic_compute": "1"}).run(None, feeds)[0].tobytes())
    return digest.hexdigest()


def check_deterministic_runs_have_the_same_bits() -> None:
    """1,000 Runs over 8 threads, with timed plan choice asked for; and two more processes."""
    options = {"deterministic_compute": "1", "cudnn_conv_algo_search": "EXHAUSTIVE"}
    for model, feeds in deterministic_inputs():
        session = open_session(model, options)
        expected = session.run(None, feeds)[0].tobytes()

        def work(
            _: int,
            session: ort.InferenceSession = session,
            feeds: dict[str, np.ndarray] = feeds,
            expected: bytes = expected,
        ) -> None:
            for _ in range(125):
                assert session.run(None, feeds)[0].tobytes() == expected, "other bits"

        in_threads(8, work)
    own = deterministic_bits()
    for _ in range(2):
        command = [sys.executable, "-m", "tests.gpu.stream_suite", sys.argv[1], "--bits"]
        child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        assert child.stdout.split()[-1] == own, "another process has other bits"


def check_tf32_is_one_switch() -> None:
    """use_tf32=0 gives fp32 accuracy to products and convolutions; 1 stays within TF32's."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((256, 2048), dtype=np.float32)
    image = rng.standard_normal((2, 64, 32, 32), dtype=np.float32)
    cpu = ort.SessionOptions()
    for model, feeds in ((models.product_chain(1, 2048), {"v0": x}), (models.convolution(64), {"x": image})):
        exact = ort.InferenceSession(model, cpu, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        scale = float(np.abs(exact).max())
        errors = {}
        for value in ("0", "1"):
            (found,) = open_session(model, {"use_tf32": value}).run(None, feeds)
            errors[value] = float(np.abs(found - exact).max()) / scale
        report(error_fp32=1e6 * errors["0"], error_tf32=1e6 * errors["1"])
        assert errors["0"] < 1e-5, errors
        assert errors["1"] < 5e-3, errors


if __name__ == "__main__":
    assert EP
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    if "--bits" in sys.argv:
        ort.register_execution_provider_library(EP, sys.argv[1])
        print(deterministic_bits())
    else:
        run_checks(globals())
