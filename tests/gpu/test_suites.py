"""The suites that need a real GPU and PyTorch, a child process each; skipped elsewhere."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path

import hosts
import matrix
import pytest

from tests.session.programs import require_host, settle

SUITES = ("graph_suite", "memory_suite", "profile_suite", "stream_suite")
TIMEOUT_S = 900


def checks(suite: str) -> list[str]:
    """The names of a suite's checks, read from its text: importing it needs PyTorch."""
    text = (Path(__file__).parent / f"{suite}.py").read_text()
    return [line[len("def ") :].split("(")[0] for line in text.splitlines() if line.startswith("def check_")]


@functools.cache
def results(suite: str, library: str, version: str = hosts.NEWEST, *chosen: str) -> list[matrix.Result]:
    """What each check, or each chosen one, ended with; the numbers that the suite printed are printed again."""
    command = [sys.executable, "-m", f"tests.gpu.{suite}", library, *chosen]
    environment = dict(os.environ) if hosts.is_own(version) else hosts.environment(version)
    child = matrix.run_child(suite, command, environment, TIMEOUT_S)
    print(child.output[-20000:])
    return child.results


@pytest.mark.parametrize(
    ("suite", "check"), [(suite, name) for suite in SUITES for name in [*checks(suite), matrix.EXIT]]
)
def test_suite(suite: str, check: str, test_library: str) -> None:
    require_gpu(test_library)
    settle(results(suite, test_library), check)


def test_weights_on_the_oldest_host(test_library: str) -> None:
    require_gpu(test_library)
    require_host(hosts.OLDEST)
    check = "check_weights_are_loaded_once"
    settle(results("memory_suite", test_library, hosts.OLDEST, check), check)


def require_gpu(test_library: str) -> None:
    """Skips where there is none to test."""
    if Path(test_library).name != "libort_cuda_ep.so":
        pytest.skip("the library under test simulates its device")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
