"""The session suites on the oldest, a middle and the newest supported host; `make matrix` runs them on all."""

from __future__ import annotations

import functools
import importlib
import subprocess
from pathlib import Path

import hosts
import matrix
import pytest

SUITES = {suite.module: suite for suite in matrix.SUITES}
CHECKS = [
    (module, name)
    for module in SUITES
    for name in [*(n for n in vars(importlib.import_module(module)) if n.startswith("check_")), matrix.EXIT]
]


@functools.cache
def results(module: str, version: str, library: str) -> dict[str, tuple[str, str]]:
    """What a suite said on a host: for each check its failure and why it was skipped; both empty: passed."""
    try:
        hosts.ready_environment(version)
    except subprocess.CalledProcessError:
        pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
    found = matrix.run_suite(SUITES[module], version, Path(library))
    text = {result.check: (result.outcome, result.detail) for result in found}
    return {check: (detail * (is_ == "failed"), detail * (is_ == "skipped")) for check, (is_, detail) in text.items()}


@pytest.mark.parametrize(("module", "check"), CHECKS)
@pytest.mark.parametrize("version", hosts.CI)
def test_host(version: str, module: str, check: str, test_library: str) -> None:
    found = results(module, version, test_library)
    if check not in found and found[matrix.EXIT][1]:
        pytest.skip(found[matrix.EXIT][1])
    assert check in found, f"the check did not run; {found[matrix.EXIT][0]}"
    failure, skipped = found[check]
    if skipped:
        pytest.skip(skipped)
    assert not failure, failure
