"""The host matrix: what counts as a failure, and what is reported."""

import json
import sys
from pathlib import Path

import hosts
import matrix
import pytest

OWN = hosts.NEWEST


def suite_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> matrix.Suite:
    """A suite whose module holds `body`."""
    (tmp_path / "made_suite.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return matrix.Suite("made_suite", {"MADE": "7"})


def line(check: str, failure: str = "", skipped: str = "") -> str:
    return f"print({json.dumps({'check': check, 'failure': failure, 'skipped': skipped})!r}, flush=True)\n"


def outcomes(results: list[matrix.Result]) -> list[tuple[str, str, str]]:
    return [(result.check, result.outcome, result.detail) for result in results]


def test_results_are_those_of_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "import os, sys\nassert os.environ['MADE'] == '7' and sys.argv[1].endswith('lib.so')\nprint('{noise')\n"
    body += line("check_a") + line("check_b", failure="boom") + line("check_c", skipped="too old")
    found = matrix.run_suite(suite_of(tmp_path, monkeypatch, body), OWN, tmp_path / "lib.so")
    assert outcomes(found) == [
        ("check_a", "passed", ""),
        ("check_b", "failed", "boom"),
        ("check_c", "skipped", "too old"),
        ("exit", "passed", ""),
    ]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("pass", "no check ran"),
        (line("check_a") + "import sys; sys.exit(3)", "exit code 3"),
        (line("check_a") + "import os; os.kill(os.getpid(), 11)", "exit code -11"),
        ("raise RuntimeError('early')", "RuntimeError: early"),
    ],
)
def test_a_suite_that_ends_badly_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, detail: str
) -> None:
    found = matrix.run_suite(suite_of(tmp_path, monkeypatch, body), OWN, tmp_path / "lib.so")[-1]
    assert (found.check, found.outcome) == ("exit", "failed")
    assert detail in found.detail


def test_a_suite_that_never_ends_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "TIMEOUT_S", 0.5)
    suite = suite_of(tmp_path, monkeypatch, "import time; time.sleep(60)")
    (found,) = matrix.run_suite(suite, OWN, tmp_path / "lib.so")
    assert found.outcome == "failed" and "still running" in found.detail


def test_a_host_that_cannot_be_had_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*args: object, **_: object) -> None:
        raise hosts.subprocess.CalledProcessError(1, "pip")

    monkeypatch.setenv("ORT_CUDA_EP_HOSTS", str(tmp_path))
    monkeypatch.setattr(hosts.subprocess, "run", no_network)
    (found,) = matrix.run_suite(matrix.SUITES[0], "0.0.1", tmp_path / "lib.so")
    assert found.outcome == "failed" and "0.0.1 could not be installed" in found.detail


@pytest.mark.parametrize("failing", [False, True])
def test_table_json_and_exit_code_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: bool
) -> None:
    library, report = tmp_path / "lib.so", tmp_path / "report.json"
    library.touch()
    body = line("check_a") + line("check_b", failure="boom" if failing else "") + line("check_c", skipped="old")
    monkeypatch.setattr(matrix, "SUITES", (suite_of(tmp_path, monkeypatch, body),))
    monkeypatch.setattr(sys, "argv", ["matrix.py", "--library", str(library), "--json", str(report), OWN])
    with pytest.raises(SystemExit) as end:
        matrix.main()
    assert bool(end.value.code) == failing
    found = json.loads(report.read_text())
    counts = found["hosts"][OWN]
    assert found["ok"] is not failing
    expected = (2, 1, 1) if failing else (3, 0, 1)
    assert (counts["passed"], counts["failed"], counts["skipped"]) == expected
    assert [entry["check"] for entry in counts["checks"]] == ["check_a", "check_b", "check_c", "exit"]
    printed = capsys.readouterr().out
    assert OWN in printed and ("boom" in printed) == failing


def test_a_missing_library_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["matrix.py", "--library", "/nowhere.so"])
    with pytest.raises(SystemExit) as end:
        matrix.main()
    assert end.value.code == 2
    assert "/nowhere.so does not exist" in capsys.readouterr().err


def test_the_suites_exist() -> None:
    for suite in matrix.SUITES:
        assert (hosts.ROOT / f"{suite.module.replace('.', '/')}.py").is_file()


def test_every_minor_version_is_there_once() -> None:
    minors = [tuple(int(part) for part in version.split(".")[:2]) for version in hosts.SUPPORTED]
    assert minors == [(1, minor) for minor in range(minors[0][1], minors[-1][1] + 1)]
