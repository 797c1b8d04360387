"""Neighbours of compiled regions, as options of a session, and the ways in which Runs are made under them.

Every way gives a list of what Runs put out, to be compared with what the same gives without regions. The feeds of a
case differ in dimensions, those that are `turned` in what is in them.
"""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from tests.session.beside_models import Case, Feed
from tests.session.graph_support import GRAPHS, Bound, run_options
from tests.session.stream_support import in_threads, probe
from tests.session.suite import session

THREADS = 16
Results = list[list[np.ndarray]]


@dataclass(frozen=True)
class Neighbour:
    """Options that switch it on; the caller's stream where there is one.

    `moves`: what the host allocates between two nodes need not be where it was. `joins`: nodes become regions.
    """

    options: dict[str, str]
    stream: int | None = None
    moves: bool = False
    joins: bool = True

    @property
    def has_host_graphs(self) -> bool:
        return "enable_cuda_graph" in self.options

    def check_launches(self, case: Case, runs: int, launched: int) -> None:
        """Steady Runs are launches of graphs: the host's, or those of regions."""
        if self.has_host_graphs:
            assert launched == runs, launched
        elif not (self.moves and case.regions > 1):
            graphs = case.replays * (self.options.get("region_graphs") != "0")
            assert launched == runs * graphs, (launched, graphs)

    def wait(self) -> None:
        """A Run on the caller's stream may return before its work is done."""
        if self.stream is not None:
            probe().synchronize(self.stream)


@dataclass
class Opened:
    """A session and its placement report."""

    session: ort.InferenceSession
    report: dict[str, Any]

    def regions(self) -> list[dict[str, Any]]:
        return list(self.report.get("regions", []))

    def nodes(self) -> list[dict[str, Any]]:
        return [node for graph in self.report["graphs"] for node in graph["nodes"]]


def opened(case: Case, options: dict[str, str], regions: bool) -> Opened:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        own = {"compiled_regions": str(int(regions)), "placement_report": str(path)}
        alone = not regions or "prefer_nhwc" in options  # shape arithmetic is the CPU's then
        made = session(case.model, own | options, cpu_allowed=case.on_cpu or alone)
        return Opened(made, json.loads(path.read_text()))


def turned(feed: Feed, by: int) -> Feed:
    """The entries of a batch in another order."""
    return {name: np.roll(array, by, axis=0) for name, array in feed.items()}


@contextmanager
def nothing() -> Iterator[Neighbour]:
    yield Neighbour({})


@contextmanager
def no_region_graphs() -> Iterator[Neighbour]:
    yield Neighbour({"region_graphs": "0"})


@contextmanager
def host_graphs() -> Iterator[Neighbour]:
    yield Neighbour({**GRAPHS, "cuda_graph_max_count": str(4 * THREADS)})


@contextmanager
def users_stream() -> Iterator[Neighbour]:
    stream = probe().stream()
    yield Neighbour({"user_compute_stream": str(stream)}, stream)
    gc.collect()
    probe().synchronize(stream)
    probe().destroy_stream(stream)


@contextmanager
def unified_stream() -> Iterator[Neighbour]:
    yield Neighbour({"use_ep_level_unified_stream": "1"})


@contextmanager
def channels_last() -> Iterator[Neighbour]:
    """The host turns layouts node by node, so that there are no regions."""
    yield Neighbour({"prefer_nhwc": "1"}, joins=False)


@contextmanager
def memory_pool() -> Iterator[Neighbour]:
    yield Neighbour({"arena.use_cuda_mempool": "1"}, moves=True)


@contextmanager
def external_allocator() -> Iterator[Neighbour]:
    """The caller's, which is asked for memory and gets all of it back."""
    yield Neighbour(probe().external_allocator(), moves=True)
    gc.collect()
    out, back = probe().trim_external()
    assert not out and back, f"{out} blocks were not given back, {back} were"


@contextmanager
def external_allocator_on_users_stream() -> Iterator[Neighbour]:
    with users_stream() as stream, external_allocator() as allocator:
        yield Neighbour(stream.options | allocator.options, stream.stream, moves=True)


