"""What the suites about CUDA graphs share: Runs under an id, on memory of the application's.

They run on the test build of the plug-in; stream_support.py says what it shows. Hosts before 1.26 have no hooks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session.stream_support import HOST, NO_WAIT, double_chain, probe
from tests.session.suite import SkippedError, session

GRAPHS = {"enable_cuda_graph": "1"}
FLOATS = TensorProto.FLOAT
DEVICE = ort.capi._pybind_state.OrtDevice(1, 0, 0x10DE, 0)
Check = TypeVar("Check", bound=Callable[[], None])


def with_graphs(check: Check) -> Check:
    """Skips a check on hosts without the hooks."""

    @functools.wraps(check)
    def guarded() -> None:
        if HOST < (1, 26):
            raise SkippedError("the host captures no graphs")
        check()

    return guarded  # type: ignore[return-value]


def run_options(graph: int | None, wait: bool = True) -> ort.RunOptions:
    options = ort.RunOptions()
    if graph is not None:
        options.add_run_config_entry("gpu_graph_id", str(graph))
    if not wait:
        options.add_run_config_entry(NO_WAIT, "1")
    return options


def on_device(array: np.ndarray) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(array, "gpu", 0, 0x10DE)


class Bound:
    """A session's inputs and outputs in device memory, and Runs with them under one id."""

    def __init__(
        self,
        created: ort.InferenceSession,
        feeds: dict[str, np.ndarray],
        graph: int | None = None,
        wait: bool = True,
        outputs: list[np.ndarray] | None = None,
    ) -> None:
        self.session, self._waits, self._options = created, wait, run_options(graph, wait)
        expected = self.eager(feeds) if outputs is None else outputs
        self._inputs = {name: on_device(array) for name, array in feeds.items()}
        self._outputs = [on_device(np.zeros_like(array)) for array in expected]
        self._binding = created.io_binding()
        for name, value in self._inputs.items():
            self._binding.bind_ortvalue_input(name, value)
        for output, value in zip(created.get_outputs(), self._outputs, strict=True):
            self._binding.bind_ortvalue_output(output.name, value)

    def eager(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """What a Run outside of any graph computes."""
        return list(self.session.run(None, feeds, run_options(-1)))

    def __call__(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.update(feeds)
        self.run()
        if not self._waits:
            self.wait()
        return self.results()

    def update(self, feeds: dict[str, np.ndarray]) -> None:
        for name, array in feeds.items():
            self._inputs[name].update_inplace(array)

    def results(self) -> list[np.ndarray]:
        return [value.numpy() for value in self._outputs]

    def run(self) -> None:
        self.session.run_with_iobinding(self._binding, self._options)

    def wait(self) -> None:
        self._binding.synchronize_outputs()


def rows(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def agrees(bound: Bound, name: str, *shape: int, runs: int = 4) -> None:
    """Replays with other contents give what ordinary Runs give, bit by bit."""
    for seed in range(runs):
        feeds = {name: rows(seed, *shape)}
        for found, expected in zip(bound(feeds), bound.eager(feeds), strict=True):
            np.testing.assert_array_equal(found, expected)


def node(kind: str, inputs: list[str], name: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [name], name=name, **attributes)


class OnStream:
    """A session on a stream of the application's, with one input and one output in the application's memory."""

    def __init__(self, count: int = 100) -> None:
        self.stream, self.count = probe().stream(), count
        self.session = session(double_chain(), {**GRAPHS, "user_compute_stream": str(self.stream)})
        self.x, self.y = probe().malloc(count), probe().malloc(count)
        self._binding = self.session.io_binding()
        self._binding._iobinding.bind_input("v0", DEVICE, np.float32, [count], self.x)
        self._binding._iobinding.bind_output("v4", DEVICE, np.float32, [count], self.y)

    def run(self, graph: int) -> None:
        self.session.run_with_iobinding(self._binding, run_options(graph, wait=False))

    def produce(self, value: float) -> None:
        probe().produce(self.stream, self.x, value, self.count)

    def has(self, value: float) -> None:
        found = probe().read(self.stream, self.y, self.count)
        np.testing.assert_array_equal(found, np.full(self.count, value, np.float32))

    def close(self) -> None:
        del self._binding, self.session
        probe().free(self.x)
        probe().free(self.y)
        probe().destroy_stream(self.stream)
