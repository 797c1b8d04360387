"""The session suites on the oldest, a middle (suites of its hooks) and the newest host; `make matrix`: all on all."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import subprocess
from pathlib import Path

import hosts
import matrix
import pytest

from tests.session.programs import settle

SUITES = {suite.module: suite for suite in matrix.SUITES}


def checks_of(module: str, version: str) -> list[str]:
    """Those that a host runs: some are for the newest alone (tests/session/suite.py, on_one_host)."""
    checks = {name: check for name, check in vars(importlib.import_module(module)).items() if name.startswith("check_")}
    return [name for name, check in checks.items() if version == hosts.NEWEST or not hasattr(check, "on_one_host")]


CHECKS = [
    (version, module, name)
    for version in hosts.CI
    for module, suite in SUITES.items()
    if version == hosts.NEWEST or not suite.rewrites
    if suite.hooks or version in (hosts.OLDEST, hosts.NEWEST)
    if (names := checks_of(module, version))
    for name in [*names, matrix.EXIT]
]


# A suite may have nothing for an older host; one without checks for the newest has lost them.
assert {module for version, module, _ in CHECKS if version == hosts.NEWEST} == {*SUITES}


ORDER_CHECKS = [
    "check_a_callers_stream_orders_replays",
    "check_other_orders_of_streams",
    "check_replays_need_not_be_waited_for",
    "check_threads_with_an_id_each",
]


@functools.cache
def results(module: str, version: str, library: str) -> list[matrix.Result]:
    """What a suite said on a host."""
    try:
        hosts.ready_environment(version)
    except subprocess.CalledProcessError:
        pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
    return matrix.run_suite(SUITES[module], version, Path(library), checks_of(module, version))


def test_graphs_with_streams_in_a_random_order(test_library: str) -> None:
    """The checks of order; the suites have late ones, each as late as it may be."""
    suite = SUITES["tests.session.graph_suite"]
    suite = dataclasses.replace(suite, environment={**suite.environment, "CUDAEP_SIM_MODE": "random"})
    found = matrix.run_suite(suite, hosts.NEWEST, Path(test_library), ORDER_CHECKS)
    assert [result for result in found if result.outcome == "failed"] == []
    assert "passed" in [result.outcome for result in found if result.check != matrix.EXIT] or found[-1].detail


@pytest.mark.parametrize(("version", "module", "check"), CHECKS)
def test_host(version: str, module: str, check: str, test_library: str) -> None:
    settle(results(module, version, test_library), check)
