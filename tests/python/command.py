"""The command line in a child process on the library under test: one process registers one library, once."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hosts
import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = (hosts.OLDEST, onnxruntime.__version__)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def child_environment(library: str, version: str = onnxruntime.__version__, **variables: str) -> dict[str, str]:
    """Of a child that uses `library` on the host `version`; skips the test where that host is not to be had."""
    base = dict(os.environ)
    if version != onnxruntime.__version__:
        try:
            hosts.install(version)
        except subprocess.CalledProcessError:
            pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
        base = hosts.environment(version)
    paths = [base.get("PYTHONPATH", ""), str(ROOT / "python"), str(ROOT)]
    base["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return {**base, "ORT_CUDA_EP_LIBRARY": library, **variables}


def invoke(environment: dict[str, str], *arguments: object) -> Outcome:
    command = [sys.executable, "-m", "ort_cuda_ep", *(str(argument) for argument in arguments)]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in child.stderr, child.stderr
    return Outcome(child.returncode, child.stdout, child.stderr)
