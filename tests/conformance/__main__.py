"""All ONNX node tests through the host on the plug-in, in child processes; a table, and JSON with every case.

    python -m tests.conformance [--only TEXT] [--json FILE] [--at-least N] [--timeout SECONDS]

The library is that of CUDAEP_TEST_LIB_DIR, of build/sim without it. A child that dies or takes longer than the time-out
makes its case a "crash", and another child goes on behind it. Exit code 1: a result was wrong with every node on the
plug-in, a Run failed that the CPU provider can do, a case crashed, or fewer than --at-least were right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.children import ROOT, Child, run_all
from tests.session import host

from . import node_cases
from .node_cases import NodeCase

FOLDER = ROOT / "build" / "conformance"


def start() -> Child:
    """A worker on the cases."""
    return Child([sys.executable, "-m", "tests.conformance.worker", str(FOLDER)])


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
    found = summary(cases, dict(run_all(start, numbers, arguments.timeout)))
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
