"""The first cases of the fuzzer, always the same, and everything that ever failed; `make fuzz` has the campaign."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from tests.session.programs import shared_library

from . import campaign

COUNT = 800  # of each kind: some two seconds
CASES = sorted(campaign.CORPUS.glob("*.case"))


@pytest.fixture(scope="module")
def program(test_library: str, tmp_path_factory: pytest.TempPathFactory) -> campaign.Program:
    host = shared_library(onnxruntime.__version__)
    return campaign.Program(host, Path(test_library), tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_corpus(case: Path, program: campaign.Program) -> None:
    code, errors = program.replay(case)
    assert code == 0, errors


def test_corpus_is_there() -> None:
    assert CASES


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", campaign.KINDS)
def test_fuzz(kind: str, program: campaign.Program, tmp_path: Path) -> None:
    result = campaign.Result()
    number = 1
    while number <= COUNT:
        number = program.fuzz(kind, number, result, tmp_path / "failures", seconds=300, cases=COUNT + 1 - number)
    assert not result.ours, "\n".join(map(str, result.ours))
    counts = result.counts
    assert counts["cases"] == COUNT, counts
    # A fuzzer that is refused everywhere tests nothing behind the first check.
    assert counts["created"] > COUNT / 8, counts
    assert counts["ran"] > COUNT / 12, counts


def test_a_finding_is_kept_and_told(program: campaign.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is lost while it works is what the fuzzer must not overlook."""
    monkeypatch.setitem(program.environment, "CUDAEP_SIM_LOSE_DEVICE_AT", "40")
    result = campaign.Result()
    program.fuzz("models", 1, result, tmp_path, seconds=30)
    (failure,) = result.failures
    assert "DEVICE_LOST" in failure.what
    assert not failure.host_alone
    assert failure.file.is_file()
    # What the cases before it came to is not lost with the child.
    assert result.counts["cases"] == failure.number
    assert 0 < result.counts["created"] < failure.number
    monkeypatch.setitem(program.environment, "CUDAEP_SIM_LOSE_DEVICE_AT", "1")
    code, errors = program.replay(failure.file)
    assert code == 3, errors
    assert "CUDAEP_SIM_LOSE_DEVICE_AT" in errors


@pytest.mark.parametrize(
    "name",
    [
        "split-fewer-num-outputs",
        "max-input-left-out",
        "gather-nd-batch-dims-negative",
        "group-query-attention-kv-num-heads-overflow",
    ],
)
def test_known_bugs_of_the_host(name: str, program: campaign.Program) -> None:
    """Without the plug-in too; once this fails, the generator need not avoid such models any more (host_bugs.cc)."""
    code, _ = program.replay(campaign.CORPUS / "host" / f"{name}.case", "--cpu")
    assert code < 0, code
