"""Collective operators over groups of ranks: run as a child process, one JSON line a check.

    CUDAEP_SIM_DEVICES=4 python -m tests.session.collective_suite LIBRARY

Ranks are threads with a device each, and processes. On GPUs what needs more of them than there are is skipped.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import host
from tests.session.collective_models import DOMAIN, FLOAT, group, one_node, serialized
from tests.session.collective_support import in_processes, in_threads, session, simulated, value_of
from tests.session.suite import SkippedError, error_of, on_one_host, run_checks
from tests.session.tensor_parallel import HIDDEN, LENGTH, decoder_layer

LIBRARY = sys.argv[1] if len(sys.argv) > 1 else ""
KINDS = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8,
    "uint8": np.uint8,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
}
# What is moved but not added.
MOVED = {**KINDS, "bool": np.bool_, "int16": np.int16, "uint16": np.uint16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "mean": np.mean}


def code_of(kind: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def run_one(model: bytes, x: np.ndarray, rank: int, size: int, file: str) -> np.ndarray:
    (y,) = host.run(session(model, group(rank, size, file), rank), {"x": x})
    return y


def expected_of(op: str, values: list[np.ndarray], rank: int, attributes: dict[str, Any]) -> np.ndarray:
    """What a rank gets, by numpy alone."""
    size, kind = len(values), values[0].dtype
    if op in ("AllReduce", "ReduceScatter"):
        wide = kind if kind.kind in "iu" else np.float64
        total = REDUCTIONS[attributes.get("reduction", "sum")](np.stack(values).astype(wide), axis=0).astype(kind)
        if op == "AllReduce":
            return total
        return np.split(total, size, attributes.get("axis", 0))[rank]
    if op == "AllGather":
        return np.concatenate(values, attributes.get("axis", 0))
    parts = [np.split(value, size, attributes.get("split_axis", 0))[rank] for value in values]
    return np.concatenate(parts, attributes.get("concat_axis", 0))


def agree(op: str, shape: tuple[int, ...], kind: Any, size: int, **attributes: Any) -> None:
    """All ranks, as threads, get what numpy computes, in every bit: the values are small whole numbers."""
    model = one_node(op, list(shape), code_of(kind), **attributes)
    values = [value_of(rank, shape, kind) for rank in range(size)]
    results = in_threads(size, lambda rank, size, file: run_one(model, values[rank], rank, size, file))
    for rank, result in enumerate(results):
        assert not isinstance(result, str), (op, shape, kind, attributes, result)
        expected = expected_of(op, values, rank, attributes)
        assert result.dtype == expected.dtype and result.shape == expected.shape, (op, result.shape, expected.shape)
        np.testing.assert_array_equal(result, expected, err_msg=f"{op} {shape} {kind} {attributes} rank {rank}")


@on_one_host
def check_reductions_of_every_type() -> None:
    """AllReduce and ReduceScatter, each reduction."""
    for kind, reduction in product(KINDS.values(), REDUCTIONS):
        if reduction == "mean" and np.dtype(kind).kind in "iu":
            continue
        agree("AllReduce", (3, 5), kind, 2, reduction=reduction)
        agree("ReduceScatter", (4, 5), kind, 2, reduction=reduction, group_size=2)


@on_one_host
def check_moves_of_every_type() -> None:
    """AllGather and AllToAll carry whatever has a size."""
    for kind in MOVED.values():
        agree("AllGather", (3, 5), kind, 2, group_size=2)
        agree("AllToAll", (4, 5), kind, 2, group_size=2)


def check_every_axis() -> None:
    """Also counted from the end; split and joined along different ones."""
    for axis in (0, 1, 2, -1, -3):
        agree("AllGather", (2, 3, 5), np.float32, 4, axis=axis, group_size=4)
        agree("ReduceScatter", (4, 8, 12), np.float16, 4, axis=axis, group_size=4)
    for split, join in product((0, 1, -1), repeat=2):
        agree("AllToAll", (4, 8, 12), np.int64, 4, split_axis=split, concat_axis=join, group_size=4)


def check_sizes_from_none_to_many() -> None:
    """Scalars, tensors without elements, odd sizes, some megabytes; one model for all."""
    for shape in ((), (0, 4), (4, 0), (1, 1), (7, 4099)):
        agree("AllReduce", shape, np.float32, 3)
    for shape in ((0, 3), (3, 0), (1, 1), (513, 1021)):
        agree("AllGather", shape, np.float32, 2, axis=1, group_size=2)
        agree("ReduceScatter", (shape[0], 2 * shape[1]), np.float32, 2, axis=1, group_size=2)
        agree("AllToAll", (shape[0], 2 * shape[1]), np.float32, 2, split_axis=1, group_size=2)


def repeat_with_new_shapes(rank: int, size: int, file: str) -> list[float]:
    """Twenty Runs of one session: its communicator serves all of them."""
    model = one_node("AllReduce", ["n"], FLOAT)
    made = session(model, group(rank, size, file), rank)
    results = [made.run(None, {"x": np.full(n, rank + n, np.float32)})[0] for n in range(20)]
    return [float(y.sum()) for y in results]


def check_runs_of_one_session() -> None:
    """With a shape of their own each."""
    results = in_processes(2, repeat_with_new_shapes, LIBRARY)
    assert results == [[n * (2.0 * n + 1) for n in range(20)]] * 2, results
    assert in_threads(2, repeat_with_new_shapes) == results


def chain_in_process(rank: int, size: int, file: str) -> bool:
    """All four operators behind one another with other nodes between, in one session."""
    nodes = [
        helper.make_node("AllGather", ["x"], ["all"], name="gather", domain=DOMAIN, axis=1, group_size=size),
        helper.make_node("Mul", ["all", "two"], ["twice"], name="mul"),
        helper.make_node("AllToAll", ["twice"], ["turned"], name="turn", domain=DOMAIN, split_axis=1, concat_axis=0,
                         group_size=size),
        helper.make_node("ReduceScatter", ["turned"], ["part"], name="scatter", domain=DOMAIN, axis=0,
                         group_size=size),
        helper.make_node("AllReduce", ["part"], ["y"], name="reduce", domain=DOMAIN, reduction="max"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", FLOAT, ["rows", 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [helper.make_tensor("two", FLOAT, [], [2.0])],
    )
    inputs = [value_of(each, (4, 3)) for each in range(size)]
    twice = 2 * np.concatenate(inputs, 1)  # in every rank
    turned = [np.concatenate([np.split(twice, size, 1)[each]] * size, 0) for each in range(size)]
    total = np.sum(turned, axis=0)
    expected = np.max(np.split(total, size, 0), axis=0)
    made = session(serialized(graph), group(rank, size, file), rank)
    for _ in range(3):
        (y,) = made.run(None, {"x": inputs[rank]})
        np.testing.assert_array_equal(y, expected)
    return True


def check_a_chain_in_processes() -> None:
    """Two and four of them."""
    for size in (2, 4) if simulated() else (2,):
        results = in_processes(size, chain_in_process, LIBRARY)
        assert results == [True] * size, results


def parallel_layer(rank: int, size: int, file: str) -> list[np.ndarray]:
    """A rank's part of the decoder layer on inputs of two sizes."""
    made = session(decoder_layer(rank, size), group(rank, size, file), rank)
    return [made.run(None, {"x": layer_input(batch)})[0] for batch in (1, 3)]


