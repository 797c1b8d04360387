"""The installed ONNX Runtime: version, what else is installed under its name, and what each version makes possible."""

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

OLDEST = (1, 24)
NEWEST_TESTED = (1, 32)

# Distributions that put their files into the one folder `onnxruntime`, so that the last one installed wins.
_SAME_FOLDER = {
    "onnxruntime",
    "onnxruntime-directml",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-training",
    "ort-nightly",
    "ort-nightly-gpu",
}


@dataclass(frozen=True)
class Feature:
    """Something of the host that exists since 1.`since`, and what the user does not get `without` it."""

    name: str
    since: int
    without: str


# The gates of src/abi/api_version.h; a test compares the two.
FEATURES = (
    Feature("OrtEp::Sync", 25, "an application cannot wait for the provider through the host"),
    Feature("OrtEp::CreateProfiler", 25, "the host's profile has no GPU times"),
    Feature("OrtAllocator::Shrink", 25, "a Run that asks for it does not give unused memory back"),
    Feature(
        "OrtApi::KernelInfoGetAttributeArray_string",
        25,
        "operators with attributes that are lists of strings stay on the CPU",
    ),
    Feature("memory budgets without a stats file", 25, "the host refuses a budget that names none"),
    Feature("OrtEp::GetAvailableResource", 26, "a memory budget that names no limit is kept by the provider alone"),
    Feature(
        "OrtEp::OnSessionInitializationEnd",
        27,
        "require_all_compute_nodes is not heard where a memory budget of the host's has no room for any node",
    ),
    Feature(
        "inputs for what graphs inside fused nodes read",
        27,
        "a Loop over segments runs step by step where nobody else in its region reads what it reads",
    ),
    Feature("OrtEp::ReplayGraph", 26, "enable_cuda_graph is refused"),
    Feature("OrtEp::ReleaseCapturedGraph", 27, "a captured CUDA graph lives as long as its session"),
    Feature("OrtEpApi::GetOpSchema", 25, "kernel definitions are not checked against the host's schemas"),
)


def version() -> tuple[int, int]:
    """Major and minor number of the host that this process imports."""
    major, minor = ort.__version__.split(".")[:2]
    return int(major), int(minor)


def folder() -> Path:
    """Where it was imported from."""
    return Path(ort.__file__).parent


def is_on(feature: Feature) -> bool:
    """Whether this host is new enough for a feature."""
    return version() >= (1, feature.since)


def distributions() -> list[str]:
    """The distributions that filled `folder()`, as "name version"; more than one overwrite each other's files."""
    found = {
        f"{entry.name} {entry.version}"
        for entry in importlib.metadata.distributions()
        if (entry.name or "").lower().replace("_", "-") in _SAME_FOLDER
        and Path(str(entry.locate_file("onnxruntime"))).resolve() == folder().resolve()
    }
    return sorted(found)
