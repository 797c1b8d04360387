"""The C++ applications of stock ONNX Runtime (`memory_host`, `stream_host`, `teardown`, `run_rate`) in tests.

Tests run them on the oldest supported host and on the newest, which this Python has installed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import hosts
import matrix
import onnxruntime
import pytest

VERSIONS = [hosts.OLDEST, onnxruntime.__version__]


def shared_library(version: str) -> Path:
    """libonnxruntime.so of a host, which its Python package brings along. Raises as hosts.install."""
    package = Path(onnxruntime.__file__).parent
    folder = package if version == onnxruntime.__version__ else hosts.install(version) / "onnxruntime"
    return folder / "capi" / f"libonnxruntime.so.{version}"


def require_host(version: str) -> Path:
    """The same; skips the calling test where the host is not here and cannot be had."""
    try:
        return shared_library(version)
    except subprocess.CalledProcessError:
        pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")


def require_program(name: str, library: str) -> Path:
    """The program of that name in the plug-in library's build; without it the calling test fails."""
    program = Path(library).parent.parent / "bin" / name
    if not program.exists():
        pytest.fail(f"{program} is not built")
    return program


class Program:
    """One of them on one host, with the build of the plug-in that it belongs to."""

    def __init__(self, name: str, version: str, library: str) -> None:
        self.version = tuple(int(part) for part in version.split("."))
        self.library = library
        self.host = str(require_host(version))
        self.path = require_program(name, library)

    def run(self, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Its output with these words as its command line; any exit code but 0 fails the calling test."""
        child = subprocess.run(
            [str(word) for word in (self.path, *words)],
            env={**os.environ, **hosts.STRICT_MALLOC, **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert child.returncode == 0, f"exit code {child.returncode}, {child.stderr[-3000:]}"
        return child


def settle(results: Iterable[matrix.Result], check: str) -> None:
    """Ends the calling test as `check` ended in a suite's process: passed, skipped or failed."""
    found = {result.check: result for result in results}
    end = found[matrix.EXIT]
    if check not in found and end.outcome == "skipped":
        pytest.skip(end.detail)
    assert check in found, f"the check did not run; {end.detail}"
    if found[check].outcome == "skipped":
        pytest.skip(found[check].detail)
    assert found[check].outcome == "passed", found[check].detail
