"""What this machine says about NVIDIA GPUs without any of our libraries: the driver's answer, and the PCI bus."""

import ctypes
import functools
import os
from dataclasses import dataclass
from pathlib import Path

OLDEST_CUDA = 13000  # what the library's static CUDA runtime asks of the driver, as cuDriverGetVersion counts
OLDEST_DRIVER = "580"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"

_PCI = Path("/sys/bus/pci/devices")
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")  # the last one is WSL's
_DRIVER_VERSION = Path("/sys/module/nvidia/version")


@dataclass(frozen=True)
class Driver:
    """The driver as it answered: `error` says why it has no devices; `cuda` is 13000 for CUDA 13.0, or 0."""

    names: tuple[str, ...] = ()
    cuda: int = 0
    version: str = ""  # of the kernel module, "580.65.06"
    error: str = ""


@functools.cache
def probe() -> Driver:
    """Asks the driver once a process."""
    version = _DRIVER_VERSION.read_text().strip() if _DRIVER_VERSION.is_file() else ""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Driver(version=version, error=f"the NVIDIA driver's library does not load: {error}")
    number, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(number))
    result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if result != 0:
        return Driver((), number.value, version, f"the NVIDIA driver reports {_error_name(driver, result)}")
    names = []
    for ordinal in range(count.value):
        text = ctypes.create_string_buffer(256)
        if driver.cuDeviceGetName(text, len(text), ordinal) == 0:
            names.append(text.value.decode())
    return Driver(tuple(names), number.value, version, "" if names else "the NVIDIA driver lists no device")


def _error_name(driver: ctypes.CDLL, result: int) -> str:
    name = ctypes.c_char_p()
    if driver.cuGetErrorName(result, ctypes.byref(name)) == 0 and name.value:
        return name.value.decode()
    return f"error {result}"


def hardware() -> list[str]:
    """What shows that the machine has an NVIDIA GPU, driver or not: PCI addresses, or device files in a container."""
    found = []
    for device in sorted(_PCI.glob("*")):
        # Class 03 is a display controller; 0302 is what data-centre GPUs are.
        if _read(device / "vendor") == "0x10de" and _read(device / "class").startswith("0x03"):
            found.append(device.name)
    return found or [name for name in _DEVICE_FILES if Path(name).exists()]


def hidden() -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides every GPU on purpose."""
    value = os.environ.get(VISIBLE_VARIABLE)
    return value is not None and value.split(",")[0].strip() in ("", "-1", "none", "NoDevFiles")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
