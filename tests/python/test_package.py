"""Facts that two files carry."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import ort_cuda_ep
from command import child_environment
from ort_cuda_ep import _host, vendor

ROOT = Path(__file__).resolve().parents[2]


def test_the_library_has_the_version_of_the_package(tmp_path: Path, test_library: str) -> None:
    report = tmp_path / "report.json"
    code = (
        "import sys, ort_cuda_ep; from ort_cuda_ep import explain, selftest;"
        "ort_cuda_ep.session(selftest.model(), provider_options={explain.REPORT_OPTION: sys.argv[1]})"
    )
    subprocess.run([sys.executable, "-c", code, report], env=child_environment(test_library), check=True)
    assert json.loads(report.read_text())["version"] == ort_cuda_ep.__version__


def test_the_extra_installs_every_library_of_nvidia() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = {requirement.split(">=")[0] for requirement in project["optional-dependencies"]["cuda13"]}
    for library in vendor.LIBRARIES:
        assert library.remedy.split()[2] in extra, library.name


def test_the_hosts_are_the_same_everywhere() -> None:
    import hosts

    older = " ".join(version for version in hosts.CI if version != hosts.NEWEST)
    assert f"OLD_HOSTS := {older}\n" in (ROOT / "Makefile").read_text()
    for version, tested in ((hosts.OLDEST, _host.OLDEST), (hosts.NEWEST, _host.NEWEST_TESTED)):
        assert version.startswith(f"{tested[0]}.{tested[1]}.")
    assert f'"onnxruntime>={hosts.OLDEST}"' in (ROOT / "pyproject.toml").read_text()