@contextmanager
def host_graphs_on_users_stream() -> Iterator[Neighbour]:
    with users_stream() as stream, host_graphs() as graphs:
        yield Neighbour(stream.options | graphs.options, stream.stream)


def _alone(made: Opened, feed: Feed) -> list[np.ndarray]:
    """What a Run outside of the host's graphs gives."""
    return list(made.session.run(None, feed, run_options(-1)))


def fed(made: Opened, case: Case, neighbour: Neighbour) -> Results:
    """Runs of values in host memory, dimensions in turn."""
    del neighbour
    return [_alone(made, turned(feed, by)) for by in range(3) for feed in case.feeds]


def _same(found: list[np.ndarray], expected: list[np.ndarray]) -> list[np.ndarray]:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return found


class Values:
    """A session's inputs and outputs in device memory, bound once; under the host's graphs with an id."""

    def __init__(self, made: Opened, feed: Feed, neighbour: Neighbour, graph: int, outputs: list[np.ndarray]) -> None:
        self._neighbour = neighbour
        self._bound = Bound(made.session, feed, graph if neighbour.has_host_graphs else None, outputs=outputs)

    def __call__(self, feed: Feed) -> list[np.ndarray]:
        self._bound.update(feed)
        self.run(1)
        return self._bound.results()

    def run(self, times: int) -> None:
        for _ in range(times):
            self._bound.run()
        self._neighbour.wait()

    def captured(self, feeds: list[Feed]) -> Results:
        """A Run that the application captures on its stream, launched for these values."""
        stream = self._neighbour.stream
        assert stream is not None
        probe().begin_capture(stream)
        try:
            self._bound.run()
        finally:
            graph = probe().end_capture(stream)
        results: Results = []
        for feed in feeds:
            self._bound.update(feed)
            probe().launch(graph, stream)
            self._neighbour.wait()
            results.append(self._bound.results())
        probe().destroy_graph(graph)
        return results


def bound(made: Opened, case: Case, neighbour: Neighbour) -> Results:
    """Values in device memory, bound once, get every bit of others; all work is on the caller's stream, if any."""
    results: Results = []
    for graph, feed in enumerate(case.feeds):
        values = Values(made, feed, neighbour, graph, _alone(made, feed))
        values.run(3)
        before = probe().counters()
        probe().restrict(neighbour.stream)
        try:
            values.run(4)
        finally:
            probe().restrict(None)
        launched = (probe().counters() - before)["graph_launches"]
        if neighbour.has_host_graphs or made.regions():
            neighbour.check_launches(case, 4, launched)
        for other in (turned(feed, by) for by in range(3)):
            results.append(_same(values(other), _alone(made, other)))
    return results


def captured(made: Opened, case: Case, neighbour: Neighbour) -> Results:
    """What the application captures, before a region has a graph of its own and after."""
    results: Results = []
    for feed, runs in zip(case.feeds, (1, 3), strict=True):
        values = Values(made, feed, neighbour, -1, _alone(made, feed))
        values.run(runs)
        feeds = [turned(feed, by) for by in range(3)]
        for found, other in zip(values.captured(feeds), feeds, strict=True):
            results.append(_same(found, _alone(made, other)))
    return results


def threaded(made: Opened, case: Case, neighbour: Neighbour) -> Results:
    """Threads with values bound once and values in host memory get every bit of what one thread gets."""
    feeds = [turned(feed, by) for by in range(2) for feed in case.feeds]
    alone = [_alone(made, feed) for feed in feeds]

    def work(thread: int) -> None:
        own = thread % len(case.feeds)  # of some dimensions
        mine = Values(made, feeds[own], neighbour, thread, alone[own])
        for turn in range(4):
            at = (own + turn * len(case.feeds)) % len(feeds)
            found = _alone(made, feeds[-1 - at]) if turn == 2 else mine(feeds[at])
            _same(found, alone[-1 - at if turn == 2 else at])

    in_threads(THREADS, work)
    return alone


Way = Callable[[Opened, Case, Neighbour], Results]
