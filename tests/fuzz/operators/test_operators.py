"""A minute of single operators, and that what is wrong is told. CUDAEP_FUZZ_FIRST changes the first number."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.children import ROOT
from tests.session import host

from . import __main__ as fuzz
from . import digest, judge, model, worker
from .draw import Draw
from .specs import LEFT_OUT, specs

FIRST = int(os.environ.get("CUDAEP_FUZZ_FIRST", "0"))
CASES = 8000  # beside other tests on two cores

Run = Callable[[model.Feeds], list[np.ndarray]]


@pytest.mark.timeout(600)
def test_no_judge_disagrees(test_library: str) -> None:
    assert test_library
    ops, without_a_spec = fuzz.operators()
    assert not without_a_spec, "write specs, or say in LEFT_OUT why not"
    found = fuzz.campaign(fuzz.case_names(ops, FIRST, CASES, None))
    texts = [f"{f['outcome']}: {f.get('case')}: {f['detail']}\n{f['again']}" for f in found["failures"]]
    assert not texts, "\n".join(texts)
    assert found["cases"] == CASES
    # A fuzzer whose nodes stay on the CPU, or that nobody judges, tests nothing.
    assert found["outcomes"]["right"] > 0.9 * CASES, found["outcomes"]


def test_no_operator_has_two_stories() -> None:
    assert not LEFT_OUT.keys() & specs().keys()


def test_a_case_is_known_by_its_name() -> None:
    for name in ("Conv/3", "Slice/9", "com.microsoft.Gelu/1"):
        one, other, next_one = (worker.make_case(text) for text in (name, name, f"{name}1"))
        assert str(one) == str(other) != str(next_one)
        assert one.model == other.model
        for a, b in zip(one.feeds, other.feeds, strict=True):
            assert all(np.array_equal(a[key], b[key], equal_nan=a[key].dtype.kind == "f") for key in a)


def test_a_second_feed_is_of_the_same_node() -> None:
    cases = [worker.make_case(f"Transpose/{number}") for number in range(40)]
    assert any(len(case.feeds) > 1 for case in cases)
    for case in cases:
        assert len({tuple((a.dtype, a.ndim) for a in feeds.values()) for feeds in case.feeds}) == 1


@pytest.mark.parametrize(("kind", "outcome"), [("values", "wrong"), ("kill", "crash")])
def test_what_is_broken_is_told(kind: str, outcome: str, test_library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert test_library
    monkeypatch.setenv(worker.BREAK_VARIABLE, kind)
    found = fuzz.campaign(iter(["Relu/1", "Add/1"]), jobs=1)
    assert {failure["name"]: failure["outcome"] for failure in found["failures"]} == dict.fromkeys(
        ("Relu/1", "Add/1"), outcome
    )
    assert all(failure["again"].endswith(failure["name"]) for failure in found["failures"])


def test_an_operator_without_a_row_is_no_case() -> None:
    assert worker.run_case("Nothing/1")["outcome"] == "no case"
    assert "no case" in fuzz.BAD


def _on(case: model.OpCase, run: Callable[[Run, model.Feeds], list[np.ndarray]]) -> judge.Verdict:
    return judge.judge(case, lambda one: lambda feeds: run(judge.on_cpu(one.model), feeds))


def _case() -> model.OpCase:
    """A sum of floats on the CPU provider, with values in every feed."""
    cases = (worker.make_case(f"ReduceSum/{number}") for number in range(200))
    return next(case for case in cases if len(case.feeds) > 1 and case.feeds[0]["x0"].dtype == np.float32
                and all(feeds["x0"].size for feeds in case.feeds))  # fmt: skip


def test_the_judges() -> None:
    case = _case()

    def fail(_run: Run, _feeds: model.Feeds) -> list[np.ndarray]:
        raise RuntimeError("no")

    def off(by: float) -> Callable[[Run, model.Feeds], list[np.ndarray]]:
        return lambda run, feeds: [array * np.float32(1 + by) for array in run(feeds)]

    assert _on(case, lambda run, feeds: run(feeds)).outcome == "right"
    assert _on(case, off(1e-3)).outcome == "wrong"
    assert _on(case, lambda run, feeds: [array[None] for array in run(feeds)]).outcome == "wrong"
    assert _on(case, fail).outcome == "error"


def test_a_session_that_is_refused() -> None:
    def raising(text: str) -> Callable[[model.OpCase], Run]:
        def make(_case: model.OpCase) -> Run:
            raise RuntimeError(text)

        return make

    assert judge.judge(_case(), raising("broken")).outcome == "refused"
    assert judge.judge(_case(), raising(judge.NOT_PLACED)).outcome == "elsewhere"


def test_later_feeds_are_judged_too() -> None:
    case, calls = _case(), 0

    def stale(run: Run, feeds: model.Feeds) -> list[np.ndarray]:
        nonlocal calls
        calls += 1
        return [array + 1 for array in run(feeds)] if calls == 3 else run(feeds)

    verdict = _on(case, stale)
    assert verdict.outcome == "wrong"
    assert "the first feeds again" in verdict.detail


def test_a_deterministic_operator_gives_the_same_bits_again() -> None:
    for deterministic, outcome in ((False, "right"), (True, "wrong")):
        calls = 0

        def drifting(run: Run, feeds: model.Feeds) -> list[np.ndarray]:
            nonlocal calls
            calls += 1
            moved = np.float32(1 + 2**-23 if calls == 3 else 1)
            return [array * moved for array in run(feeds)]

        assert _on(replace(_case(), deterministic=deterministic), drifting).outcome == outcome


def test_two_processes_give_the_same_bits(test_library: str) -> None:
    """Of each operator, under use_deterministic_compute."""
    assert test_library
    command = [sys.executable, "-m", "tests.fuzz.operators.digest"]
    children = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    one, other = (json.loads(child.communicate()[0].splitlines()[-1]) for child in children)
    assert len(one) > 0.8 * digest.CASES * len(fuzz.operators()[0]), sorted(one)
    assert one == other


def test_a_node_of_ours_is_reported_where_it_is(test_library: str) -> None:
    assert test_library
    host.devices()
    assert judge.judge(_case()).outcome in ("right", "elsewhere")


def test_draws_of_one_number_differ_in_values_alone() -> None:
    _, rows = worker.rows_of("Add/0")
    one, other = Draw(rows, 5, 0), Draw(rows, 5, 1)
    assert [one.integer(0, 99) for _ in range(9)] == [other.integer(0, 99) for _ in range(9)]
    assert [one.any(0, 99) for _ in range(9)] != [other.any(0, 99) for _ in range(9)]
