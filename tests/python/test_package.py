"""Facts that two files carry."""

import re
from pathlib import Path

import ort_cuda_ep

ROOT = Path(__file__).resolve().parents[2]


def test_one_version() -> None:
    project = re.search(r"project\(ort_cuda_ep VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None
    assert project[1] == ort_cuda_ep.__version__


def test_the_oldest_host_is_the_same_everywhere() -> None:
    import hosts

    assert f"OLD_HOST := {hosts.OLDEST}\n" in (ROOT / "Makefile").read_text()
    assert f'"onnxruntime>={hosts.OLDEST}"' in (ROOT / "pyproject.toml").read_text()
