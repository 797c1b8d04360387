"""What the provider finds on this machine: facts, problems and remedies, as `ort-cuda-ep doctor` shows them."""

import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import onnxruntime as ort

from . import _driver, _host, _provider, selftest, vendor
from ._library import LIBRARY_VARIABLE, Device, find_library
from ._version import __version__

OK, NOTE, PROBLEM = "ok", "note", "problem"

# Settings of the environment that change what is found or how fast it runs.
_VARIABLES = {
    LIBRARY_VARIABLE: "the plug-in library, instead of the package's own",
    vendor.PATH_VARIABLE: "folders searched first for NVIDIA's libraries",
    _driver.VISIBLE_VARIABLE: "which GPUs the process sees, and in which order",
    "CUDA_DEVICE_ORDER": "how CUDA numbers GPUs",
    "NVIDIA_VISIBLE_DEVICES": "which GPUs the container gets",
    "CUDA_LAUNCH_BLOCKING": "1 makes every launch wait: slow",
    "CUDA_MODULE_LOADING": "EAGER loads every kernel at start: slow and large",
    "CUDA_CACHE_DISABLE": "1 compiles kernels for an unknown GPU at every start",
    "NVIDIA_TF32_OVERRIDE": "0 takes TF32 from NVIDIA's libraries, whatever use_tf32 says",
    "CUDA_HOME": "a CUDA toolkit, searched last",
    "CUDA_PATH": "a CUDA toolkit, searched last",
    "LD_LIBRARY_PATH": "searched by the dynamic linker",
}
_SIMULATOR_PREFIX = "CUDAEP_SIM_"


@dataclass(frozen=True)
class Finding:
    """One line. `state`: "ok", "note" (nothing to mend) or "problem"; `advice` is the remedy, if there is one."""

    section: str
    subject: str
    state: str
    detail: str
    advice: str = ""


def gpu_expected(device: str) -> bool:
    """Whether a GPU is to be used: asked for by name, or there and neither hidden nor waived by "sim"."""
    if device == "sim":
        return False
    return device == "cuda" or (not _driver.hidden() and bool(_driver.hardware() or _driver.probe().names))


def diagnose(device: Device = "auto") -> list[Finding]:
    """Everything, in the order in which it is to be read. Registers the library for `device` and runs a tiny model."""
    expected = gpu_expected(device)
    findings = [*_host_findings(), *_gpus(expected), *_libraries(expected)]
    provider, tests = _provider_findings(device)
    findings += provider
    usable = any(not test.simulated and not test.error for test in tests)
    if expected and not usable:
        findings.append(
            Finding("provider", "GPU", PROBLEM, "a GPU is expected here and cannot be used", _first_remedy(findings))
        )
    findings += _vendor_libraries(tests, expected)
    return findings + _variables()


def _first_remedy(findings: list[Finding]) -> str:
    remedy = next((found.advice for found in findings if found.state == PROBLEM and found.advice), "")
    return remedy or "see the problems above"


def _host_findings() -> list[Finding]:
    section = "host"
    supported = _host.version() >= _host.OLDEST
    oldest = ".".join(map(str, _host.OLDEST))
    findings = [
        Finding(
            section, "ort-cuda-ep", OK, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
        ),
        Finding(
            section,
            "ONNX Runtime",
            OK if supported else PROBLEM,
            f"{ort.__version__} in {_host.folder()}",
            "" if supported else f"pip install 'onnxruntime>={oldest}'",
        ),
    ]
    if _host.version() > _host.NEWEST_TESTED:
        newest = ".".join(map(str, _host.NEWEST_TESTED))
        findings.append(
            Finding(section, "ONNX Runtime", NOTE, f"newer than {newest}, the newest version that was tested")
        )
    installed = _host.distributions()
    if len(installed) > 1:
        findings.append(
            Finding(
                section,
                "distributions",
                NOTE,
                f"{', '.join(installed)} are installed into one folder: the last one wins",
                "uninstall all of them, then install one",
            )
        )
    findings.append(Finding(section, "built-in providers", OK, ", ".join(ort.get_available_providers())))
    for feature in _host.FEATURES:
        on = _host.is_on(feature)
        detail = "on" if on else f"off: {feature.without}"
        findings.append(
            Finding(
                section, feature.name, OK if on else NOTE, detail, "" if on else f"needs ONNX Runtime 1.{feature.since}"
            )
        )
    return findings


def _gpus(expected: bool) -> list[Finding]:
    section = "GPU"
    hardware, driver = _driver.hardware(), _driver.probe()
    state = PROBLEM if expected else NOTE
    findings = [
        Finding(section, "hardware", OK if hardware else NOTE, ", ".join(hardware) or "no NVIDIA GPU was found")
    ]
    if _driver.hidden():
        value = os.environ[_driver.VISIBLE_VARIABLE]
        findings.append(
            Finding(
                section, "visible", NOTE, f"{_driver.VISIBLE_VARIABLE}={value!r} hides every GPU", "unset it to use one"
            )
        )
    if driver.error:
        advice = f"install NVIDIA's driver, {_driver.OLDEST_DRIVER} or newer; in a container, start it with GPU access"
        return [*findings, Finding(section, "driver", state, driver.error, advice if expected else "")]
    cuda = f"CUDA {driver.cuda // 1000}.{driver.cuda % 1000 // 10}"
    detail = f"{driver.version}, {cuda}" if driver.version else cuda
    if driver.cuda < _driver.OLDEST_CUDA:
        advice = f"install NVIDIA's driver, {_driver.OLDEST_DRIVER} or newer"
        findings.append(Finding(section, "driver", state, f"{detail}: too old for CUDA 13", advice))
    else:
        findings.append(Finding(section, "driver", OK, detail))
    return findings + [Finding(section, f"GPU {i}", OK, name) for i, name in enumerate(driver.names)]


