"""What CUDA graphs of compiled regions cost the device, and how they take part in what applications do with streams.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.region_graph_suite PROBE

PROBE is the test build of the plug-in; region_runs_suite.py has what needs no look at the device.
"""

from __future__ import annotations

import gc

import numpy as np
import onnxruntime as ort

from tests.session import models
from tests.session.region_support import DEVICE, joined
from tests.session.stream_support import (
    LEGACY,
    WIDTH,
    DeviceRun,
    double_chain,
    ordered_loops,
    probe,
    steady,
)
from tests.session.suite import run_checks


def check_a_steady_run_is_one_launch() -> None:
    """No kernel is launched by itself, nothing is allocated or waited for; without the option all kernels are."""
    for model, shape in ((double_chain(5), [1000]), (models.product_chain(4, WIDTH), [7, WIDTH])):
        for graphs in (1, 0):
            run = DeviceRun(joined(model, {"region_graphs": str(graphs)}), shape)
            spent = steady(run)
            assert spent["graph_launches"] == 10 * graphs, spent.values
            assert spent["launches"] + spent["host_work"] >= 40, spent.values
            assert not spent.waits() and not spent.driver_calls(), spent.values
            assert spent["event_records"] == spent["event_waits"] == 0, spent.values
            run.close()


def check_fewer_than_three_launches_stay_launches() -> None:
    """A graph of them would save nothing."""
    run = DeviceRun(joined(double_chain(2)), [100])
    assert steady(run)["graph_launches"] == 0
    run.close()


def check_memory_that_is_always_another_is_not_captured() -> None:
    """Outputs that the application keeps: no address comes again."""
    network = joined(double_chain(5))
    kept: list[ort.OrtValue] = []
    before = probe().counters()
    for i in range(50):
        binding = network.io_binding()
        binding.bind_cpu_input("v0", np.full(100, i, np.float32))
        binding._iobinding.bind_output("v5", DEVICE)
        network.run_with_iobinding(binding)
        kept += binding.get_outputs()
    assert (probe().counters() - before)["graph_launches"] == 0
    for i, value in enumerate(kept):
        np.testing.assert_array_equal(value.numpy(), np.full(100, 32 * i, np.float32))


def check_streams_of_the_application() -> None:
    """Also the legacy one, which cannot be captured; all work is on it, and in its order."""
    own, blocking = probe().stream(), probe().stream(blocking=True)
    for stream in (own, blocking, LEGACY):
        options = {"user_compute_stream": str(stream), "has_user_compute_stream": "1"}
        run = DeviceRun(joined(double_chain(), options), [100])
        for _ in range(3):
            run()
        if stream != LEGACY:
            probe().restrict(stream)
        try:
            spent = run.spent_by(10)
        finally:
            probe().restrict(None)
        assert spent["graph_launches"] == 10 and not spent.waits(), spent.values
        ordered_loops(run, stream)
        del run
        gc.collect()
    for stream in (own, blocking):
        probe().synchronize(stream)
        probe().destroy_stream(stream)


def check_captures_of_the_application() -> None:
    """On its stream: the steps are captured, before the region has a graph of its own, and after."""
    stream = probe().stream()
    for runs in (1, 3):
        run = DeviceRun(joined(double_chain(), {"user_compute_stream": str(stream)}), [100])
        for _ in range(runs):
            run()
        probe().synchronize(stream)
        probe().begin_capture(stream)
        run()
        graph = probe().end_capture(stream)
        for value in (1.0, 5.0):
            probe().produce(stream, run.x, value, run.count)
            probe().launch(graph, stream)
            np.testing.assert_array_equal(probe().read(stream, run.y, run.count), np.full(run.count, 16 * value))
            run()
        probe().synchronize(stream)
        probe().destroy_graph(graph)
        run.close()
        del run
        gc.collect()
    probe().destroy_stream(stream)


def check_graphs_end_with_their_sessions() -> None:
    """One session after another: the device's memory is what it was.

    Not on several threads: the application's own wait for the whole device fails while another thread captures.
    """

    def work(thread: int) -> None:
        for _ in range(3):
            run = DeviceRun(joined(double_chain(4 + thread % 3)), [50 + thread])
            for _ in range(5):
                run()
            run.wait()
            run.close()
            del run
            gc.collect()

    work(0)
    before = probe().bytes_in_use(0)
    for thread in range(1, 4):
        work(thread)
    assert probe().bytes_in_use(0) <= before


if __name__ == "__main__":
    run_checks(globals())
