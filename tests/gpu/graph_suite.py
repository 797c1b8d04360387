"""CUDA graphs on a real GPU: `python -m tests.gpu.graph_suite LIBRARY`, one JSON line a check.

PyTorch is the application beside the session, whose calls CUDA might answer by ending a capture. What holds on the
simulated device too is in tests/session/graph_suite.py and tests/models/test_graphs.py, which runs on both.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime.capi import _pybind_state

from tests.gpu.memory_suite import open_session, report
from tests.gpu.stream_suite import NO_WAIT, SLOW_MS, sleep
from tests.session import models
from tests.session.stream_support import in_threads
from tests.session.suite import error_of, run_checks

GRAPHS = {"enable_cuda_graph": "1"}
SHAPE = [4, 8, 32]
Shape = list[int]


class Bound:
    """Runs of a session under one id on tensors of PyTorch's."""

    def __init__(self, session: ort.InferenceSession, shape: Shape, graph: int, wait: bool = True) -> None:
        self.session = session
        x = np.zeros(shape, np.float32)
        self.x = torch.zeros(shape, device="cuda")
        self.y = torch.zeros(self.eager(x).shape, device="cuda")
        torch.cuda.current_stream().synchronize()  # others may be capturing
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", str(graph))
        if not wait:
            self._options.add_run_config_entry(NO_WAIT, "1")
        self._binding = session.io_binding()
        place = _pybind_state.OrtDevice(1, 0, 0x10DE, 0)  # GPU, default memory, NVIDIA, ordinal 0
        for bind, name, tensor in (
            (self._binding._iobinding.bind_input, session.get_inputs()[0].name, self.x),
            (self._binding._iobinding.bind_output, session.get_outputs()[0].name, self.y),
        ):
            bind(name, place, np.float32, list(tensor.shape), tensor.data_ptr())

    def eager(self, x: np.ndarray) -> np.ndarray:
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", "-1")
        return np.asarray(self.session.run(None, {self.session.get_inputs()[0].name: x}, options)[0])

    def run(self) -> None:
        self.session.run_with_iobinding(self._binding, self._options)

    def agrees(self, runs: int = 5) -> None:
        """Replays with other contents are bit-equal to ordinary Runs."""
        for seed in range(runs):
            x = np.random.default_rng(seed).standard_normal(tuple(self.x.shape), dtype=np.float32)
            self.x.copy_(torch.from_numpy(x))
            torch.cuda.current_stream().synchronize()
            self.run()
            torch.cuda.current_stream().synchronize()
            np.testing.assert_array_equal(self.y.cpu().numpy(), self.eager(x))


def check_models_are_captured_and_replayed() -> None:
    """Products, normalization, softmax; convolutions of the library's and our own."""
    for model, shape in ((models.mixer(), SHAPE), (models.residual_network(), [2, 3, 32, 32])):
        for options in ({}, {"prefer_nhwc": "1"}, {"cudnn_conv_algo_search": "EXHAUSTIVE"}):
            Bound(open_session(model, {**GRAPHS, **options}), shape, 0).agrees()


def check_a_chain_of_small_kernels_is_one_launch() -> None:
    """Time of a node of a thousand, replayed and run."""
    session = open_session(models.add_chain(1000, constant=True), GRAPHS)
    bound = Bound(session, [4], 0)
    times = {}
    plain = Bound(session, [4], -1)
    for name, one in (("replayed", bound), ("run", plain)):
        for _ in range(5):
            one.run()
        begin = time.perf_counter()
        for _ in range(50):
            one.run()
        times[name] = (time.perf_counter() - begin) / 50 * 1e3
    report(us_a_node_replayed=times["replayed"], us_a_node_run=times["run"])
    assert times["replayed"] < times["run"]


def check_threads_capture_and_replay_beside_each_other() -> None:
    """Eight ids on eight threads, ordinary Runs, and another session's captures between them."""
    sessions = [open_session(models.mixer(), GRAPHS), open_session(models.mixer(), GRAPHS)]

    def work(thread: int) -> None:
        for graph in range(4):
            Bound(sessions[thread % 2], [thread + 1, 8, 32], 10 * thread + graph).agrees(runs=3)

    in_threads(8, work)


