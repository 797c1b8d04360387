"""How far results are off: `python -m tests.op.harness.errors [TEXT]`, for cases whose id holds TEXT.

One line for each operator and type: the largest error in ulps, the largest share of what is allowed, and where.
"""

import sys

import numpy as np

from . import driver
from .check import node_of, tolerance_for, wanted_of
from .compare import float_errors
from .dtypes import is_float
from .families import all_cases
from .node import default_seed


def main() -> int:
    """Prints the table."""
    library = driver.load()
    worst: dict[tuple[str, str], tuple[float, float, str]] = {}
    for name, bound in all_cases().items():
        if bound.case.error is not None or not any(text in name for text in sys.argv[1:] or [""]):
            continue
        seed = default_seed(bound)
        node = node_of(bound, seed)
        result = library.run(node.spec(), driver.USER_STREAM)
        wanted, scales = wanted_of(bound, seed)
        for got, want, scale, dtype in zip(*result.launches[:1], wanted, scales, node.outputs, strict=False):
            if got is None or want is None or not is_float(dtype) or got.shape != want.shape or not got.size:
                continue
            errors, allowed, unit = float_errors(got, want, tolerance_for(bound, dtype), scale)
            with np.errstate(all="ignore"):
                share = np.where(errors == 0, 0.0, errors / allowed)
            place = int(np.argmax(share))
            before = worst.get((bound.case.op, dtype), (-1.0, 0.0, ""))
            most = max(before[1], float((errors / unit).max()))
            here = float(share.reshape(-1)[place])
            worst[bound.case.op, dtype] = (here, most, name) if here > before[0] else (before[0], most, before[2])
    print(f"{'operator':32} {'type':10} {'ulps':>10} {'share':>8}  worst case")
    for (op, dtype), (share, most, name) in sorted(worst.items()):
        print(f"{op:32} {dtype:10} {most:10.3g} {share:8.2f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
