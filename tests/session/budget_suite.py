"""What must hold about memory budgets, on every supported host and under both names: one JSON line a check.

    CUDAEP_SIM_DEVICES=3 python -m tests.session.budget_suite LIBRARY

budget_layout_suite.py has what `prefer_nhwc=1` adds.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.budget_support import (
    FLOAT,
    HOST,
    HOSTS_ACCOUNT,
    KEY,
    MIB,
    NEEDS_FILE,
    OTHER_EP,
    SIZE,
    chain,
    devices_of,
    limit,
    opened,
    recording,
    room_for,
    saved,
)
from tests.session.control_flow_cases import Case, scalar
from tests.session.suite import EP, SkippedError, error_of, logged, on_one_host, run_checks, simulated, statistics


def check_more_budget_never_means_fewer_nodes() -> None:
    """From nothing to more than enough: costs stay within the budget, and the host has the provider's or fewer."""
    with saved(chain(6)) as path:
        for name, hosts_account in HOSTS_ACCOUNT.items():
            before = claimed_before = 0
            for kilobytes in (0, 1, 200, 900, 1300, 1400, 1600, 1800, 2100, 2400, 2700, 1 << 30):
                found = opened(path, limit(kilobytes), name)
                assert found.budget["limit_bytes"] == kilobytes * 1024 and found.budget["is_stated"], found.budget
                assert sum(found.costs()) == found.budget["stated_bytes"] <= kilobytes * 1024, (name, kilobytes)
                assert len(found.claimed) == found.budget["nodes"] >= claimed_before, (name, kilobytes)
                kept = found.kept if hosts_account else [node["name"] for node in found.claimed]
                assert found.kept == kept == [f"product{i}" for i in range(len(kept))], (name, kilobytes)
                assert before <= len(found.kept) <= len(found.claimed), (name, kilobytes)
                before, claimed_before = len(found.kept), len(found.claimed)
                if kilobytes == 0:
                    assert before == 0
            assert before == 6, (name, before)


def check_nodes_beyond_the_budget_have_figures() -> None:
    """The first says what it costs and what is left, the others where it ended; the log says so once."""
    with saved(chain(4)) as path:
        kilobytes = room_for(path, 2)
        with logged("ends at MatMul node 'product2', with ") as lines:
            found = opened(path, limit(kilobytes))
        assert len(lines) == 1, lines
        reasons = [node["reason"] for node in found.nodes]
        assert [node["placement"] for node in found.nodes] == ["provider"] * 2 + ["budget"] * 2, found.nodes
        assert reasons[2].startswith("costs 260 KiB; of the memory budget of "), reasons
        assert reasons[3] == "the memory budget ended at MatMul node 'product2'", reasons
        rows = np.ones((4, SIZE), np.float32)
        (result,) = found.session.run(None, {"v0": rows})
        plain = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(result, plain.run(None, {"v0": rows})[0], rtol=0.02, atol=0.02)


def check_all_or_nothing_counts_the_budget() -> None:
    """A node beyond it is a compute node elsewhere."""
    with saved(chain(4)) as path:
        kilobytes = room_for(path, 2)
        text = error_of(lambda: opened(path, limit(kilobytes), options={"require_all_compute_nodes": "1"}))
        assert "require_all_compute_nodes" in text and "product2" in text, text
        if HOST == (1, 26):
            return  # it drops the node that the refusal is attached to, and has no later moment for one
        for name in HOSTS_ACCOUNT:
            for little in (0, 1):
                text = error_of(
                    lambda name=name, little=little: opened(
                        path, limit(little), name, options={"require_all_compute_nodes": "1"}
                    )
                )
                assert "require_all_compute_nodes" in text and "product0" in text, text


def check_what_a_node_costs() -> None:
    """Weights, outputs, and the input that comes from host memory; a shared weight once."""
    weight, row = SIZE * SIZE * 4, SIZE * 4 * 4
    for shared in (False, True):
        with saved(chain(3, shared=shared)) as path:
            costs = [node["cost"] for node in opened(path, limit(1 << 30)).claimed]
        again = 0 if shared else weight
        assert [cost["weights"] for cost in costs] == [weight, again, again], costs
        assert [cost["copies"] for cost in costs] == [row, 0, 0], costs
        assert [cost["outputs"] for cost in costs] == [row] * 3, costs
        for cost in costs:
            parts = cost["weights"] + cost["copies"] + cost["outputs"] + cost["workspace"]
            assert cost["bytes"] == parts and not cost["recorded"] and cost["unknown"] == "", cost


