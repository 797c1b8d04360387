"""The library loads and registers anywhere, and says what is missing: without CUDA, without each of its libraries.

Where the machine has the CUDA toolkit it is hidden in a mount namespace of the child (`unshare`); those tests skip
where the system does not permit that. What needs no hiding runs everywhere.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hosts
import onnxruntime
import pytest

ROOT = hosts.ROOT
CUDA_LIBRARY = ROOT / "build" / "cuda" / "lib" / "libort_cuda_ep.so"
VENDOR_REPORT = ROOT / "build" / "cuda" / "bin" / "vendor_report"
TOOLKIT = Path("/usr/local/cuda/lib64")
CUDA_NAMES = re.compile(r"lib(cuda|cudart|cublas|cublasLt|cudnn\w*|cufft|nvrtc|cupti|nccl|nvidia\S*)\.so")

REGISTER = """
import json, sys
import onnxruntime as ort
ort.set_default_logger_severity(int(sys.argv[2]))
ort.register_execution_provider_library("CUDAExecutionProvider", sys.argv[1])
found = [d for d in ort.get_ep_devices() if d.ep_name == "CUDAExecutionProvider"]
options = ort.SessionOptions()
from tests.session import models
names = ort.InferenceSession(models.add_chain(1), options).get_providers()
maps = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
ort.unregister_execution_provider_library("CUDAExecutionProvider")
print(json.dumps({"devices": len(found), "providers": names, "maps": sorted(set(maps))}))
"""


def bare_environment(version: str) -> dict[str, str]:
    """No library path, no CUDA variable, nothing but what Python needs; onnxruntime `version`."""
    paths = [str(ROOT)] if hosts.is_own(version) else [str(hosts.host_path(version)), str(ROOT)]
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(paths)}


def child(command: list[str], environment: dict[str, str], prelude: str = "") -> subprocess.CompletedProcess[str]:
    """Runs `command`; a `prelude` of shell commands runs before it, in a mount namespace of its own."""
    if prelude:
        command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", f'{prelude}\nexec "$@"', "sh", *command]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def register(library: Path, version: str, severity: int = 2, prelude: str = "") -> tuple[dict[str, object], str]:
    """What a process saw that registered `library`, and its error output."""
    try:
        hosts.ready_environment(version)
    except subprocess.CalledProcessError:
        pytest.skip(f"onnxruntime {version} is not here and cannot be downloaded")
    command = [sys.executable, "-c", REGISTER, str(library), str(severity)]
    outcome = child(command, bare_environment(version), prelude)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout.splitlines()[-1]), outcome.stderr


@functools.cache
def can_hide() -> bool:
    """Whether this user may have a mount namespace."""
    if shutil.which("unshare") is None:
        return False
    return child(["true"], {"PATH": "/usr/bin:/bin"}, "mount -t tmpfs none /mnt").returncode == 0


def hiding(*removed: str) -> str:
    """Shell commands after which the toolkit's folder has no file that starts with one of `removed`; all: "lib"."""
    if not can_hide():
        pytest.skip("no mount namespace is permitted here")
    folder = TOOLKIT.resolve()
    keep = "".join(f"    {name}*) ;;\n" for name in removed)
    return f"""
copy=$(mktemp -d)
mount --rbind {folder} "$copy"
mount -t tmpfs none {folder}
for file in "$copy"/*; do
  case "${{file##*/}}" in
{keep}    *) ln -s "$file" {folder}/ ;;
  esac
done"""


@pytest.fixture
def cuda_library() -> Path:
    if not CUDA_LIBRARY.is_file():
        pytest.skip("the CUDA library is not built")
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    return CUDA_LIBRARY


def assert_nothing_of_cuda(outcome: dict[str, object], log: str) -> None:
    assert outcome["devices"] == 0
    assert outcome["providers"] == ["CPUExecutionProvider"]
    maps = outcome["maps"]
    assert isinstance(maps, list)
    assert [path for path in maps if CUDA_NAMES.search(Path(path).name)] == []
    assert any(path.endswith("/libort_cuda_ep.so") for path in maps)
    assert log == ""  # no error and no warning


@pytest.mark.parametrize("version", hosts.CI)
def test_without_a_gpu_it_registers_no_device_and_loads_nothing(version: str, cuda_library: Path) -> None:
    assert_nothing_of_cuda(*register(cuda_library, version))


@pytest.mark.skipif(not TOOLKIT.is_dir(), reason="there is no CUDA here: the test above has shown it")
def test_without_cuda_it_registers_no_device(cuda_library: Path) -> None:
    """The machine has a toolkit, which is out of sight."""
    assert_nothing_of_cuda(*register(cuda_library, onnxruntime.__version__, prelude=hiding("lib")))


