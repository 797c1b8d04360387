"""Where the plug-in library is, and whether this machine has a GPU to use it on."""

import os
from pathlib import Path
from typing import Literal, get_args

from . import _driver

Device = Literal["auto", "cuda", "sim"]

LIBRARY_VARIABLE = "ORT_CUDA_EP_LIBRARY"

_FILE_NAMES = {"cuda": "libort_cuda_ep.so", "sim": "libort_cuda_ep_sim.so"}
_PACKAGE = Path(__file__).resolve().parent


def get_library_path(device: Device = "auto") -> str:
    """Absolute path of the library for `device`.

    "cuda" is the library for NVIDIA GPUs, "sim" the simulated device; "auto" takes "cuda" where that library and a GPU
    with its driver are present, and "sim" elsewhere. The variable ORT_CUDA_EP_LIBRARY, a path, overrides all of it.

    Raises FileNotFoundError when there is no such library, ValueError for another `device`.
    """
    if device not in get_args(Device):
        raise ValueError(f"device must be one of {', '.join(get_args(Device))}, not {device!r}")
    override = os.environ.get(LIBRARY_VARIABLE)
    if override:
        if not Path(override).is_file():
            raise FileNotFoundError(f"{LIBRARY_VARIABLE} names {override}, which is not a file")
        return str(Path(override).resolve())
    if device == "auto":
        device = "cuda" if find_library("cuda") and gpu_driver_present() else "sim"
    found = find_library(device)
    if found:
        return str(found)
    searched = "\n".join(f"  {path}" for path in _candidates(device))
    raise FileNotFoundError(f"no library for device {device!r}. In a source tree, `make {device}` builds it. "
                            f"Searched:\n{searched}")  # fmt: skip


def find_library(device: str) -> Path | None:
    """The library for "cuda" or "sim" without regard to the override, or None."""
    return next((path for path in _candidates(device) if path.is_file()), None)


def gpu_driver_present() -> bool:
    """Whether the NVIDIA driver loads and has at least one device."""
    return bool(_driver.probe().names)


def _candidates(device: str) -> list[Path]:
    """Beside this module (a wheel), then the build folder of a source tree."""
    name = _FILE_NAMES[device]
    places = [_PACKAGE / name]
    tree = _PACKAGE.parents[1]
    if (tree / "CMakePresets.json").is_file():
        presets = ("cuda-release", "cuda") if device == "cuda" else ("sim",)
        places += [tree / "build" / preset / "lib" / name for preset in presets]
    return places
