"""The programs of examples/python on a GPU, with PyTorch's tensors, streams and memory; skipped where there is none."""

import importlib.util
from pathlib import Path

import hosts
import ort_cuda_ep
import pytest

from tests.examples import test_python

pytestmark = [
    pytest.mark.skipif(not ort_cuda_ep.gpu_driver_present(), reason="there is no GPU"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]

PROGRAMS = {
    "dlpack": "torch tensors in cuda memory, in and out without copies",
    "user_stream": "50 frames on one stream of PyTorch's",
    "external_allocator": "Torch: ",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name: str, tmp_path: Path, test_library: str) -> None:
    done = test_python.run(name, test_library, tmp_path, hosts.NEWEST)
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[name] in done.stdout