def check_weights_that_are_packed_exist_twice_meanwhile() -> None:
    """16-bit ones of products, where nobody else reads them."""
    size = 4 * SIZE  # more than a product's workspace
    weight = size * size * 2
    for alone in (True, False):
        names = ["w0", "w1" if alone else "w0"]
        constants = {name: np.ones((size, size), np.float16) for name in names}
        nodes = [
            helper.make_node("MatMul", [f"v{i}", name], [f"v{i + 1}"], name=f"product{i}")
            for i, name in enumerate(names)
        ]
        ends: list[int | str] = [4, size]
        half = (TensorProto.FLOAT16, ends)
        with saved(models.model(nodes, {"v0": half}, {"v2": half}, constants)) as path:
            costs = [node["cost"] for node in opened(path, limit(1 << 30), options={"compiled_regions": "0"}).claimed]
        assert (costs[0]["workspace"] >= weight) == alone, costs


def check_shared_weights_leave_room() -> None:
    """What holds two nodes with weights of their own holds all that share one, as far as the host lets it."""
    with saved(chain(6)) as path:
        kilobytes = room_for(path, 2)
    with saved(chain(6, shared=True)) as path:
        assert len(opened(path, limit(kilobytes), OTHER_EP).claimed) == 6


def check_regions_are_cut_to_the_budget() -> None:
    """The nodes that fit, at the same costs as one by one, and no others; what regions share is counted once."""
    feed = {"v0": np.random.default_rng(1).standard_normal((4, SIZE), dtype=np.float32)}
    for shared in (False, True):
        with saved(chain(6, shared=shared)) as path:
            (expected,) = opened(path, None, options={"compiled_regions": "0"}).session.run(None, feed)
            for name in HOSTS_ACCOUNT:
                for kilobytes in (0, 1400, 1600, 2100, 1 << 30):
                    alone, joined = (
                        opened(path, limit(kilobytes), name, {"compiled_regions": on, "fusion": "0"}) for on in "01"
                    )
                    assert joined.budget == alone.budget and joined.costs() == alone.costs(), (name, kilobytes)
                    inside = [node["name"] for node in joined.nodes if "region" in node]
                    claimed = [node["name"] for node in joined.claimed]
                    assert inside == (claimed if len(claimed) > 1 else []), (name, kilobytes, joined.nodes)
                    assert joined.kept == claimed, (name, kilobytes, joined.kept)
                    np.testing.assert_allclose(joined.session.run(None, feed)[0], expected, rtol=1e-4, atol=1e-4)


def check_open_dimensions_are_said_or_counted() -> None:
    """Without a number for them the cost is unknown, in report and log; with one it is that of the fixed model."""
    with saved(chain(3)) as path:
        wanted = [node["cost"] for node in opened(path, limit(1 << 30)).claimed]
    with saved(chain(3, rows="n")) as path:
        with logged("the cost of 3 nodes is known only in part") as lines:
            found = opened(path, limit(1 << 30))
        assert len(lines) == 1 and "budget_dynamic_dim" in lines[0], lines
        assert found.budget["unknown_nodes"] == 3, found.budget
        for node in found.claimed:
            assert node["cost"]["weights"] and "the model leaves open" in node["cost"]["unknown"], node
        counted = opened(path, limit(1 << 30), options={"budget_dynamic_dim": "4"})
        assert [node["cost"] for node in counted.claimed] == wanted, counted.claimed
        assert counted.budget["unknown_nodes"] == 0, counted.budget
        assert not opened(path, limit(0)).claimed


def check_open_dimensions_are_followed_through_the_graph() -> None:
    """A shape that the model does not state is what the operators make of the one before."""
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["twice"], axis=0, name="concat"),
        helper.make_node("Relu", ["twice"], ["y"], name="relu"),
    ]
    with saved(models.model(nodes, {"x": (FLOAT, ["n", 100])}, {"y": (FLOAT, ["m", 100])})) as path:
        found = opened(path, limit(1 << 30), options={"budget_dynamic_dim": "320"})
        assert [node["cost"]["outputs"] for node in found.claimed] == [2 * 320 * 400] * 2, found.claimed