def _libraries(expected: bool) -> list[Finding]:
    section = "library"
    findings = []
    for device, what in (("cuda", "for NVIDIA GPUs"), ("sim", "simulated device")):
        path = find_library(device)
        state = OK if path else PROBLEM if expected and device == "cuda" else NOTE
        advice = "" if path else f"in a source tree: make {device}"
        findings.append(Finding(section, what, state, str(path or "not built"), advice))
    override = os.environ.get(LIBRARY_VARIABLE)
    if override:
        findings = [Finding(section, LIBRARY_VARIABLE, OK, f"{override} is used instead of the package's own")]
    return findings


def _provider_findings(device: Device) -> tuple[list[Finding], list[selftest.Outcome]]:
    section = "provider"
    try:
        with _logged_warnings() as warnings:
            path = _provider.register(device)
    except Exception as error:
        advice = "build the library: make sim, or make cuda" if isinstance(error, FileNotFoundError) else ""
        return [Finding(section, "registration", PROBLEM, str(error), advice)], []
    findings = [Finding(section, "registration", OK, f"{_provider.get_ep_name()} from {path}")]
    listed = [f"{entry.ep_name} ({entry.ep_vendor}, {entry.device.type.name})" for entry in ort.get_ep_devices()]
    findings.append(Finding(section, "host's devices", OK, ", ".join(listed) or "none"))
    found = _provider.devices()
    if not found:
        findings.append(Finding(section, "devices", NOTE, "none: the library found no GPU that it can use"))
    state = PROBLEM if not found and gpu_expected(device) else NOTE
    for text in warnings:
        what, remedy, advice = text.partition(": build with ")
        advice = f"build with {advice}" if remedy else ""
        findings.append(Finding(section, "warning", state, what, advice))
    outcomes = []
    for ordinal, entry in enumerate(found):
        findings.append(Finding(section, f"device {ordinal}", OK, describe_device(entry.ep_metadata)))
        outcome = selftest.run(ordinal)
        outcomes.append(outcome)
        detail = outcome.error or f"convolution and matrix product agree with the CPU, {outcome.milliseconds:.1f} ms"
        findings.append(Finding(section, f"self-test {ordinal}", PROBLEM if outcome.error else OK, detail))
    return findings, outcomes


@contextmanager
def _logged_warnings() -> Iterator[list[str]]:
    """Collects what the library warns of through the host's log, which is the process's standard error.

    The list is filled at the end. Everything that was written goes on to standard error.
    """
    warnings: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield warnings
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text = file.read()
            if text:
                os.write(2, text)
            plain = re.sub(r"\x1b\[[0-9;]*m", "", text.decode(errors="replace"))
            warnings += re.findall(r"\[W:[^\]]*ort-cuda-ep[^\]]*\] (.+)", plain)


def describe_device(metadata: dict[str, str]) -> str:
    """A device's metadata as one line; the host adds entries of its own, which are left out."""
    if metadata.get("simulated") == "1":
        title = "simulated, not a GPU"
    else:
        title = f"{metadata.get('name')}, compute capability {metadata.get('compute_capability')}"
    memory = int(metadata.get("memory_bytes", 0)) / 2**30
    versions = [f"{part} {_cuda_version(metadata.get(f'{part}_version', ''))}" for part in ("driver", "runtime")]
    return ", ".join([title, f"PCI {metadata.get('pci_bus_id', '?')}", f"{memory:.1f} GiB", *versions])


def _cuda_version(text: str) -> str:
    number = int(text) if text.isdigit() else 0
    return f"CUDA {number // 1000}.{number % 1000 // 10}" if number else "unknown"


def _vendor_libraries(tests: list[selftest.Outcome], expected: bool) -> list[Finding]:
    section = "NVIDIA's libraries"
    if tests and all(test.simulated for test in tests) and not expected:
        return [Finding(section, "not needed", OK, "the simulated device brings its own")]
    reported = {entry["name"]: entry for test in tests if not test.simulated for entry in test.libraries}
    return [_vendor_finding(section, library, reported, expected) for library in vendor.LIBRARIES]


def _vendor_finding(
    section: str, library: vendor.VendorLibrary, reported: dict[str, dict[str, object]], expected: bool
) -> Finding:
    entry = reported.get(library.name)
    status = vendor.Status.of_report(entry) if entry else vendor.look_up(library)
    if status.found:
        return Finding(
            section, library.name, OK, f"{status.version or library.soname} in {status.path} ({status.note})"
        )
    detail = f"{vendor.wanted(library)}: {status.note}" if not status.path else f"{status.path}: {status.note}"
    needed = expected and not library.without
    advice = f"{library.remedy}; {'needed' if not library.without else 'without it, ' + library.without}"
    return Finding(section, library.name, PROBLEM if needed else NOTE, detail, advice)


def _variables() -> list[Finding]:
    section = "environment"
    found = [
        Finding(section, name, NOTE, f"{os.environ[name]!r}: {meaning}")
        for name, meaning in _VARIABLES.items()
        if name in os.environ
    ]
    found += [
        Finding(section, name, NOTE, f"{value!r}: sets up the simulated device")
        for name, value in sorted(os.environ.items())
        if name.startswith(_SIMULATOR_PREFIX)
    ]
    return found or [Finding(section, "variables", OK, "none is set that matters here")]
