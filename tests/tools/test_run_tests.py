"""The test driver counts both reports and never calls an empty run a success."""

import sys
from pathlib import Path

import pytest
import run_tests

CTEST = """<testsuite tests="4">
<testcase name="a" status="run"/><testcase name="b" status="fail"><failure message=""/></testcase>
<testcase name="c" status="notrun"><skipped message="SKIP"/></testcase><testcase name="d" status="disabled"/>
</testsuite>"""
PYTEST = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><error/></testcase>
<testcase name="c"><skipped message="no GPU"/></testcase></testsuite></testsuites>"""


def test_counts_ctest_and_pytest_reports(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(CTEST)
    assert run_tests.count_results(report) == {"passed": 1, "failed": 1, "skipped": 2}
    report.write_text(PYTEST)
    assert run_tests.count_results(report) == {"passed": 1, "failed": 1, "skipped": 1}


def run_python(report: Path, code: str) -> bool:
    return run_tests.run("child", [sys.executable, "-c", f"from pathlib import Path\n{code}"], report)[1]


def test_no_tests_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert not run_python(report, "")
    assert not run_python(report, f"Path({str(report)!r}).write_text('<testsuite/>')")


def test_a_crash_after_good_results_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    good = f"Path({str(report)!r}).write_text('<testsuite><testcase/></testsuite>')"
    assert run_python(report, good)
    assert not run_python(report, f"{good}\nraise SystemExit(3)")


def test_an_early_end_is_a_failure_and_shows_its_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import os\nprint('last words', flush=True)\nos.kill(os.getpid(), 11)"
    counts, ok = run_tests.run("child", [sys.executable, "-c", code], tmp_path / "report.xml", quiet=True)
    told = capsys.readouterr()
    assert not ok and not counts.total()
    assert "last words" in told.out and "ended by signal 11" in told.err


def test_an_old_report_does_not_count(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(PYTEST)
    assert not run_python(report, "")