def layer_input(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, LENGTH, HIDDEN)).astype(np.float32)


def check_a_tensor_parallel_decoder_layer() -> None:
    """Over 2 and 4 ranks as on one: the same numbers in every rank, within what another order of sums makes of fp32."""
    whole = session(decoder_layer(0, 1), {})
    expected = [whole.run(None, {"x": layer_input(batch)})[0] for batch in (1, 3)]
    reference = ort.InferenceSession(decoder_layer(0, 1), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(expected[1], reference.run(None, {"x": layer_input(3)})[0], rtol=2e-5, atol=2e-5)
    of_two = in_processes(2, parallel_layer, LIBRARY)
    for results in (of_two, *([in_processes(4, parallel_layer, LIBRARY)] if simulated() else [])):
        for result in results:
            assert isinstance(result, list), result
            for y, want, first in zip(result, expected, results[0], strict=True):
                np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)
                np.testing.assert_array_equal(y, first)
    for result in in_threads(2, parallel_layer):
        for y, first in zip(result, of_two[0], strict=True):
            np.testing.assert_array_equal(y, first)


def check_a_group_of_one_needs_nobody() -> None:
    """No file, no library; the operators copy."""
    for op, attributes in (("AllReduce", {}), ("AllGather", {"group_size": 1}), ("AllToAll", {"group_size": 1})):
        made = session(one_node(op, ["a", "b"], **attributes), {"collective_size": "1"})
        x = value_of(0, (2, 3))
        np.testing.assert_array_equal(made.run(None, {"x": x})[0], x)


