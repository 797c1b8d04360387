"""What operator tests run on."""

import pytest

from .harness import driver


@pytest.fixture(scope="session")
def device() -> None:
    """Skips tests of the CUDA libraries on a machine without a GPU; fails when the driver library is missing."""
    if driver.load().device_count() == 0:
        pytest.skip(f"no device for the {driver.load().backend} libraries")