def _memory_users() -> dict[str, bytes]:
    """Models of fixed shapes that use mostly weights, outputs and scratch memory."""
    count, wide = 10 << 20, 5 << 16
    big: tuple[int, Sequence[int | str]] = (FLOAT, [count])
    row: tuple[int, Sequence[int | str]] = (FLOAT, [1, 32])
    wide_row: tuple[int, Sequence[int | str]] = (FLOAT, [1, wide])
    constants = {f"w{i}": np.ones((32, wide), np.float32) for i in range(3)}
    products = [helper.make_node("MatMul", ["v0", f"w{i}"], [f"p{i}"], name=f"product{i}") for i in range(3)]
    relus = [helper.make_node("Relu", ["v0"], [f"r{i}"], name=f"relu{i}") for i in range(4)]

    def sum_of(letter: str, parts: int) -> onnx.NodeProto:
        return helper.make_node("Sum", [f"{letter}{i}" for i in range(parts)], ["y"], name="sum")

    rows: tuple[int, Sequence[int | str]] = (FLOAT, [64 if simulated() else 128, 1 << 16])
    sort = helper.make_node("TopK", ["v0", "k"], ["sorted", "positions"], name="sort")
    return {
        "weights": models.model([*products, sum_of("p", 3)], {"v0": row}, {"y": wide_row}, constants),
        "outputs": models.model([*relus, sum_of("r", 4)], {"v0": big}, {"y": big}),
        "workspace": models.model([sort], {"v0": rows}, {"sorted": rows}, {"k": np.array([1 << 16], np.int64)}),
    }


def _memory_in_use(probe: Path) -> int:
    """Bytes of the device, but for a constant: what a further session finds gone, or, of a GPU, which other processes
    use too, the account of this one."""
    if simulated():
        return -int(opened(probe, limit("")).budget["limit_bytes"])
    accounts = [device["account"] for device in statistics()["devices"]]
    return sum(int(count) for account in accounts for kind, count in account.items() if kind != "limit_bytes")


@on_one_host
def check_memory_in_use_stays_within_what_is_stated() -> None:
    """All of the memory that a session holds after a Run."""
    for kind, model in _memory_users().items():
        with saved(model) as path, saved(chain(1)) as probe:
            opened(probe, limit("")).session.run(None, {"v0": np.ones((4, SIZE), np.float32)})
            before = _memory_in_use(probe)
            same = {"arena_extend_strategy": "kSameAsRequested", "compiled_regions": "0"}  # which need less
            found = opened(path, limit(1 << 30), options=same, entries={"session.use_env_allocators": "0"})
            shape = found.session.get_inputs()[0].shape
            found.session.run(None, {"v0": np.zeros(shape, np.float32)})
            used = _memory_in_use(probe) - before
            stated = found.budget["stated_bytes"]
            assert found.budget["unknown_nodes"] == 0, found.claimed
            assert used <= stated + (32 if simulated() else 64) * MIB, (kind, used / MIB, stated / MIB)
            assert stated <= 2 * used, (kind, used / MIB, stated / MIB)
            part = sum(node["cost"][kind] for node in found.claimed)
            assert part > (50 if simulated() else 100) * MIB, (kind, part / MIB)
            del found
            gc.collect()


def check_a_budget_without_a_limit_is_what_is_free() -> None:
    """On the session's own device, and within its own limit."""
    with saved(chain(2)) as path:
        plain = opened(path, limit(""))
        assert len(plain.kept) == 2 and not plain.budget["is_stated"], plain.budget
        bytes_of_one = room_for(path, 1, {"gpu_mem_limit": str(64 * MIB)}) * 1024
        if HOSTS_ACCOUNT[EP]:  # which has room for as many only then
            bytes_of_one += bytes_of_one // 2
        limited = opened(path, limit(""), options={"gpu_mem_limit": str(bytes_of_one)})
        assert limited.budget["limit_bytes"] <= bytes_of_one, limited.budget
        assert len(limited.claimed) == 1, limited.budget
    devices = devices_of(EP)
    if len(devices) < 3:
        raise SkippedError(f"needs 3 devices, has {len(devices)}")
    with saved(chain(2)) as path:
        free = [opened(path, limit(""), device=i).budget["limit_bytes"] for i in range(3)]
        holder = opened(path, None, device=1)
        holder.session.run(None, {"v0": np.ones((4, SIZE), np.float32)})
        after = [opened(path, limit(""), device=i).budget["limit_bytes"] for i in range(3)]
        assert after[0] == free[0] and after[2] == free[2], (free, after)
        assert free[1] - after[1] >= MIB, (free, after)


