"""What all Python tests share: the library under test, and the reported skip where there is no GPU."""

import os

import ort_cuda_ep
import pytest
from ort_cuda_ep._library import find_library

LIBRARY_VARIABLE = "CUDAEP_TEST_LIBRARY"


@pytest.fixture(scope="session")
def test_library() -> str:
    """Path of the library under test: $CUDAEP_TEST_LIBRARY, by default the simulated device's."""
    return os.environ.get(LIBRARY_VARIABLE) or ort_cuda_ep.get_library_path("sim")


def why_no_gpu() -> str:
    """The reason why tests for GPUs cannot run here, or an empty string."""
    if not ort_cuda_ep.gpu_driver_present():
        return "no NVIDIA GPU"
    if not os.environ.get(LIBRARY_VARIABLE) and find_library("cuda") is None:
        return "the CUDA library is not built (make cuda)"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests for GPUs as skipped, with the reason, where they cannot run."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if marked else ""
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))