def check_shapes_are_known_before_the_run() -> None:
    """The host infers them, and keeps the names of dimensions that stay."""
    cases = [
        ("AllReduce", {}, ["n", 6, 4], ["n", 6, 4]),
        ("AllGather", {"axis": 1, "group_size": 1}, ["n", 6, 4], ["n", 6, 4]),
        ("ReduceScatter", {"axis": -1, "group_size": 1}, ["n", 6, 4], ["n", 6, 4]),
    ]
    for op, attributes, dims, expected in cases:
        found = session(one_node(op, dims, **attributes), {"collective_size": "1"}).get_outputs()[0].shape
        assert found == expected or attributes, (op, found)

    def shape_of(rank: int, size: int, file: str) -> list[Any]:
        model = one_node("AllToAll", ["n", 6, 4], split_axis=1, concat_axis=2, group_size=size)
        return list(session(model, group(rank, size, file), rank).get_outputs()[0].shape)

    assert in_threads(2, shape_of) == [["n", 3, 8]] * 2, in_threads(2, shape_of)


def check_unknown_ranks_stay_unknown() -> None:
    """The host shows a tensor of unknown rank as a scalar; what follows must not be checked against that."""
    nodes = [
        helper.make_node("Reshape", ["x", "dims"], ["rows"], name="reshape"),
        helper.make_node("AllReduce", ["rows"], ["sum"], name="reduce", domain=DOMAIN),
        helper.make_node("MatMul", ["sum", "w"], ["y"], name="matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", FLOAT, ["n"]),
            helper.make_tensor_value_info("dims", TensorProto.INT64, ["rank"]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [helper.make_tensor("w", FLOAT, [3, 1], [1.0, 2.0, 3.0])],
    )
    made = session(serialized(graph), {"collective_size": "1"})
    x = value_of(0, (6,))
    for dims in ((2, 3), (1, 2, 3)):
        (y,) = made.run(None, {"x": x, "dims": np.array(dims, np.int64)})
        np.testing.assert_array_equal(y, x.reshape(dims) @ np.array([[1.0], [2.0], [3.0]], np.float32))


def check_refusals_say_what_to_do() -> None:
    """Without options, with another group size, for types, reductions and dimensions that are not offered."""
    two = {"collective_size": "1"}
    cases: list[tuple[bytes, dict[str, str], list[str]]] = [
        (one_node("AllReduce", [4]), {}, ["AllReduce node 'node'", "collective_size", "collective_rank"]),
        (one_node("AllGather", [4], group_size=3), two, ["group_size is 3", "collective_size is 1"]),
        (one_node("AllGather", [4]), two, ["group_size is missing"]),
        (one_node("AllReduce", [4], TensorProto.BOOL), two, ["AllReduce node 'node'", "bool"]),
        (one_node("AllReduce", [4], TensorProto.INT32, reduction="mean"), two, ["mean of int32"]),
        (one_node("AllReduce", [4], reduction="median"), two, ["'median'", "sum, prod, min, max, mean"]),
        (one_node("ReduceScatter", [5], group_size=2), {**two, "collective_size": "2", "collective_file": "/none"},
         ["dimension 0 of [5] cannot be divided among 2 ranks"]),
        (one_node("AllGather", [4], axis=1, group_size=1), two, ["axis 1 is outside [-1, 1)"]),
        (one_node("AllReduce", [4]), {"collective_rank": "1"}, ["collective_rank needs collective_size"]),
        (one_node("AllReduce", [4]), {"collective_rank": "2", "collective_size": "2"},
         ["collective_rank='2' is no rank of collective_size='2'"]),
        (one_node("AllReduce", [4]), {"collective_size": "2"}, ["needs collective_file"]),
        (one_node("AllReduce", [4]), {"collective_size": "0"}, ["collective_size='0' is malformed"]),
    ]  # fmt: skip
    for model, options, parts in cases:
        text = error_of(lambda model=model, options=options: session(model, options, cpu_allowed=True))
        assert all(part in text for part in parts), (parts, text)


def check_a_run_with_dimensions_that_do_not_fit() -> None:
    """An error of every rank; the next Run is right again."""

    def work(rank: int, size: int, file: str) -> float:
        made = session(one_node("ReduceScatter", ["n"], group_size=size), group(rank, size, file), rank)
        text = error_of(lambda: made.run(None, {"x": np.ones(5, np.float32)}))
        assert "cannot be divided among 2 ranks" in text, text
        return float(made.run(None, {"x": np.ones(6, np.float32)})[0].sum())

    assert in_threads(2, work) == [6.0, 6.0]


def check_graph_capture_is_refused() -> None:
    """By the name of the node."""
    if tuple(int(part) for part in ort.__version__.split(".")[:2]) < (1, 26):
        raise SkippedError("this host captures nothing")
    text = error_of(lambda: session(one_node("AllReduce", [4]), {"collective_size": "1", "enable_cuda_graph": "1"}))
    assert "AllReduce node 'node' works with other ranks" in text, text


@on_one_host
def check_missing_ranks_are_named() -> None:
    """When a session is made: who is missing, and where."""
    (text,) = in_threads(1, lambda rank, _, file: session(one_node("AllReduce", [4]), group(rank, 3, file, 1)))
    assert "rank 0 of 3" in text and "no rank 1, 2" in text and "group" in text, text
    (text,) = in_threads(1, lambda _, __, file: session(one_node("AllReduce", [4]), group(1, 2, file, 1)))
    assert "rank 1 of 2" in text and "no rank 0" in text, text


def wait_for_all(rank: int, size: int, file: str) -> None:
    """Ranks that then have a short time limit begin together, however long the start of each took."""
    session(one_node("AllReduce", [1]), group(rank, size, file), rank)


def late_rank(rank: int, size: int, file: str) -> str:
    wait_for_all(rank, size, file)
    limit_s = 1 if simulated() else 2
    made = session(one_node("AllReduce", [4]), group(rank, size, file, limit_s), rank)
    x = np.ones(4, np.float32)
    assert made.run(None, {"x": x})[0][0] == size
    if rank == 1:
        time.sleep(2 * limit_s)
        return "late"
    first, second = (error_of(lambda: made.run(None, {"x": x})) for _ in range(2))
    other = session(one_node("AllReduce", [4]), {"collective_size": "1"}, rank)  # the device is as good as before
    np.testing.assert_array_equal(other.run(None, {"x": x})[0], x)
    assert second.splitlines()[-1] in first or "collective_timeout_s" in second, (first, second)
    return first


@on_one_host
def check_a_rank_that_stays_away_fails_the_run() -> None:
    """After the time limit, with a text; the session is of no use then, the device and other sessions are."""
    for run in (lambda: in_processes(2, late_rank, LIBRARY), lambda: in_threads(2, late_rank)):
        results = run()
        assert results[1] == "late", results
        assert "collective_timeout_s" in results[0], results
        assert not simulated() or "rank 1 has not come" in results[0], results


def killed_rank(rank: int, size: int, file: str) -> str:
    wait_for_all(rank, size, file)
    made = session(one_node("AllReduce", [4]), group(rank, size, file, 5), rank)
    x = np.ones(4, np.float32)
    assert made.run(None, {"x": x})[0][0] == size
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return error_of(lambda: made.run(None, {"x": x}))


def check_a_killed_rank_fails_the_run() -> None:
    """At once on the simulated device, after the time limit at the latest on GPUs."""
    results = in_processes(3 if simulated() else 2, killed_rank, LIBRARY)
    assert results[1] is None, results
    for text in (result for rank, result in enumerate(results) if rank != 1):
        assert not simulated() or "has ended" in text, results
        assert text.startswith("[ONNXRuntimeError]"), results


def check_what_differs_between_ranks_is_named() -> None:
    """The simulated device compares; NCCL cannot."""
    if not simulated():
        raise SkippedError("NCCL does not compare what ranks pass")

    def work(rank: int, size: int, file: str) -> str:
        made = session(one_node("AllReduce", ["n"]), group(rank, size, file), rank)
        return error_of(lambda: made.run(None, {"x": np.ones(4 + rank, np.float32)}))

    for text in in_threads(2, work):
        assert "AllReduce (sum) of 4 float" in text and "AllReduce (sum) of 5 float" in text, text


def check_what_lies_at_the_file_is_no_group() -> None:
    """Left by ranks that were killed, or anything else."""

    def work(rank: int, size: int, file: str) -> float:
        path = Path(file if rank == 0 else f"{file}.{rank}")
        path.write_text("ort-cuda-ep rendezvous 1\nnonce 12\ngroup 2 ranks, simulated\nanswer 1 34\nid 00\n")
        return float(run_one(one_node("AllReduce", [1]), np.ones(1, np.float32), rank, size, file)[0])

    assert in_threads(2, work) == [2.0, 2.0]


def check_sessions_one_after_the_other() -> None:
    """Meet at the same file; each has a group of its own."""

    def work(rank: int, size: int, file: str) -> list[float]:
        made = [session(one_node("AllReduce", [1]), group(rank, size, file), rank) for _ in range(3)]
        return [float(each.run(None, {"x": np.full(1, i, np.float32)})[0][0]) for i, each in enumerate(made)]

    assert in_threads(2, work) == [[0.0, 2.0, 4.0]] * 2


if __name__ == "__main__":
    run_checks(globals())
