"""Runs a case in one of its modes and compares the outcome with what the case expects."""

import dataclasses
import functools
from typing import Any

import numpy as np

from ...session import host
from . import driver
from .case import BoundCase
from .compare import difference
from .driver import Driver, Row, RunResult
from .node import BoundNode, default_seed, make_node, one_node_model
from .reference import expected_outputs, magnitudes
from .tolerances import Tolerance, tolerance_of

_DIRECT = {
    "user_stream": driver.USER_STREAM,
    "graph": driver.GRAPH,
    "shifted": driver.SHIFTED,
    "sliced": driver.SLICED,
    "create": driver.CREATE,
}
# A node that our factory refuses is not claimed, so a session that allows no other provider says this instead.
_LEFT_TO_CPU = "assigned to the default CPU EP"


MAX_HOST_ELEMS = 4096  # of one result (graph/shape/host_operator.h)
_LAUNCHES = ("before the capture", "replayed", "replayed with other inputs")
_CHANGED = 2  # the launch with other inputs


class CaseError(AssertionError):
    """A case that did not give what it should, with the way to run it again."""


def run_case(bound: BoundCase, mode: str, seed: int | None = None) -> None:
    """Raises CaseError unless the case holds in `mode`. Session mode needs the plug-in library."""
    seed = default_seed(bound) if seed is None else seed
    problem = _problem(bound, mode, seed)
    if problem is not None:
        raise CaseError(
            f"{bound.id} [{mode}]: {problem}\n"
            f"seed {seed}; run it again: python -m tests.op.harness.rerun '{bound.id}' --mode {mode} --seed {seed}"
        )


def shares(bound: BoundCase, pair: tuple[int, int]) -> bool:
    """Whether an output of the case can lie in the buffer of an input."""
    library = driver.load()
    result = library.run(node_of(bound, default_seed(bound)).spec(), driver.USER_STREAM, share=pair)
    return result.shared and any(one is not None and one.size > 0 for launch in result.launches for one in launch)


@functools.lru_cache(maxsize=4)  # the modes of a case follow each other
def node_of(bound: BoundCase, seed: int) -> BoundNode:
    """The case's node with values drawn from `seed`."""
    case = bound.case
    return make_node(bound, seed, driver.load().row(case.domain, case.op, bound.schema.since))


@functools.lru_cache(maxsize=8)
def wanted_of(bound: BoundCase, seed: int, second: bool = False) -> tuple[list[np.ndarray | None], list[Any]]:
    """What the case expects of its first or second inputs: values (None: unused), and the magnitudes of their terms."""
    node = node_of(bound, seed)
    inputs = node.second if second else node.first
    return expected_outputs(node, inputs), magnitudes(node, inputs)


def tolerance_for(bound: BoundCase, dtype: str) -> Tolerance:
    """The tolerance of a case for an output of type `dtype`."""
    own = bound.case.tolerance
    if own is None or isinstance(own, Tolerance):
        return own or tolerance_of(bound.case.op, dtype)
    return own.get(dtype) or tolerance_of(bound.case.op, dtype)


def host_problem(bound: BoundCase, version: int) -> str | None:
    """What is wrong with the node's evaluation in host memory, at a schema version that means the same to the case."""
    node = node_of(bound, default_seed(bound))
    result = driver.load().run_on_host(dataclasses.replace(node.spec(), since=version))
    if bound.case.error is not None:  # in other words than on the device
        return "no error" if result.code == "OK" else None
    wanted, _ = wanted_of(bound, node.seed)
    if any(want is not None and want.size > MAX_HOST_ELEMS for want in wanted):
        return None if str(MAX_HOST_ELEMS) in result.message else f"a large result is no error: {result.code}"
    return _result_problem(node, result)


def _problem(bound: BoundCase, mode: str, seed: int) -> str | None:
    if mode == "session":
        return _session_problem(bound, seed)
    library = driver.load()
    row = library.row(bound.case.domain, bound.case.op, bound.schema.since)
    if bound.case.error is None:
        if row is None:
            return f"no registered row covers version {bound.schema.since}"
        unlisted = _unlisted_type(bound, row)
        if unlisted is not None:
            return unlisted
    node = node_of(bound, seed)
    if mode in _DIRECT:
        return _result_problem(node, library.run(node.spec(), _DIRECT[mode]), values=mode != "create")
    assert row is not None, f"{mode} needs a row"
    return _shared_problem(node, library, row, mode)


def _shared_problem(node: BoundNode, library: Driver, row: Row, mode: str) -> str | None:
    for pair in row.in_place if mode == "in_place" else row.aliases:
        result = library.run(node.spec(), driver.USER_STREAM, share=pair)
        problem = _result_problem(node, result)
        if problem is None and mode == "alias" and not result.shared:
            problem = "the output could not be the input's buffer"
        if problem is not None:
            return f"output {pair[1]} in the buffer of input {pair[0]}: {problem}"
    return None


def _unlisted_type(bound: BoundCase, row: Row) -> str | None:
    """A type of the case that the row's constraints leave out: no host would give us such a node."""
    for index in range(len(bound.case.inputs)):
        formal, dtype = bound.schema.input(index), bound.input_type(index)
        if formal is not None and dtype and formal.type in row.types and dtype not in row.types[formal.type]:
            return f"the row {row} does not list {dtype} for {formal.type}"
    return None


def _result_problem(node: BoundNode, result: RunResult, values: bool = True) -> str | None:
    error = node.bound.case.error
    if error is not None:
        code, text = error
        if result.code == code and text in result.message:
            return None
        return f"expected {code} with {text!r}, got {result.code}: {result.message}"
    if result.code != "OK":
        return f"{result.code}: {result.message}"
    if not values:
        return _shapes_problem(node, result.launches[0])
    for launch, outputs in enumerate(result.launches):
        problem = _values_problem(node, outputs, second=launch == _CHANGED)
        if problem is not None:
            return f"{_LAUNCHES[launch]}, {problem}" if len(result.launches) > 1 else problem
    return None


def _shapes_problem(node: BoundNode, outputs: list[np.ndarray | None]) -> str | None:
    wanted, _ = wanted_of(node.bound, node.seed)
    for index, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        if got is not None and want is not None and got.shape != want.shape:
            return f"output {index}: inferred shape {list(got.shape)}, expected {list(want.shape)}"
    return None


def _values_problem(node: BoundNode, outputs: list[np.ndarray | None], second: bool) -> str | None:
    bound = node.bound
    wanted, scales = wanted_of(bound, node.seed, second)
    for index, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        if got is None or want is None:
            continue
        problem = difference(got, want, tolerance_for(bound, node.outputs[index]), scales[index])
        if problem is not None:
            return f"output {index}: {problem}"
    return None


def _session_problem(bound: BoundCase, seed: int) -> str | None:
    node = node_of(bound, seed)
    model, feeds = one_node_model(node, node.first, node.outputs)
    options = host.EXACT | host.NODES | {name: str(value) for name, value in bound.case.options.items()}
    try:
        session = host.open_session(model.SerializeToString(), options)
        results = iter(host.run(session, feeds))
    except Exception as failure:
        if bound.case.error is not None and any(text in str(failure) for text in (bound.case.error[1], _LEFT_TO_CPU)):
            return None
        return f"the host says: {failure}"
    if bound.case.error is not None:
        return f"expected an error with {bound.case.error[1]!r}, got none"
    return _values_problem(node, [next(results) if dtype else None for dtype in node.outputs], second=False)