def test_the_log_says_why_there_is_no_device(cuda_library: Path) -> None:
    if cuda_library.stat().st_mtime < (ROOT / "src" / "abi" / "devices.cc").stat().st_mtime:
        pytest.skip(f"{cuda_library} is older than what writes the text: make cuda")
    _, log = register(cuda_library, onnxruntime.__version__, severity=1)
    assert "no GPU is visible to CUDA" in log


def reports(*removed: str) -> dict[str, tuple[str, str, str]]:
    """For each vendor library whether it was found, its path and its status, with some files out of sight."""
    if not VENDOR_REPORT.is_file():
        pytest.skip("the CUDA build's vendor_report is not built")
    if not (TOOLKIT / "libcublasLt.so.13").exists() or not (TOOLKIT / "libcudnn.so.9").exists():
        pytest.skip(f"{TOOLKIT} does not hold the libraries")
    outcome = child([str(VENDOR_REPORT)], {"PATH": "/usr/bin:/bin"}, hiding(*removed) if removed else "")
    assert outcome.returncode == 0, outcome.stderr
    rows = [line.split("\t") for line in outcome.stdout.splitlines()]
    return {name: (found, path, status) for name, found, path, status in rows}


def test_all_vendor_libraries_are_found() -> None:
    for name, (found, path, status) in reports().items():
        assert found == "found", status
        assert path.startswith("/"), (name, path)


PLACES = ("the process itself", "ORT_CUDA_EP_LIBRARY_PATH", "Python wheels", "LD_LIBRARY_PATH", "/usr/local/cuda/lib64")


@pytest.mark.parametrize(
    ("removed", "missing", "wanted"),
    [
        ("libcublasLt", "cuBLASLt", "libcublasLt.so.13 (cuBLASLt 13.0.0 or newer)"),
        ("libcudnn", "cuDNN", "libcudnn.so.9 (cuDNN 9.0.0 or newer)"),
        ("libnvrtc", "", ""),  # cuDNN does without
    ],
)
def test_a_missing_library_is_named_with_version_places_and_remedy(removed: str, missing: str, wanted: str) -> None:
    for name, (found, _, status) in reports(removed).items():
        if name != missing:
            assert found == "found", status
            continue
        assert found == "missing", name
        for part in (f"{wanted} was not found. Searched:", *PLACES, "To get it: pip install nvidia-"):
            assert part in status, (part, status)


def test_without_any_of_them_each_is_named() -> None:
    found = reports("lib")
    assert {name: state for name, (state, _, _) in found.items()} == {"cuBLASLt": "missing", "cuDNN": "missing"}


# What a host lacks, by the first version that has it.
FEATURES = {
    "OrtEp::Sync": (1, 25),
    "OrtEp::CreateProfiler": (1, 25),
    "OrtAllocator::Shrink": (1, 25),
    "OrtApi::KernelInfoGetAttributeArray_string": (1, 25),
    "OrtEpApi::GetOpSchema": (1, 25),
    "memory budgets without a stats file": (1, 25),
    "OrtEp::GetAvailableResource": (1, 26),
    "OrtEp::ReplayGraph": (1, 26),
    "OrtEp::OnSessionInitializationEnd": (1, 27),
    "OrtEp::ReleaseCapturedGraph": (1, 27),
    "inputs for what graphs inside fused nodes read": (1, 27),
}


@pytest.mark.parametrize("version", hosts.CI)
def test_features_a_host_lacks_are_one_line_each(version: str, test_library: str) -> None:
    host = tuple(int(part) for part in version.split(".")[:2])
    _, log = register(Path(test_library), version, severity=1)
    said = re.findall(r"ONNX Runtime (\S+) has no (.+?) \(since 1\.(\d+)\)", log)
    expected = [(version, name, str(since[1])) for name, since in FEATURES.items() if host < since]
    assert sorted(said) == sorted(expected), log
    _, quiet = register(Path(test_library), version)
    assert " has no " not in quiet  # that is no warning


def test_more_devices_than_a_host_takes_are_a_warning(test_library: str) -> None:
    library = Path(test_library)
    if "sim" not in library.name:
        pytest.skip("needs simulated devices")
    command = [sys.executable, "-c", REGISTER, str(library), "2"]
    outcome = child(command, {**bare_environment(onnxruntime.__version__), "CUDAEP_SIM_DEVICES": "64"})
    assert outcome.returncode == 0, outcome.stderr
    shown = json.loads(outcome.stdout.splitlines()[-1])["devices"]
    assert 8 <= shown < 64
    assert f"the host takes {shown} devices and CUDA shows 64" in outcome.stderr
