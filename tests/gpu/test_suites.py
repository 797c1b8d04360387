"""The suites that need a real GPU and PyTorch, a child process each; skipped elsewhere."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path

import matrix
import pytest

from tests.session.programs import settle

SUITES = ("memory_suite", "stream_suite")
TIMEOUT_S = 900


def checks(suite: str) -> list[str]:
    """The names of a suite's checks, read from its text: importing it needs PyTorch."""
    text = (Path(__file__).parent / f"{suite}.py").read_text()
    return [line[len("def ") :].split("(")[0] for line in text.splitlines() if line.startswith("def check_")]


@functools.cache
def results(suite: str, library: str) -> list[matrix.Result]:
    """What each check ended with; the numbers that the suite printed are printed again."""
    command = [sys.executable, "-m", f"tests.gpu.{suite}", library]
    child = matrix.run_child(suite, command, dict(os.environ), TIMEOUT_S)
    print(child.output[-20000:])
    return child.results


@pytest.mark.parametrize(
    ("suite", "check"), [(suite, name) for suite in SUITES for name in [*checks(suite), matrix.EXIT]]
)
def test_suite(suite: str, check: str, test_library: str) -> None:
    if Path(test_library).name != "libort_cuda_ep.so":
        pytest.skip("the library under test simulates its device")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    settle(results(suite, test_library), check)
