"""The collective suite on real GPUs, two at least: what it skips there is skipped here."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import hosts
import matrix
import pytest

from tests.gpu.test_suites import require_gpu
from tests.session.programs import settle

MODULE = "tests.session.collective_suite"
CHECKS = [
    line[len("def ") :].split("(")[0]
    for line in (Path(__file__).parents[1] / "session" / "collective_suite.py").read_text().splitlines()
    if line.startswith("def check_")
]


@functools.cache
def results(library: str) -> list[matrix.Result]:
    """Of all checks; NCCL leaves NVLink multicast alone, which not every machine lends."""
    suite = next(suite for suite in matrix.SUITES if suite.module == MODULE)
    suite = dataclasses.replace(suite, environment={"NCCL_NVLS_ENABLE": "0"})
    return matrix.run_suite(suite, hosts.NEWEST, Path(library))


@pytest.mark.parametrize("check", [*CHECKS, matrix.EXIT])
def test_collectives(check: str, test_library: str) -> None:
    require_gpu(test_library)
    settle(results(test_library), check)
