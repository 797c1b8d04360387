"""The suites that need a real GPU and PyTorch, a child process each; skipped elsewhere."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("memory_suite", "stream_suite")


def checks(suite: str) -> list[str]:
    """The names of a suite's checks, read from its text: importing it needs PyTorch."""
    text = (Path(__file__).parent / f"{suite}.py").read_text()
    return [line[len("def ") :].split("(")[0] for line in text.splitlines() if line.startswith("def check_")]


@functools.cache
def results(suite: str, library: str) -> dict[str, tuple[str, str]]:
    """For each check that ran the failure, or why it was skipped; both empty: passed."""
    command = [sys.executable, "-m", f"tests.gpu.{suite}", library]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    print(child.stdout[-20000:])
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    result = {line["check"]: (line["failure"], line["skipped"]) for line in lines}
    failure = "" if child.returncode == 0 else f"exit code {child.returncode}\n{child.stderr[-2000:]}"
    result["exit"] = (failure, "")
    return result


@pytest.mark.parametrize(("suite", "check"), [(suite, name) for suite in SUITES for name in [*checks(suite), "exit"]])
def test_suite(suite: str, check: str, test_library: str) -> None:
    if Path(test_library).name != "libort_cuda_ep.so":
        pytest.skip("the library under test simulates its device")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    result = results(suite, test_library)
    assert check in result, f"the check did not run; {result['exit'][0]}"
    failure, skipped = result[check]
    if skipped:
        pytest.skip(skipped)
    assert not failure, failure
