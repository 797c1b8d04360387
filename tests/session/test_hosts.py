"""The session suites on the oldest, a middle and the newest supported host; `make matrix` runs them on all."""

from __future__ import annotations

import functools
import importlib
import subprocess
from pathlib import Path

import hosts
import matrix
import pytest

from tests.session.programs import settle

SUITES = {suite.module: suite for suite in matrix.SUITES}
CHECKS = [
    (module, name)
    for module in SUITES
    for name in [*(n for n in vars(importlib.import_module(module)) if n.startswith("check_")), matrix.EXIT]
]


@functools.cache
def results(module: str, version: str, library: str) -> list[matrix.Result]:
    """What a suite said on a host."""
    try:
        hosts.ready_environment(version)
    except subprocess.CalledProcessError:
        pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
    return matrix.run_suite(SUITES[module], version, Path(library))


@pytest.mark.parametrize(("module", "check"), CHECKS)
@pytest.mark.parametrize("version", hosts.CI)
def test_host(version: str, module: str, check: str, test_library: str) -> None:
    settle(results(module, version, test_library), check)
