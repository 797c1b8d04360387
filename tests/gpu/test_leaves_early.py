"""A process that exits while plans are compiled for it ends like any other; skipped where there is no GPU."""

import re
import subprocess
import sys

import ort_cuda_ep
import pytest

from tests.gpu import leaves_early

pytestmark = pytest.mark.skipif(not ort_cuda_ep.gpu_driver_present(), reason="there is no GPU")


@pytest.mark.parametrize("way", leaves_early.WAYS)
def test_exit_code(way: str, test_library: str) -> None:
    command = [sys.executable, "-m", "tests.gpu.leaves_early", test_library, way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(re.findall("in the making: ([0-9]+)", done.stdout)[0]) > 0, "it left too late"