def check_recorded_costs_count_in_place_of_estimates() -> None:
    """The host's own statistics of a Run: both kinds of settings, with and without a limit."""
    with saved(chain(4)) as path:
        recorder = recording(path)
        recorder.session.run(None, {"v0": np.ones((4, SIZE), np.float32)})
        del recorder
        stats = path.parent / "stats.csv"
        lines = [line.split(",") for line in stats.read_text().splitlines() if not line.startswith("#")]
        wanted = {line[0].rpartition("_")[0]: sum(map(int, line[1:])) for line in lines}
        for name in HOSTS_ACCOUNT:
            for setting in (",stats.csv", f"{1 << 20},stats.csv"):
                found = opened(path, setting, name)
                assert {node["name"]: node["cost"]["bytes"] for node in found.claimed} == wanted, found.claimed
                assert all(node["cost"]["recorded"] for node in found.claimed)
                assert found.budget["stats_file"] == "stats.csv"
                assert len(found.kept) == 4, (name, setting, found.kept)
            kilobytes = sum(sorted(wanted.values())[:2]) // 1024 + 100
            found = opened(path, f"{kilobytes},stats.csv", name)
            assert len(found.kept) == len(found.claimed) == 2, (name, found.claimed)


def check_malformed_settings_are_refused_by_name() -> None:
    """Key, value and what is accepted; under either name."""
    with saved(chain(1)) as path:
        for name in HOSTS_ACCOUNT:
            for setting in ("x,", "-5,", "10", "10,20,30", " 5,", "99999999999999999999,"):
                text = error_of(lambda name=name, setting=setting: opened(path, setting, name))
                assert f"{KEY}='{setting}' is malformed; accepted: 'KB,FILE'" in text, text
        text = error_of(lambda: opened(path, limit(100), options={"budget_dynamic_dim": "-1"}))
        assert "budget_dynamic_dim='-1'" in text, text
        if NEEDS_FILE:
            text = error_of(lambda: opened(path, "100,"))
            assert KEY in text and "stats file" in text, text


def check_a_stats_file_must_be_there_and_whole() -> None:
    """The host's own error names the file, or the provider's does."""
    with saved(chain(1)) as path:
        assert "missing.csv" in error_of(lambda: opened(path, "100,missing.csv"))
        (path.parent / "bad.csv").write_text("garbage\n")
        assert "bad.csv" in error_of(lambda: opened(path, "100,bad.csv"))


def check_the_nodes_of_inner_graphs_are_counted() -> None:
    """The host asks for them first; a budget that ends there leaves the rest to the CPU."""
    graph = """(bool c, float[1024] x) => (float[1024] y) {
      a = If (c) <then_branch = t () => (float[1024] p) { p = Relu(x) },
                  else_branch = e () => (float[1024] q) { q = Neg(x) }>
      y = Exp(a)
    }"""
    case = Case(graph, [{"c": scalar(True, np.bool_), "x": np.ones(1024, np.float32)}])
    with saved(case.model()) as path:
        before = 0
        for kilobytes in (0, 4, 6, 9, 12, 15, 18, 24, 1000):
            found = opened(path, limit(kilobytes), OTHER_EP)
            assert sum(found.costs()) == found.budget["stated_bytes"] <= kilobytes * 1024
            assert len(found.claimed) >= before
            before = len(found.claimed)
            (result,) = found.session.run(None, case.runs[0])
            np.testing.assert_allclose(result, np.exp(case.runs[0]["x"]), rtol=1e-6)
        assert before == 4, found.nodes


def check_stating_costs_measures_nothing() -> None:
    """Whatever the options measure in Runs: no plan in the session's file was measured before the first."""
    image: tuple[int, Sequence[int | str]] = (FLOAT, [1, 16, 24, 24])
    weights = {"w": np.ones((16, 16, 3, 3), np.float32)}
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    rows, x = np.ones((4, SIZE), np.float32), np.ones((1, 16, 24, 24), np.float32)
    cases = [
        (chain(1), {"v0": rows}, {"tunable_op_enable": "1", "tunable_op_tuning_enable": "1"}),
        (models.model([conv], {"x": image}, {"y": image}, weights), {"x": x}, {"cudnn_conv_algo_search": "EXHAUSTIVE"}),
    ]
    for model, feeds, options in cases:
        with saved(model) as path:
            plans = path.parent / "plans"
            found = opened(path, limit(1 << 30), options={**options, "plan_cache.path": str(plans)})
            assert len(found.claimed) == 1 and not found.claimed[0]["cost"]["unknown"], found.nodes
            assert b" measured" not in (plans.read_bytes() if plans.exists() else b""), plans.read_bytes()
            found.session.run(None, feeds)
            del found
            gc.collect()
            assert b" measured" in plans.read_bytes(), plans.read_bytes()


if __name__ == "__main__":
    run_checks(globals())
