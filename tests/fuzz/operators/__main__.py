"""Fuzzes single operators against the CPU provider and ONNX's reference: `make fuzz-operators CASES=20000`.

    python -m tests.fuzz.operators [--cases N | --seconds S] [--first NUMBER] [--only OP ...] [--json FILE] [--jobs N]
    python -m tests.fuzz.operators --case Conv/17

A case is known by its operator and a number, which make its version, types, attributes, shapes and values; it changes
when the operator's rows or its spec (specs/) do. Cases run in child processes. Exit code 1: an outcome of BAD.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.children import ROOT, Child, Outcome, run_all
from tests.op.harness import driver
from tests.session import host

from .specs import LEFT_OUT, LEFT_OUT_DOMAINS, specs

# The outcomes. The node was on the plug-in in all but "elsewhere" and "unloadable".
OUTCOMES = {
    "right": "as the first judge that agrees has it",
    "elsewhere": "the provider refused the node when it was made, so it runs on the CPU provider",
    "unloadable": "the host takes no such model, with us or without",
    "both fail": "a Run that fails here fails on the CPU provider too, or nobody can judge it",
    "unjudged": "ran, and nobody else has the type or version",
    "host crash": "the host dies of it without us too",
    "wrong": "no judge agrees",
    "error": "a Run failed that a judge can do",
    "refused": "no session with us, but one without",
    "crash": "the child died or took too long",
    "no case": "the spec failed to draw it, or a judge to judge",
}
BAD = ("wrong", "error", "refused", "crash", "no case")

_WORKER = [sys.executable, "-m", "tests.fuzz.operators.worker"]


def operators() -> tuple[list[str], list[str]]:
    """Names of the registry's operators that have a spec, and of those that lack one."""
    keys = sorted({(row.domain, row.op) for row in driver.load().rows if row.domain not in LEFT_OUT_DOMAINS})
    known = [key for key in keys if key not in LEFT_OUT]
    names = {key: ".".join(filter(None, key)) for key in known}
    return [names[key] for key in known if key in specs()], [names[key] for key in known if key not in specs()]


def case_names(ops: Sequence[str], first: int, cases: int | None, seconds: float | None) -> Iterator[str]:
    """Each operator in turn, for so many cases or so long."""
    end = None if seconds is None else time.monotonic() + seconds
    endless = (f"{op}/{number}" for number in itertools.count(first) for op in ops)
    for name in itertools.islice(endless, cases):
        if end is not None and time.monotonic() >= end:
            return
        yield name


def campaign(names: Iterator[str], timeout: float = 60, jobs: int | None = None) -> dict[str, Any]:
    """Runs cases and counts."""
    counts: Counter[str] = Counter()
    judges: Counter[str] = Counter()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    failures = []
    for name, outcome in run_all(lambda: Child(_WORKER), names, timeout, jobs):
        if outcome["outcome"] == "crash":
            outcome = _whose(name, outcome, timeout)
        kind = outcome["outcome"]
        counts[kind] += 1
        judges[outcome.get("judge", "")] += 1
        table[name.rsplit("/", 1)[0]][kind] += 1
        if kind in BAD:
            failures.append({"name": name, **outcome, "again": again(name)})
    reached = {op for op, kinds in table.items() if set(kinds) - {"elsewhere", "unloadable", "no case"}}
    return {
        "cases": counts.total(),
        "outcomes": dict(counts.most_common()),
        "judges": {judge: count for judge, count in judges.most_common() if judge},
        "never on the plug-in": sorted(table.keys() - reached),
        "failures": sorted(failures, key=lambda failure: failure["name"]),
        "operators": {op: dict(kinds) for op, kinds in sorted(table.items())},
    }


def _whose(name: str, outcome: Outcome, timeout: float) -> Outcome:
    """A crash that the host has without us is the host's."""
    child = Child(_WORKER)
    alone = child.run(f"{name} cpu", timeout)
    child.end()
    return outcome if alone is not None else {**outcome, "outcome": "host crash"}


def again(name: str) -> str:
    """The command that repeats a case."""
    return f"PYTHONPATH=python:. .venv/bin/python -m tests.fuzz.operators --case {name}"


def _one(name: str) -> Outcome:
    from . import worker

    host.devices()
    print(worker.make_case(name), flush=True)  # before it runs, for it may not come back
    return worker.run_case(name)


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--case", help="run this one here and now, and print what came of it")
    parser.add_argument("--cases", type=int, help="how many; 2000 without --seconds")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each operator")
    parser.add_argument("--only", nargs="*", default=[], help="these operators alone")
    parser.add_argument("--json", type=Path, default=ROOT / "build/fuzz/operators.json", help="where the result goes")
    parser.add_argument("--jobs", type=int, help="child processes; one a core without it")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that one case may take")
    args = parser.parse_args()
    if host.plugin_path() is None:
        sys.exit("fuzz: no library has been built: make sim")
    if args.case:
        found = _one(args.case)
        print(json.dumps(found, indent=1))
        sys.exit(found["outcome"] in BAD)
    ops, without = operators()
    if unknown := {*args.only} - {*ops}:
        sys.exit(f"fuzz: no spec of {', '.join(sorted(unknown))}")
    cases = args.cases if args.cases or args.seconds else 2000
    result = campaign(case_names(args.only or ops, args.first, cases, args.seconds), args.timeout, args.jobs)
    result["without a spec"] = without
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    for failure in result["failures"]:
        print(f"{failure['outcome']}: {failure['name']}: {failure.get('case', '')}\n  {failure['detail']}")
        print(f"  {failure['again']}")
    for name in ("never on the plug-in", "without a spec"):
        if result[name]:
            print(f"{name}: {', '.join(result[name])}")
    print(json.dumps({key: result[key] for key in ("cases", "outcomes", "judges")}))
    sys.exit(bool(result["failures"]))


if __name__ == "__main__":
    main()
