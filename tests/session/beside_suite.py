"""Compiled regions beside everything else that a session may have: what comes out is what nodes give one by one.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.beside_suite PROBE

One check for each model and row. Both sessions of a check have the neighbours of its row; one has regions, which must
have taken part. PROBE is the test build of the plug-in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from tests.session import beside_support as ways
from tests.session.beside_models import CASES, Case
from tests.session.beside_support import Neighbour, Opened, Results, Way, opened
from tests.session.stream_support import HOST
from tests.session.suite import SkippedError, error_of, on_one_host, run_checks


@dataclass(frozen=True)
class Row:
    """Neighbours and a way to make Runs. `captures`: the whole Run is captured, so that nodes on the CPU refuse it."""

    name: str
    neighbours: Callable[[], AbstractContextManager[Neighbour]]
    way: Way
    captures: bool = False
    everywhere: bool = False  # on each host of `make test`


ROWS = (
    Row("fed", ways.nothing, ways.fed, everywhere=True),
    Row("bound", ways.nothing, ways.bound),
    Row("threads", ways.nothing, ways.threaded),
    Row("step_by_step", ways.no_region_graphs, ways.bound),
    Row("host_graphs", ways.host_graphs, ways.bound, captures=True, everywhere=True),
    Row("host_graphs_and_threads", ways.host_graphs, ways.threaded, captures=True),
    Row("users_stream", ways.users_stream, ways.bound),
    Row("users_stream_fed", ways.users_stream, ways.fed),
    Row("users_stream_and_threads", ways.users_stream, ways.threaded, everywhere=True),
    Row("users_stream_captured", ways.users_stream, ways.captured, captures=True, everywhere=True),
    Row("unified_stream_and_threads", ways.unified_stream, ways.threaded),
    Row("memory_pool", ways.memory_pool, ways.bound),
    Row("prefer_nhwc", ways.channels_last, ways.fed),
    Row("external_allocator", ways.external_allocator, ways.bound, everywhere=True),
    Row("external_allocator_and_threads", ways.external_allocator, ways.threaded),
    Row("external_allocator_on_users_stream", ways.external_allocator_on_users_stream, ways.bound),
    Row("host_graphs_on_users_stream", ways.host_graphs_on_users_stream, ways.bound, captures=True),
)


def took_part(made: Opened, case: Case) -> None:
    """The regions that the model must come to have every node that is claimed, and were rewritten as they must."""
    found = {note["name"] for region in made.regions() for note in region["rewritten"]}
    assert len(made.regions()) == case.regions and case.rewritten <= found, (found, made.report)
    left = [node for node in made.nodes() if node["placement"] == "provider" and "region" not in node]
    assert not left, left


def agree(case: Case, found: Results, expected: Results) -> None:
    """To rounding, relative to the largest value of an output."""
    assert len(found) == len(expected) > 0
    for run, (mine, other) in enumerate(zip(found, expected, strict=True)):
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            assert a.shape == b.shape and a.dtype == b.dtype, (run, i, a.shape, b.shape)
            assert np.any(b), f"output {i} of Run {run} is all zeros"
            a, b = a.astype(np.float64), b.astype(np.float64)
            off = np.max(np.abs(a - b)) / np.max(np.abs(b))
            assert off <= case.tolerance, f"output {i} of Run {run} is off by {off}"


def refused(case: Case, row: Row, neighbour: Neighbour) -> None:
    """With regions and without alike: the session is, or its Run, and then another Run is not."""
    for regions in (False, True):

        def attempt(regions: bool = regions) -> None:
            made = opened(case, neighbour.options, regions)
            text = error_of(lambda: row.way(made, case, neighbour))
            agree(case, ways.fed(made, case, neighbour), ways.fed(opened(case, {}, False), case, Neighbour({})))
            raise RuntimeError(text)

        text = error_of(attempt)
        assert "captured into a CUDA graph" in text, text


def beside(case: Case, row: Row) -> None:
    with row.neighbours() as neighbour:
        if neighbour.has_host_graphs and HOST < (1, 26):
            raise SkippedError("the host captures no graphs")
        if row.captures and case.on_cpu:
            refused(case, row, neighbour)
            return
        joined = opened(case, neighbour.options, regions=True)
        if neighbour.joins:
            took_part(joined, case)
        else:
            assert not joined.regions(), joined.report
        found = row.way(joined, case, neighbour)
        del joined
    # What the nodes cannot do one by one is compared with what they do under no neighbour.
    impossible = row.captures and case.mixes_sizes
    with (ways.nothing if impossible else row.neighbours)() as neighbour:
        apart = opened(case, neighbour.options, regions=False)
        assert not apart.regions()
        way = ways.bound if row.way is ways.captured and impossible else row.way
        agree(case, found, way(apart, case, neighbour))
        del apart


def _check(case: str, row: Row) -> Callable[[], None]:
    def check() -> None:
        beside(CASES[case](), row)

    return check if row.everywhere else on_one_host(check)


for _row in ROWS:
    for _case in CASES:
        globals()[f"check_{_case}_{_row.name}"] = _check(_case, _row)


if __name__ == "__main__":
    run_checks(globals())
