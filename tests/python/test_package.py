"""Facts that two files carry."""

import re
from pathlib import Path

import ort_cuda_ep
from ort_cuda_ep import _host

ROOT = Path(__file__).resolve().parents[2]


def test_one_version() -> None:
    project = re.search(r"project\(ort_cuda_ep VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None
    assert project[1] == ort_cuda_ep.__version__


def test_the_hosts_are_the_same_everywhere() -> None:
    import hosts

    older = " ".join(version for version in hosts.CI if version != hosts.NEWEST)
    assert f"OLD_HOSTS := {older}\n" in (ROOT / "Makefile").read_text()
    for version, tested in ((hosts.OLDEST, _host.OLDEST), (hosts.NEWEST, _host.NEWEST_TESTED)):
        assert version.startswith(f"{tested[0]}.{tested[1]}.")
    assert f'"onnxruntime>={hosts.OLDEST}"' in (ROOT / "pyproject.toml").read_text()
