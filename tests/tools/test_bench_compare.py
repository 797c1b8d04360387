"""The verdicts of `python -m bench compare`."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command_line
from bench.compare import compare, judge, ratio_interval

STEADY = [100.0, 101.0, 99.5, 100.5, 99.0, 100.0, 100.2, 99.8, 100.4]


def scaled(factor: float) -> list[float]:
    return [factor * value for value in STEADY]


def series(wall: list[float], device: list[float] | None = None) -> dict[str, Any]:
    return {"wall_us": wall, "device_us": device or [], "span_us": [], "activities": []}


def a_report(**results: dict[str, Any]) -> dict[str, Any]:
    case = {"name": "bert/b1", "group": "model", "results": results}
    return {
        "schema": "s", "scale": "full", "simulated": False, "machine": {"gpu": "H200"}, "cases": [case],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "word", "fails"),
    [(0.9, "faster", False), (1.0, "same", False), (1.02, "slower", False), (1.05, "slower", True)],
)
@pytest.mark.parametrize("paired", [True, False])
def test_words(factor: float, word: str, fails: bool, paired: bool) -> None:
    verdict = judge("case", "wall_us", STEADY, scaled(factor), paired, 0.03)
    assert (verdict.word, verdict.fails) == (word, fails)
    assert verdict.low <= verdict.ratio <= verdict.high
    assert verdict.ratio == pytest.approx(factor, rel=1e-9)


def test_noise_is_no_verdict() -> None:
    """Twice as slow in some repeats and twice as fast in others."""
    noisy = [50.0, 210.0, 45.0, 190.0, 120.0, 60.0, 200.0, 55.0, 180.0]
    verdict = judge("case", "wall_us", STEADY, noisy, True, 0.03)
    assert (verdict.word, verdict.fails) == ("noisy", False)


def test_drift_that_both_saw_cancels_where_repeats_belong_together() -> None:
    drifting = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0, 160.0, 170.0, 180.0]
    slower = [1.05 * value for value in drifting]
    assert judge("case", "wall_us", drifting, slower, True, 0.03).fails
    assert judge("case", "wall_us", drifting, slower, False, 0.03).word == "noisy"


def test_an_interval_needs_repeats() -> None:
    with pytest.raises(ValueError, match="three repeats"):
        ratio_interval([1.0, 2.0], [1.0, 2.0], True)


def test_models_are_judged_by_both_clocks() -> None:
    found = a_report(baseline=series(STEADY, STEADY), ours=series(STEADY, scaled(1.1)))
    verdicts = compare(found, found, ("baseline", "ours"), 0.03)
    assert [(v.metric, v.word, v.fails) for v in verdicts] == [
        ("wall_us", "same", False),
        ("device_us", "slower", True),
    ]


def test_a_case_that_is_gone_or_broken_fails() -> None:
    old = a_report(ours=series(STEADY))
    assert [v.word for v in compare(old, a_report(), ("ours", "ours"), 0.03)] == ["missing"]
    broken = a_report(ours={"error": "wrong result\nand more"})
    (verdict,) = compare(old, broken, ("ours", "ours"), 0.03)
    assert (verdict.word, verdict.note, verdict.fails) == ("broken", "wrong result", True)
    with pytest.raises(ValueError, match="no case of ours"):
        compare(broken, old, ("ours", "ours"), 0.03)


@pytest.mark.parametrize(("key", "value"), [("scale", "tiny"), ("simulated", True), ("machine", {"gpu": "H100"})])
def test_unlike_reports_are_refused(key: str, value: object) -> None:
    old = a_report(ours=series(STEADY))
    new = {**copy.deepcopy(old), key: value}
    with pytest.raises(ValueError, match=r"differ|different GPUs"):
        compare(old, new, ("ours", "ours"), 0.03)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("old.json", "same.json", "slow.json")]
    for path, factor in zip(paths, (1.0, 1.0, 1.04), strict=True):
        path.write_text(json.dumps(a_report(ours=series(scaled(factor)))))
    old, same, slow = map(str, paths)
    assert command_line.main(["compare", old, same]) == 0
    assert command_line.main(["compare", old, slow]) == command_line.BEYOND_THE_LIMIT
    assert "slower, beyond 3%" in capsys.readouterr().out
    assert command_line.main(["compare", old, slow, "--limit", "5"]) == 0
    assert command_line.main(["compare", old, "--old", "upstream"]) == command_line.UNUSABLE
    assert command_line.main(["run", "--cases", "nothing"]) == command_line.UNUSABLE
