"""Runs single cases: `python -m tests.op.harness.rerun binary/Add-14-float32-2x3_3x1 --mode graph --seed 7`."""

import argparse
import sys

from ...session import host
from . import driver
from .check import CaseError, node_of, run_case
from .dtypes import name_of
from .families import all_cases
from .modes import modes_of
from .node import default_seed


def main() -> int:
    """Runs the cases whose id holds the given text; 1 when one fails, 2 when there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.op.harness.rerun", description=__doc__)
    parser.add_argument("case", help="id of a case, or a part of it")
    parser.add_argument(
        "--mode", help="user_stream, graph, shifted, sliced, create, in_place, alias or session; the case's own without"
    )
    parser.add_argument("--seed", type=int, help="instead of the case's own")
    arguments = parser.parse_args()

    table = all_cases()
    chosen = [table[arguments.case]] if arguments.case in table else [
        bound for name, bound in table.items() if arguments.case in name
    ]  # fmt: skip
    if not chosen:
        print(f"no case has {arguments.case!r} in its id", file=sys.stderr)
        return 2
    failed = 0
    for bound in chosen:
        seed = default_seed(bound) if arguments.seed is None else arguments.seed
        node = node_of(bound, seed)
        inputs = ", ".join("absent" if x is None else f"{name_of(x)}{list(x.shape)}" for x in node.first)
        print(f"{bound.id}: {inputs} {dict(node.attrs) or ''} seed {seed}")
        row = driver.load().row(bound.case.domain, bound.case.op, bound.schema.since)
        for mode in [arguments.mode] if arguments.mode else modes_of(bound, row):
            if mode in bound.case.skip or (mode == "session" and host.plugin_path() is None):
                print(f"  {mode}: skipped, {bound.case.skip.get(mode, 'no plug-in library has been built')}")
                continue
            try:
                run_case(bound, mode, seed)
                print(f"  {mode}: ok")
            except CaseError as error:
                failed += 1
                print(f"  {mode}: FAILED\n{error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
