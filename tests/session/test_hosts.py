"""The session suite on the oldest and the newest supported host, a child process each."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import hosts
import onnxruntime
import pytest

from tests.session import suite

CHECKS = [name for name in dir(suite) if name.startswith("check_")]


@functools.cache
def failures(version: str, library: str) -> dict[str, str]:
    """What the suite printed on a host: the failure of each check that ran, empty where it passed."""
    if version != onnxruntime.__version__:
        try:
            hosts.install(version)
        except subprocess.CalledProcessError:
            pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
    environment = None if version == onnxruntime.__version__ else hosts.environment(version)
    command = [sys.executable, "-m", "tests.session.suite", library]
    child = subprocess.run(
        command, cwd=hosts.ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    result = {line["check"]: line["failure"] for line in lines}
    result["exit"] = "" if child.returncode == 0 else f"exit code {child.returncode}\n{child.stderr[-2000:]}"
    return result


@pytest.mark.parametrize("check", [*CHECKS, "exit"])
@pytest.mark.parametrize("version", [hosts.OLDEST, onnxruntime.__version__])
def test_host(version: str, check: str, test_library: str) -> None:
    result = failures(version, test_library)
    assert check in result, f"the check did not run; {result['exit']}"
    assert not result[check], result[check]
