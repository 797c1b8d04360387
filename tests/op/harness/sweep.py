"""A small set of cases that runs every family of kernels: `python -m tests.op.harness.sweep [--part 2/8]`.

For tools that slow kernels down a hundredfold, as compute-sanitizer does: for each operator and class of types the case
with the fewest elements that still fill more than one block, in one launch each. Parts run beside each other.
"""

import argparse
import math
import sys
import time

from . import driver
from .case import BoundCase
from .check import CaseError, run_case
from .dtypes import COMPLEX, FLOAT8, NARROW, is_float
from .families import all_cases
from .inputs import shape_of

_WANTED_ELEMS = 2000  # several warps or blocks
_MOST_ELEMS = 70_000  # of one case


def main() -> int:
    """Runs the set; 1 when a case fails, 2 when there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.op.harness.sweep", description=__doc__)
    parser.add_argument("--part", default="1/1", help="of how many equal parts which one, from 1: 2/8")
    parser.add_argument(
        "--mode", default="shifted", help="a mode of the cases; shifted also runs the unpacked variants"
    )
    parser.add_argument("--list", action="store_true", help="only name the cases")
    arguments = parser.parse_args()
    part, parts = (int(text) for text in arguments.part.split("/"))
    chosen = chosen_cases()[part - 1 :: parts]
    failed, start = 0, time.monotonic()
    for bound in chosen:
        if arguments.list:
            print(bound.id)
            continue
        for mode in ("user_stream", arguments.mode):
            try:
                run_case(bound, mode)
            except CaseError as error:
                failed += 1
                print(error)
    print(f"{len(chosen)} cases, {failed} failed, {time.monotonic() - start:.0f} s")
    return 2 if not chosen else 1 if failed else 0


def chosen_cases() -> list[BoundCase]:
    """One case for each registered operator and class of types."""
    best: dict[tuple[str, str, str], BoundCase] = {}
    library = driver.load()
    for bound in all_cases().values():
        if bound.case.error is not None or not library.row(bound.case.domain, bound.case.op, bound.schema.since):
            continue
        key = (bound.case.domain, bound.case.op, _class_of(bound.dtype or bound.input_type(0) or "float32"))
        if key not in best or _cost(bound) < _cost(best[key]):
            best[key] = bound
    return list(best.values())


def _class_of(dtype: str) -> str:
    if dtype in FLOAT8 or dtype in COMPLEX:
        return "moved"
    if dtype in NARROW:
        return "narrow"
    return "float" if is_float(dtype) else "integer"


def _cost(bound: BoundCase) -> tuple[bool, int, str]:
    """Small is good; too small to fill a block, or too large for a sanitizer, is bad."""
    elems = max((math.prod(shape_of(spec)) for spec in bound.case.inputs if spec is not None), default=0)
    return elems > _MOST_ELEMS, abs(elems - _WANTED_ELEMS), bound.id


if __name__ == "__main__":
    sys.exit(main())
