"""The throughput driver (bench/run_rate): that it runs, checks what it runs, and fails when it should.

How fast Runs are is measured on a GPU (tests/gpu/stream_suite.py); a simulated device is no faster with more threads.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import throughput
from tests.session.programs import VERSIONS, Program

QUICK = ("--seconds", "0.1", "--threads", "1,2,5")


class RunRate(Program):
    """Calling it measures one of the default models and returns its report."""

    def __init__(self, version: str, library: str, folder: Path) -> None:
        super().__init__("run_rate", version, library)
        self.report = folder / "report.json"
        self._model = folder / "model.onnx"

    def __call__(self, model: bytes, *words: str, **environment: str) -> dict[str, Any]:
        self._model.write_bytes(model)
        plugin = ("--plugin", self.library, "--json", str(self.report))
        self.run(self.host, self._model, *plugin, *QUICK, *words, **environment)
        report: dict[str, Any] = json.loads(self.report.read_text())
        return report


@pytest.fixture(params=VERSIONS)
def run_rate(request: pytest.FixtureRequest, test_library: str, tmp_path: Path) -> RunRate:
    return RunRate(request.param, test_library, tmp_path)


@pytest.mark.parametrize(
    ("model", "bare"), [row[1:] for row in throughput.MODELS], ids=[row[0] for row in throughput.MODELS]
)
def test_every_run_succeeds_and_is_right(run_rate: RunRate, model: bytes, bare: str) -> None:
    report = run_rate(model, "--check-all", "--bare", bare)
    assert report["provider"] == "plug-in" and report["results_checked"]
    for kind in ("hosts", "callers", "bare"):
        rates = throughput.rates(report, kind)
        assert list(rates) == [1, 2, 5], kind
        assert all(rate > 0 for rate in rates.values()), rates
    for entry in [*report["hosts"], *report["callers"]]:
        assert 0 <= entry["largest_difference"] <= 0.01
        assert entry["user_us"] + entry["system_us"] + entry["others_us"] > 0
        assert entry["run_us"] == pytest.approx(1e6 * entry["threads"] / entry["runs_per_second"], rel=0.01)


def test_a_profile_says_where_threads_are(run_rate: RunRate) -> None:
    report = run_rate(throughput.MODELS[0][1], "--profile", "--streams", "hosts", "--seconds", "0.5")
    assert "callers" not in report
    for entry in report["hosts"]:
        assert sum(entry["libraries"].values()) == pytest.approx(1, abs=1e-3)
        assert entry["places"]
        if run_rate.library.endswith("_sim.so"):  # where waiting is done by this library, not by the driver's
            assert Path(run_rate.library).name in entry["libraries"], entry["libraries"]


def failure(run_rate: RunRate, *words: str, **environment: str) -> str:
    with pytest.raises(AssertionError, match="exit code") as caught:
        run_rate(throughput.MODELS[0][1], *words, **environment)
    return str(caught.value)


def test_a_wrong_result_is_a_failure(run_rate: RunRate) -> None:
    """No result is as close as this wants it."""
    assert "output v8 differs" in failure(run_rate, "--tolerance", "-1")


def test_a_run_that_fails_is_a_failure(run_rate: RunRate) -> None:
    if not run_rate.library.endswith("_sim.so"):
        pytest.skip("only a simulated device can be lost on purpose")
    assert "DEVICE_LOST" in failure(run_rate, CUDAEP_SIM_LOSE_DEVICE_AT="400")


@pytest.mark.parametrize("words", [("--threads", "0"), ("--streams", "none"), ("--frobnicate", "1")])
def test_what_it_does_not_know_is_refused(run_rate: RunRate, words: tuple[str, str]) -> None:
    assert "usage" in failure(run_rate, *words)


def test_a_host_without_the_cuda_provider_says_so(run_rate: RunRate, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(throughput.MODELS[0][1])
    command = [str(run_rate.path), run_rate.host, str(model), "--provider", "cuda"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 1 and "CUDA" in child.stderr, child.stderr


@pytest.mark.parametrize(
    ("rates", "bare", "expected"),
    [
        ((100, 400), (1000, 16000), ""),  # as wanted
        ((100, 250), (120, 300), ""),  # the driver does not scale either
        ((100, 390), (120, 1900), "16 threads give 3.90 times the Runs of one, 4 are wanted, and only 21% of what"),
        ((100, 80), (120, 300), "give 0.80 times"),
    ],
)
def test_the_verdict(rates: tuple[float, float], bare: tuple[float, float], expected: str) -> None:
    """Scaling as wanted or a saturated driver pass, anything else is named."""

    def entries(values: tuple[float, float]) -> list[dict[str, float]]:
        return [{"threads": threads, "runs_per_second": rate} for threads, rate in zip((1, 16), values, strict=True)]

    found = throughput.shortfall({"hosts": entries(rates), "bare": entries(bare)}, "hosts")
    assert expected in found and bool(found) == bool(expected)
