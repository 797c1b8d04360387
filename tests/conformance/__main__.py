"""All ONNX node tests through the host on the plug-in, in child processes; a table, and JSON with every case.

    python -m tests.conformance [--only TEXT] [--json FILE] [--at-least N] [--timeout SECONDS]

The library is that of CUDAEP_TEST_LIB_DIR, of build/sim without it. A child that dies or takes longer than the time-out
makes its case a "crash", and another child goes on behind it. Exit code 1: a result was wrong with every node on the
plug-in, a Run failed that the CPU provider can do, a case crashed, or fewer than --at-least were right.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.session import host

from . import node_cases
from .node_cases import NodeCase

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "conformance"


class Child:
    """A worker process that takes one case at a time."""

    def __init__(self) -> None:
        self.start([sys.executable, "-m", "tests.conformance.worker", str(FOLDER)])

    def start(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, number: int, timeout: float) -> dict[str, Any] | None:
        """The outcome, or None when the child died or took too long; it is of no use after that."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        end = time.monotonic() + timeout
        while select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            line = self._process.stdout.readline()
            if not line:
                return None
            if line.startswith("{"):
                outcome: dict[str, Any] = json.loads(line)
                return outcome
        return None

    def end(self) -> str:
        """Ends it and says how."""
        self._process.kill()
        return f"exit code {self._process.wait()}"


def run_all(cases: list[NodeCase], numbers: list[int], timeout: float) -> dict[int, dict[str, Any]]:
    """Outcomes by number."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        waiting.put(number)
    outcomes: dict[int, dict[str, Any]] = {}

    def work() -> None:
        child = Child()
        while True:
            try:
                number = waiting.get_nowait()
            except Empty:
                child.end()
                return
            outcome = child.run(number, timeout)
            if outcome is None:
                outcomes[number] = {"outcome": "crash", "detail": child.end()}
                child = Child()
            else:
                outcomes[number] = outcome

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for future in [pool.submit(work) for _ in range(min(os.cpu_count() or 1, len(numbers)))]:
            future.result()
    return outcomes


def kind_of(outcome: dict[str, Any]) -> str:
    """What a case counts as: right and wrong ones are told apart by whether every node was on the plug-in."""
    if outcome["outcome"] not in ("right", "wrong", "error"):
        return str(outcome["outcome"])
    ours = set(outcome.get("providers", {})) == {host.EP_NAME}
    return f"{outcome['outcome']} {'on the plug-in' if ours else 'with nodes elsewhere'}"


def summary(cases: list[NodeCase], outcomes: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Counts, the operators that keep cases from being whole, and each case."""
    rows = [
        {"name": cases[number].name, "kind": kind_of(outcome), **outcome}
        for number, outcome in sorted(outcomes.items())
    ]
    counts = Counter(row["kind"] for row in rows)
    missing: Counter[str] = Counter()
    for row in rows:
        missing.update(set(row.get("elsewhere", {})))
    loadable = sum(count for kind, count in counts.items() if kind != "unloadable")
    return {
        "total": len(rows),
        "loadable": loadable,
        "counts": dict(counts.most_common()),
        "missing": dict(missing.most_common()),
        "cases": rows,
    }


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--json", type=Path, default=FOLDER / "node-tests.json", help="where every outcome goes")
    parser.add_argument(
        "--at-least", type=int, default=0, help="cases that must be right with every node on the plug-in"
    )
    parser.add_argument("--timeout", type=float, default=60, help="seconds that one case may take")
    arguments = parser.parse_args()
    if host.plugin_path() is None:
        sys.exit("conformance: no library has been built: make sim")
    cases = node_cases.load(FOLDER)
    numbers = [number for number, case in enumerate(cases) if arguments.only in case.name]
    if not numbers:
        sys.exit(f"conformance: no case is named like {arguments.only}")
    found = summary(cases, run_all(cases, numbers, arguments.timeout))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    bad = ("wrong on the plug-in", "error on the plug-in", "refused", "crash")
    for row in found["cases"]:
        if row["kind"] in bad:
            print(f"{row['kind']}: {row['name']}: {row['detail']}")
    print(f"{found['total']} cases, {found['loadable']} loadable")
    for kind, count in found["counts"].items():
        print(f"{count:6} {kind}")
    print(
        "not on the plug-in, cases: " + ", ".join(f"{op} {count}" for op, count in list(found["missing"].items())[:60])
    )
    right = found["counts"].get("right on the plug-in", 0)
    sys.exit(right < arguments.at_least or any(found["counts"].get(kind) for kind in bad))


if __name__ == "__main__":
    main()
