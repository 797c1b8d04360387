"""Runs of compiled regions with graphs of their own, inside the host's, and on threads, on every supported host.

python -m tests.session.region_runs_suite LIBRARY
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.graph_support import GRAPHS, Bound
from tests.session.region_support import Feed, joined, values
from tests.session.stream_support import HOST
from tests.session.suite import SkippedError, error_of, run_checks


def _wrong(
    network: ort.InferenceSession, feeds: list[Feed], expected: list[np.ndarray], turns: list[list[int]]
) -> list[int]:
    """Which feeds gave something else than expected; each of `turns` is run by a thread."""

    def work(mine: list[int]) -> list[int]:
        return [at for at in mine if not np.array_equal(network.run(None, feeds[at])[0], expected[at])]

    with ThreadPoolExecutor(len(turns)) as threads:
        return [at for found in threads.map(work, turns) for at in found]


def check_concurrent_runs() -> None:
    """Threads with dimensions of their own get what serial Runs get."""
    network = joined(models.mixer())
    feeds = [{"x": values(n, 8, 32)} for n in (1, 2, 3, 4)]
    expected = [network.run(None, feed)[0] for feed in feeds]
    turns = [[(i + turn) % len(feeds) for turn in range(10)] for i in range(8)]
    assert not _wrong(network, feeds, expected, turns)


def check_a_run_after_failed_ones() -> None:
    """What Runs that failed have still to copy is in no way of those of another session."""
    nodes = [helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("Reshape", ["p", "shape"], ["y"])]
    constants = {"pads": np.array([0, 0, 0, 2]), "shape": np.array([8, -1])}
    images = {name: (TensorProto.FLOAT, ["a", "b"]) for name in "xy"}
    model = models.model(nodes, {"x": images["x"]}, {"y": images["y"]}, constants)
    pair = [joined(model) for _ in range(2)]
    for _ in range(2):
        for network in pair:
            assert "cannot be reshaped" in error_of(lambda network=network: network.run(None, {"x": values(7, 5)}))
        for network in pair:
            feed = {"x": values(8, 8)}
            np.testing.assert_array_equal(network.run(None, feed)[0], np.pad(feed["x"], [(0, 0), (0, 2)]))


def _bound(options: dict[str, str], model: bytes, feed: Feed) -> Bound:
    return Bound(joined(model, options), feed)


def check_graphs_of_regions() -> None:
    """With CUDA graphs and without, the bits are the same: numpy feeds, bound values, several of them in turn."""
    shapes = {n: values(n, 8, 32) for n in (1, 4, 2)}
    on, off = joined(models.mixer()), joined(models.mixer(), {"region_graphs": "0"})
    several = [(Bound(on, {"x": x}), Bound(off, {"x": x}), x.shape) for x in shapes.values() for _ in range(2)]
    for _ in range(5):
        for with_graphs, without, shape in several:
            feed = {"x": values(*shape)}
            (expected,) = without(feed)
            np.testing.assert_array_equal(with_graphs(feed)[0], expected)
            np.testing.assert_array_equal(on.run(None, feed)[0], expected)
    network = models.residual_network()
    image = {"x": values(2, 3, 16, 16)}
    with_graphs, without = (_bound({"region_graphs": value}, network, image) for value in ("1", "0"))
    for _ in range(5):
        feed = {"x": values(2, 3, 16, 16)}
        np.testing.assert_array_equal(with_graphs(feed)[0], without(feed)[0])


def check_graphs_of_regions_inside_those_of_the_host() -> None:
    """A captured Run holds the region's steps, and Runs beside it replay the region's own graphs."""
    if HOST < (1, 26):
        raise SkippedError("the host captures no graphs")
    feed = {"x": values(2, 8, 32)}
    with_graphs, without = (_bound({**GRAPHS, "region_graphs": value}, models.mixer(), feed) for value in ("1", "0"))
    for _ in range(5):
        feed = {"x": values(2, 8, 32)}
        (expected,) = without(feed)
        np.testing.assert_array_equal(with_graphs(feed)[0], expected)
        np.testing.assert_array_equal(with_graphs.eager(feed)[0], expected)


def check_graphs_of_regions_on_threads() -> None:
    """Threads with values bound once and replaced in place."""
    network = joined(models.mixer())
    feeds = [{"x": values(n, 8, 32)} for n in (1, 2, 3, 4)]
    expected = [network.run(None, feed)[0] for feed in feeds]
    wrong: list[int] = []

    def work(i: int) -> None:
        bound = [Bound(network, feed) for feed in feeds]
        for turn in range(12):
            at = (i + turn // 3) % len(feeds)
            if not np.array_equal(bound[at](feeds[at])[0], expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


ONCE, EACH = {"fusion": "1"}, {"fusion": "1", "fusion_skip": "once"}


def check_what_follows_from_dimensions_is_kept() -> None:
    """Runs whose dimensions come again leave it out, and give the bits of those that do not."""
    once, each = (joined(models.masked_scores(), options) for options in (ONCE, EACH))
    plain = joined(models.masked_scores(), {"region_graphs": "0", **ONCE})
    for _ in range(4):
        for n, length in ((1, 5), (2, 5), (3, 1), (1, 70), (0, 4), (2, 0)):
            feed = {"x": values(n, length, 8)}
            (expected,) = each.run(None, feed)
            assert expected.size == 0 or np.abs(expected).max() > 0
            np.testing.assert_array_equal(once.run(None, feed)[0], expected)
            np.testing.assert_array_equal(plain.run(None, feed)[0], expected)


def check_what_is_kept_and_graphs() -> None:
    """Graphs of regions read what is kept; those of the host hold all steps, and Runs beside them read it."""
    feed = {"x": values(2, 9, 8)}
    sessions = [_bound(options, models.masked_scores(), feed) for options in (ONCE, EACH)]
    if HOST >= (1, 26):
        sessions += [_bound({**GRAPHS, **options}, models.masked_scores(), feed) for options in (ONCE, EACH)]
    for _ in range(6):
        feed = {"x": values(2, 9, 8)}
        results = [bound(feed)[0] for bound in sessions] + [bound.eager(feed)[0] for bound in sessions[2:]]
        for result in results:
            np.testing.assert_array_equal(result, results[1])


def check_what_is_kept_on_threads() -> None:
    """One thread has it computed, others read it from streams of their own."""
    feeds = [{"x": values(n, length, 8)} for n, length in ((1, 5), (2, 9), (3, 33))]
    expected = [joined(models.masked_scores(), EACH).run(None, feed)[0] for feed in feeds]
    turns = [[(i + turn // 3) % len(feeds) for turn in range(9)] for i in range(6)]
    for _ in range(4):
        assert not _wrong(joined(models.masked_scores(), ONCE), feeds, expected, turns)


if __name__ == "__main__":
    run_checks(globals())
