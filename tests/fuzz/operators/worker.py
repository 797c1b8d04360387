"""Runs fuzz cases: names come on standard input, a JSON line for each goes to standard output.

    python -m tests.fuzz.operators.worker

A line is "Conv/17", or "Conv/17 cpu" to run it without the plug-in, which tells whose a crash is. The outcomes are in
campaign.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

from tests.op.harness import driver
from tests.op.harness.driver import Row
from tests.op.harness.dtypes import is_float, name_of
from tests.session import host

from . import judge, model
from .specs import specs

BREAK_VARIABLE = "CUDAEP_FUZZ_BREAK"  # for this program's own test: "values" or "kill"


def rows_of(name: str) -> tuple[tuple[str, str], list[Row]]:
    """The operator of a case, and its rows."""
    domain, _, op = name.rsplit("/", 1)[0].rpartition(".")
    return (domain, op), [row for row in driver.load().rows if (row.domain, row.op) == (domain, op)]


def make_case(name: str) -> model.OpCase:
    """The case of a name. KeyError where the registry or the specs have no such operator."""
    key, rows = rows_of(name)
    if not rows:
        raise KeyError(f"the registry has no {name}")
    return model.make(name, specs()[key], rows)


def run_case(name: str, *, cpu: bool = False) -> dict[str, Any]:
    """Outcome of one case."""
    try:
        case = make_case(name)
        found = judge.judge(case, (lambda one: judge.on_cpu(one.model)) if cpu else _ours)
    except Exception as error:
        return {"outcome": "no case", "detail": f"{type(error).__name__}: {judge.line(error)}"}
    types = sorted({name_of(array) for array in case.node.inputs if array is not None})
    return {**vars(found), "case": str(case), "version": case.version, "types": types}


def _ours(case: model.OpCase) -> Any:
    run = judge.on_plugin(case)
    kind = os.environ.get(BREAK_VARIABLE)
    return run if not kind else lambda feeds: _broken(run(feeds), kind)


def _broken(results: list[np.ndarray], kind: str) -> list[np.ndarray]:
    """Results with one value moved, or none at all: what the campaign must notice."""
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    moved = [np.array(array) for array in results]
    for array in moved:
        if array.size:
            flat = array.reshape(-1)
            flat[-1:] = flat[-1:] + np.ones(1, array.dtype) if is_float(name_of(array)) else flat[-1:] == 0
            break
    return moved


def main() -> None:
    """Runs the cases whose names come in."""
    host.devices()
    for line in sys.stdin:
        name, _, how = line.strip().partition(" ")
        print(json.dumps({"name": name, **run_case(name, cpu=how == "cpu")}), flush=True)


if __name__ == "__main__":
    main()
