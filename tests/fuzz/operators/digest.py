"""Which bits each operator gives under `use_deterministic_compute`: some cases of each, for another process to compare.

    python -m tests.fuzz.operators.digest

Prints JSON: the case's name, and a digest of its outputs on the provider. Cases of which there are none are left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from . import __main__ as fuzz
from . import judge, worker

CASES = 3  # of an operator


def digest(name: str) -> str:
    """Of the outputs of a case's first feeds; empty where the node is not on the provider or fails."""
    case = replace(worker.make_case(name), deterministic=True)
    try:
        outputs = judge.on_plugin(case)(case.feeds[0])
    except Exception:
        return ""
    found = hashlib.sha256()
    for output in outputs:
        found.update(f"{output.dtype}{output.shape}".encode())
        found.update(output.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    found = {name: digest(name) for name in (f"{op}/{number}" for op in fuzz.operators()[0] for number in range(CASES))}
    print(json.dumps({name: text for name, text in found.items() if text}))
