"""Runs the C++ tests of build/sim, then pytest on tests/, one process a core; ends with a line of both.

Finding no tests in either is a failure, as is a test program that ends early. A skip is counted and, by pytest,
reported with its reason. A C++ test program is one process; `ctest --preset sim` gives each of its tests one.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sim"
# There is a process a core: threads that numpy's library starts in each only take turns with them.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


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


def run(name: str, command: list[str], report: Path, quiet: bool = False) -> tuple[Counter[str], bool]:
    """Runs one test program that writes `report`; the second value is whether it found tests and reported success.

    quiet: its output is shown only when it fails.
    """
    report.unlink(missing_ok=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    kept = subprocess.PIPE if quiet else None
    child = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=kept, stderr=subprocess.STDOUT if quiet else None, check=False
    )
    counts = count_results(report)
    ok = child.returncode == 0 and counts.total() > 0 and counts["failed"] == 0
    if quiet and not ok:
        sys.stdout.write(child.stdout.decode(errors="replace"))
    if not counts.total():
        print(f"{name}: no tests were found, which is a failure", file=sys.stderr)
    if child.returncode < 0:
        print(f"{name}: ended by signal {-child.returncode}", file=sys.stderr)
    return counts, ok


def cpp_programs() -> list[Path]:
    """The programs that ctest knows tests of, those with most tests first."""
    listed = subprocess.run(
        ["ctest", "--preset", "sim", "--show-only=json-v1"], cwd=ROOT, check=True, capture_output=True
    )
    tests = Counter(test["command"][0] for test in json.loads(listed.stdout)["tests"])
    return [Path(program) for program, _ in tests.most_common()]


def run_cpp(jobs: int) -> tuple[Counter[str], bool]:
    """All of them, `jobs` at a time, and whether each of them is well."""

    def run_one(program: Path) -> tuple[Counter[str], bool]:
        report = BUILD / "reports" / f"{program.name}.xml"
        counts, ok = run(program.name, [str(program), "--gtest_brief=1", f"--gtest_output=xml:{report}"], report, True)
        print(f"{program.name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
        return counts, ok

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(run_one, cpp_programs()))
    return sum((counts for counts, _ in results), Counter()), bool(results) and all(ok for _, ok in results)


def main() -> None:
    """Runs both; arguments go to pytest."""
    jobs = os.cpu_count() or 1
    report = BUILD / "pytest.xml"
    # By file: what the tests of one file share, a child process for each suite and host, is made once.
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "loadfile", f"--junitxml={report}"]
    cpp_counts, cpp_ok = run_cpp(jobs)
    python_counts, python_ok = run("pytest", [*pytest, "tests", *sys.argv[1:]], report)
    total = cpp_counts + python_counts
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    sys.exit(not (cpp_ok and python_ok))


if __name__ == "__main__":
    main()
