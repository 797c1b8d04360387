"""What a node costs in calls into the host, counted by a plug-in that stands in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("second_input", "most"), [("fed", 9), ("constant", 6)])
def test_the_calls_of_an_add_node_into_the_host(test_library: str, second_input: str, most: int) -> None:
    proxy = Path(test_library).parent / "libcounting_proxy.so"
    if not proxy.exists():
        pytest.fail(f"{proxy} is not built")
    child = subprocess.run(
        [sys.executable, "-m", "tests.session.proxy_run", str(proxy), second_input],
        env={**os.environ, "CUDAEP_PROXIED_LIBRARY": test_library},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    calls = float(child.stdout)
    assert 0 < calls <= most, f"{calls} calls a node"
