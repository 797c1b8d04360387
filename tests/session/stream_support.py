"""What the suites about streams share: the test build of the plug-in, Runs on its memory, models and threads.

Suites run as child processes on that build (tests/session/probe), whose simulated device runs an operation only when
something waits for it: a producer that nobody waited for is infinitely slow here, and memory that two streams use
without an order between them is an error of the Run.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.capi import _pybind_state

from tests.session import models
from tests.session.session_probe import Counters, Probe

LEGACY = 0
WIDTH = 64
HOST = tuple(int(part) for part in ort.__version__.split(".")[:2])
NO_WAIT = "disable_synchronize_execution_providers"


@functools.cache
def probe() -> Probe:
    """The library of the command line, which the host has loaded too."""
    return Probe(sys.argv[1])


def without_waiting() -> ort.RunOptions:
    options = ort.RunOptions()
    options.add_run_config_entry(NO_WAIT, "1")
    return options


class DeviceRun:
    """Runs of a session with one input and one output on buffers of the application's in device memory."""

    def __init__(self, created: ort.InferenceSession, shape: list[int]) -> None:
        self.session, self.shape = created, shape
        self.count = int(np.prod(shape))
        self.x, self.y = probe().malloc(self.count), probe().malloc(self.count)
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
        before = probe().counters()
        for _ in range(runs):
            self()
        return probe().counters() - before

    def close(self) -> None:
        probe().synchronize_device()
        probe().free(self.x)
        probe().free(self.y)


def double_chain(length: int = 4, *inner: int) -> bytes:
    """y = 2 ** length * x, one Add after the other, of tensors [n, *inner]."""
    nodes = [helper.make_node("Add", [f"v{i}"] * 2, [f"v{i + 1}"], name=f"add{i}") for i in range(length)]
    vector = (TensorProto.FLOAT, ["n", *inner])
    return models.model(nodes, {"v0": vector}, {f"v{length}": vector})


def two_branches() -> bytes:
    """Two independent chains from one input, joined at the end: y = 8 * x."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a1"], name="a1"),
        helper.make_node("Add", ["a1", "a1"], ["a2"], name="a2"),
        helper.make_node("Mul", ["x", "two"], ["b1"], name="b1"),
        helper.make_node("Mul", ["b1", "two"], ["b2"], name="b2"),
        helper.make_node("Add", ["a2", "b2"], ["y"], name="join"),
    ]
    vector = (TensorProto.FLOAT, ["n"])
    return models.model(nodes, {"x": vector}, {"y": vector}, {"two": np.full(1, 2, np.float32)})


def through_the_cpu() -> bytes:
    """Ours, an operator that only the CPU has, and ours again: a copy in each direction."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["before"], name="before"),
        helper.make_node(
            "Scaler", ["before"], ["scaled"], "on_the_cpu", domain="ai.onnx.ml", offset=[1.0], scale=[2.0]
        ),
        helper.make_node("Mul", ["scaled", "scaled"], ["y"], name="after"),
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", 3])
    return models.model(nodes, {"x": rows}, {"y": rows})


def steady(run: DeviceRun) -> Counters:
    """The cost of ten Runs once plans, streams and memory are there."""
    for _ in range(3):
        run()
    probe().synchronize_device()
    return run.spent_by(10)


def partition(folder: str, streams: list[list[str]]) -> str:
    """The host's file that puts nodes on streams."""
    path = Path(folder) / "partition.json"
    path.write_text(json.dumps({"type": "DeviceBasedPartitioner", "streams": streams, "devices": ["1"] * len(streams)}))
    return str(path)


def ordered_loops(run: DeviceRun, stream: int) -> None:
    run()  # plans and streams
    probe().synchronize_device()
    for i in range(1000):
        before = probe().counters()
        probe().produce(stream, run.x, float(i), run.count)
        run()
        spent = probe().counters() - before
        assert not spent.waits(), spent.waits()
        assert spent["event_waits"] == 0, spent.values
        found = probe().read(stream, run.y, run.count)
        np.testing.assert_array_equal(found, np.full(run.count, 16 * i, np.float32))
    run.close()


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
