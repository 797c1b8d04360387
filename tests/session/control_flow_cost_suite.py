"""What control flow costs in synchronisations, copies and memory, by the counters of the simulated device.

python -m tests.session.control_flow_cost_suite PROBE_LIBRARY
"""

from __future__ import annotations

import gc
import sys

import numpy as np
import onnxruntime as ort

from tests.session.control_flow_cases import CASES, Case, Feeds, scalar
from tests.session.session_probe import Counters, Probe
from tests.session.suite import run_checks, session

COUNT = 1000
# What waits in a Run with two outputs: their copies and the end; before 1.31 also what the Loop ends with, which the
# host copies outside any stream.
WAITS = 3 if tuple(int(part) for part in ort.__version__.split(".")[:2]) >= (1, 31) else 5
_BODY = """(float[n] x, float[n] b, float limit) => (float[n] y, float[k, n] s) {
  m = Constant <value_int = 1000> ()
  y, s = Loop (m, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w, float[n] o) {
    CONDITION  w = Add(v, b)  o = Mul(w, v)
  }>
}"""


def _probe() -> Probe:
    return Probe(sys.argv[1])


def _cost(case: Case, feeds: Feeds, options: dict[str, str] | None = None) -> tuple[Counters, list[np.ndarray]]:
    """Of a third Run."""
    probe, running = _probe(), session(case.model(), options, cpu_allowed=True)
    for _ in range(2):
        running.run(None, feeds)
    before = probe.counters()
    found = running.run(None, feeds)
    return probe.counters() - before, found


def _loop(condition: str) -> tuple[Case, Feeds]:
    feeds = {"x": np.zeros(4, np.float32), "b": np.ones(4, np.float32), "limit": scalar(1e9, np.float32)}
    return Case(_BODY.replace("CONDITION", condition), []), feeds


def check_a_constant_condition_costs_no_synchronisation() -> None:
    """1,000 iterations."""
    cost, (y, s) = _cost(*_loop("c = Identity(c_in)"))
    np.testing.assert_array_equal(y, np.full(4, COUNT, np.float32))
    assert s.shape == (COUNT, 4)
    assert sum(cost.waits().values()) <= WAITS, cost.values
    assert cost["host_to_device"] + cost["device_to_host"] <= 4, cost.values
    # Two an iteration, and one for 64 pieces of the scan output.
    assert cost["launches"] == 2 * COUNT + -(-COUNT // 64), cost.values
    assert cost["event_records"] <= 4 and not cost.driver_calls(), cost.values


def check_a_condition_on_the_iteration_costs_none() -> None:
    """It is computed where the host has it."""
    cost, _ = _cost(*_loop("last = Constant <value_int = 999> ()  c = Less(i, last)"))
    assert sum(cost.waits().values()) <= WAITS, cost.values


def check_a_condition_on_the_device_costs_one_an_iteration() -> None:
    """And one copy of one element."""
    cost, (y, _) = _cost(*_loop("t = ReduceSum <keepdims = 0> (v)  c = Less(t, limit)"))
    assert y[0] == COUNT
    assert COUNT <= sum(cost.waits().values()) <= COUNT + WAITS, cost.values
    assert cost["device_to_host"] <= COUNT + 4, cost.values


def check_the_cost_is_the_same_on_one_stream_of_the_session() -> None:
    """With a unified stream."""
    cost, _ = _cost(*_loop("c = Identity(c_in)"), {"use_ep_level_unified_stream": "1"})
    assert sum(cost.waits().values()) <= WAITS, cost.values


def check_a_users_stream_is_waited_for_where_the_host_reads() -> None:
    """For a condition that is computed on the device; nothing else waits for the stream."""
    probe = _probe()
    stream = probe.stream()
    case, feeds = _loop("t = ReduceSum <keepdims = 0> (v)  c = Less(t, limit)")
    running = session(case.model(), {"user_compute_stream": str(stream)}, cpu_allowed=True)
    feeds["limit"] = scalar(40, np.float32)
    (y, s) = running.run(None, feeds)
    probe.synchronize(stream)
    assert (y[0], len(s)) == (11, 11), (y, s.shape)
    del running
    gc.collect()
    probe.destroy_stream(stream)


def check_what_a_loop_ends_with_is_complete_with_no_iteration() -> None:
    """Older hosts copy it outside any stream: it must have been written by then."""
    for name in ("loop_13", "loop_whose_value_grows"):
        case = CASES[name]
        running = session(case.model(), cpu_allowed=True)
        feeds = next(feeds for feeds in case.runs if feeds["m"] == 0)
        (y, *_) = running.run(None, feeds)
        np.testing.assert_allclose(y, feeds["x"] * feeds["b"] if "b" in feeds else feeds["x"], rtol=1e-6)


def check_memory_is_flat_over_many_runs() -> None:
    """Loop, If and Scan, also nested: nothing more is reserved after the first Runs."""
    probe = _probe()
    for name in ("loop_13", "loop_whose_value_grows", "loop_within_loop", "if_13", "scan_along_the_last_axis",
                 "loop_with_a_node_on_the_cpu"):  # fmt: skip
        case = CASES[name]
        running = session(case.model(), cpu_allowed=True)

        def run(running: object = running, case: Case = case) -> None:
            for feeds in case.runs:
                running.run(None, feeds)  # type: ignore[attr-defined]

        for _ in range(5):
            run()
        before, bytes_before = probe.counters(), probe.bytes_in_use()
        for _ in range(30):
            run()
        cost = probe.counters() - before
        assert not cost.driver_calls(), (name, cost.values)
        assert probe.bytes_in_use() == bytes_before, name
        del running, run
        gc.collect()


def check_scan_waits_for_nothing() -> None:
    """200 slices with both transposes: what waits are the outputs' copies and the end of the Run."""
    cost, _ = _cost(CASES["scan_of_many_slices"], CASES["scan_of_many_slices"].runs[0])
    assert sum(cost.waits().values()) <= WAITS, cost.values


if __name__ == "__main__":
    run_checks(globals())