def check_threads_take_turns_with_one_id() -> None:
    """All of them replay what one has bound."""
    bound = Bound(open_session(models.mixer(), GRAPHS), SHAPE, 3)
    in_threads(8, lambda _: [bound.run() for _ in range(50)])
    bound.agrees()


def check_another_threads_memory_and_waits_leave_captures_alone() -> None:
    """cudaMalloc, cudaFree, event queries and waits for streams are allowed on other threads meanwhile."""
    session = open_session(models.mixer(), {**GRAPHS, "cuda_graph_max_count": "1000"})
    ends = threading.Event()
    failures: list[str] = []

    def disturb() -> None:
        stream = torch.cuda.Stream()
        while not ends.is_set():
            try:
                with torch.cuda.stream(stream):
                    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
                    event = torch.cuda.Event()
                    event.record()
                    event.query()
                    stream.synchronize()
                del block
                torch.cuda.empty_cache()
            except RuntimeError as error:
                failures.append(str(error))
                return

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for graph in range(100):
            Bound(session, [graph + 1, 8, 32], graph).agrees(runs=2)
    finally:
        ends.set()
        thread.join()
    assert not failures, failures


def session_on(stream: torch.cuda.Stream) -> ort.InferenceSession:
    """y = x + 20, on a stream of PyTorch's."""
    options = {**GRAPHS, "user_compute_stream": str(stream.cuda_stream)}
    return open_session(models.add_chain(20, constant=True), options)


def check_a_stream_of_pytorchs_orders_replays() -> None:
    """A slow producer, a replay and a consumer on one stream, and nobody waits."""
    stream = torch.cuda.Stream()
    session = open_session(
        models.add_chain(20, constant=True), {**GRAPHS, "user_compute_stream": str(stream.cuda_stream)}
    )
    with torch.cuda.stream(stream):
        bound = Bound(session, [4], 0, wait=False)
        for i in range(100):
            sleep(SLOW_MS)
            bound.x.fill_(float(i))
            bound.run()
            found = bound.y.clone()
            if i == 50:
                assert not stream.query(), "somebody has waited"
            if i % 10 == 9:
                stream.synchronize()
                np.testing.assert_array_equal(found.cpu().numpy(), np.full(4, i + 20, np.float32))
    torch.cuda.synchronize()


def check_pytorch_captures_an_ordinary_run() -> None:
    """With gpu_graph_id=-1 a Run is part of PyTorch's graph; with another id it is refused and the capture goes on."""
    stream = torch.cuda.Stream()
    session = open_session(
        models.add_chain(20, constant=True), {**GRAPHS, "user_compute_stream": str(stream.cuda_stream)}
    )
    with torch.cuda.stream(stream):
        plain = Bound(session, [4], -1, wait=False)
        plain.run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            refused = error_of(_under(plain, 5).run)
            plain.run()
        assert "captured by the application" in refused, refused
        plain.x.fill_(3.0)
        graph.replay()
        stream.synchronize()
        np.testing.assert_array_equal(plain.y.cpu().numpy(), np.full(4, 23, np.float32))


def _under(bound: Bound, graph: int) -> Bound:
    """The same tensors under another id."""
    other = object.__new__(Bound)
    other.__dict__.update(bound.__dict__)
    other._options = ort.RunOptions()
    other._options.add_run_config_entry("gpu_graph_id", str(graph))
    return other


def check_released_graphs_give_memory_back() -> None:
    """The driver's free memory settles over a hundred captures."""
    session = open_session(models.product_chain(4), {**GRAPHS, "cuda_graph_max_count": "2"})
    free = []
    for i in range(100):
        bound = Bound(session, [4000 - i, 256], 1)
        bound.agrees(runs=1)
        session.release_captured_graph(1)
        del bound
        torch.cuda.empty_cache()
        free.append(torch.cuda.mem_get_info()[0])
    report(megabytes_lost=(free[20] - free[-1]) / 1e6)
    assert free[-1] >= free[20] - (64 << 20), free


if __name__ == "__main__":
    run_checks(globals())
