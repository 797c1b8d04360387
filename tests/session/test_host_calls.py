"""What a node costs in calls into the host, counted by a plug-in that stands in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def calls(test_library: str, kind: str) -> float:
    proxy = Path(test_library).parent / "libcounting_proxy.so"
    if not proxy.exists():
        pytest.fail(f"{proxy} is not built")
    child = subprocess.run(
        [sys.executable, "-m", "tests.session.proxy_run", str(proxy), kind],
        env={**os.environ, "CUDAEP_PROXIED_LIBRARY": test_library},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return float(child.stdout)


@pytest.mark.parametrize(("second_input", "most"), [("fed", 9), ("constant", 6)])
def test_the_calls_of_an_add_node_into_the_host(test_library: str, second_input: str, most: int) -> None:
    spent = calls(test_library, second_input)
    assert 0 < spent <= most, f"{spent} calls a node"


def test_a_region_costs_the_host_what_one_node_does(test_library: str) -> None:
    assert calls(test_library, "region") == 0
