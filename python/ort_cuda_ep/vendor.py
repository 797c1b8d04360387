"""NVIDIA's libraries that the CUDA library opens at run time: where they are and how to get missing ones.

The order of search is the plug-in's (src/lib/search_places.h): already loaded in the process, ORT_CUDA_EP_LIBRARY_PATH,
`nvidia-*` wheels, folders of loaded CUDA libraries, the dynamic linker, CUDA toolkit. What the plug-in itself says of a
library, where it can be asked, comes first: see `Status.of_report`.
"""

import ctypes
import os
import site
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH_VARIABLE = "ORT_CUDA_EP_LIBRARY_PATH"

_LINKER = "dynamic linker"
_CUDA_PREFIXES = ("libcudart.so", "libcublas", "libcudnn", "libnvrtc.so", "libcufft.so")


@dataclass(frozen=True)
class VendorLibrary:
    """A library that the plug-in opens: its name in reports, its soname, the oldest version it takes.

    `version_symbol` is a function without arguments that returns 10000 * major + 100 * minor + patch; empty where the
    version is not checked. `purpose` is what it does, `without` what is lost when it is missing; empty: needed.
    `folders` lie below site-packages, `remedy` gets it.
    """

    name: str
    soname: str
    version_symbol: str
    minimum: int
    folders: tuple[str, ...]
    remedy: str
    purpose: str
    without: str = ""


LIBRARIES = (
    VendorLibrary(
        "cuBLASLt",
        "libcublasLt.so.13",
        "cublasLtGetVersion",
        130000,
        ("nvidia/cu13/lib", "nvidia/cublas/lib"),
        "pip install nvidia-cublas (CUDA 13)",
        "matrix products",
    ),
    VendorLibrary(
        "cuDNN",
        "libcudnn.so.9",
        "cudnnGetVersion",
        90000,
        ("nvidia/cudnn/lib",),
        "pip install nvidia-cudnn-cu13",
        "convolution",
        "convolution takes the provider's own kernels",
    ),
    VendorLibrary(
        "NVRTC",
        "libnvrtc.so.13",
        "",
        0,
        ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"),
        "pip install nvidia-cuda-nvrtc",
        "some of cuDNN's engines",
        "cuDNN has fewer engines to choose from",
    ),
    VendorLibrary(
        "CUPTI",
        "libcupti.so.13",
        "",
        0,
        ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib"),
        "pip install nvidia-cuda-cupti",
        "GPU times in profiles",
        "profiles have no GPU times",
    ),
    VendorLibrary(
        "NCCL",
        "libnccl.so.2",
        "",
        0,
        ("nvidia/nccl/lib",),
        "pip install nvidia-nccl-cu13",
        "collective operators over several GPUs",
        "models with collective operators are refused",
    ),
)


@dataclass(frozen=True)
class Status:
    """What was found of a library. `note` says where, or what is wrong with what was found."""

    found: bool
    path: str = ""
    version: str = ""
    note: str = ""

    @staticmethod
    def of_report(report: dict[str, Any]) -> "Status":
        """From an entry of a placement report: the plug-in's own words."""
        return Status(report["found"], report["path"], report["version"], report["status"])


def version_text(number: int) -> str:
    """ "9.19.0" for 91900."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def wanted(library: VendorLibrary) -> str:
    """The file and the versions that will do."""
    if not library.minimum:
        return library.soname
    return f"{library.soname}, {version_text(library.minimum)} or newer"


def look_up(library: VendorLibrary) -> Status:
    """What a plug-in loaded now would find. Opens the library to ask for its version."""
    for place, file in _candidates(library):
        try:
            opened = ctypes.CDLL(file)
        except OSError as error:
            if place == _LINKER:
                continue  # it has no such file
            return Status(False, file, note=f"{place}: does not load: {error}")
        path = next((str(loaded) for loaded in _loaded_files() if loaded.name.startswith(library.soname)), file)
        return _judge(library, opened, path, place)
    return Status(False, note="not found")


def _judge(library: VendorLibrary, opened: ctypes.CDLL, path: str, place: str) -> Status:
    if not library.version_symbol:
        return Status(True, path, note=place)
    function = getattr(opened, library.version_symbol, None)
    if function is None:
        return Status(False, path, note=f"{place}: does not export {library.version_symbol}")
    function.restype = ctypes.c_size_t
    number = int(function())
    if number < library.minimum:
        return Status(False, path, version_text(number), f"{place}: version {version_text(number)} is too old")
    return Status(True, path, version_text(number), place)


def _candidates(library: VendorLibrary) -> Iterator[tuple[str, str]]:
    """Places and files that exist, in order; the dynamic linker's by bare name."""
    loaded = _loaded_files()
    yield from (("already loaded", str(file)) for file in loaded if file.name.startswith(library.soname))
    folders = [
        (PATH_VARIABLE, [Path(text) for text in os.environ.get(PATH_VARIABLE, "").split(":") if text]),
        ("Python wheel", [root / folder for root in _site_folders() for folder in library.folders]),
        ("beside a loaded library", [file.parent for file in loaded if file.name.startswith(_CUDA_PREFIXES)]),
    ]
    for place, parents in folders:
        yield from ((place, str(parent / library.soname)) for parent in parents if (parent / library.soname).is_file())
    yield _LINKER, library.soname
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        file = Path(home or "/usr/local/cuda") / "lib64" / library.soname
        if file.is_file():
            yield "CUDA toolkit", str(file)


def _site_folders() -> list[Path]:
    return [Path(entry) for entry in (*site.getsitepackages(), site.getusersitepackages(), *sys.path) if entry]


def _loaded_files() -> list[Path]:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return []
    found = {line[line.index("/") :]: None for line in maps.read_text().splitlines() if "/" in line}
    return [Path(name) for name in found]
