"""Runs the C++ tests of build/sim through ctest, then pytest on tests/, one process a core; ends with a line of both.

Finding no tests in either is a failure. A skip is counted and, by pytest and ctest, reported with its reason.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sim"


def count_results(report: Path) -> Counter[str]:
    """passed, failed and skipped test cases in a JUnit report; all zero when there is no readable report."""
    counts: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    try:
        tree = ElementTree.parse(report)
    except (OSError, ElementTree.ParseError):
        return counts
    for case in tree.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            counts["failed"] += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def run(name: str, command: list[str], report: Path) -> tuple[Counter[str], bool]:
    """Runs one test program that writes `report`; the second value is whether it found tests and reported success."""
    report.unlink(missing_ok=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    counts = count_results(report)
    if not counts.total():
        print(f"{name}: no tests were found, which is a failure", file=sys.stderr)
    return counts, status == 0 and counts.total() > 0 and counts["failed"] == 0


def main() -> None:
    """Runs both; arguments go to pytest."""
    jobs = str(os.cpu_count() or 1)
    cpp, python = BUILD / "ctest.xml", BUILD / "pytest.xml"
    ctest = ["ctest", "--preset", "sim", "--parallel", jobs, "--output-junit", str(cpp), "--progress"]
    # By file: what the tests of one file share, a child process for each suite and host, is made once.
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile", f"--junitxml={python}", "tests"]
    pytest += sys.argv[1:]
    cpp_counts, cpp_ok = run("ctest", ctest, cpp)
    python_counts, python_ok = run("pytest", pytest, python)
    total = cpp_counts + python_counts
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    sys.exit(not (cpp_ok and python_ok))


if __name__ == "__main__":
    main()
