"""NVIDIA's libraries that the CUDA library opens at run time: where they are and how to get missing ones.

The order of search is the plug-in's: already loaded in the process, `nvidia-*` wheels, library path, CUDA toolkit.
"""

import ctypes.util
import os
import site
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class VendorLibrary:
    """A library by its soname, what it is for, the wheel that has it, and whether the provider runs without it."""

    soname: str
    purpose: str
    wheel: str
    optional: bool


LIBRARIES = (
    VendorLibrary("libcublasLt.so.13", "matrix multiplication", "nvidia-cublas", False),
    VendorLibrary("libcudnn.so.9", "convolution", "nvidia-cudnn-cu13", True),
    VendorLibrary("libcufft.so.12", "Fourier transforms", "nvidia-cufft", True),
    VendorLibrary("libnvrtc.so.13", "kernels compiled at run time", "nvidia-cuda-nvrtc", True),
    VendorLibrary("libcupti.so.13", "device times in profiles", "nvidia-cuda-cupti", True),
    VendorLibrary("libnccl.so.2", "several GPUs", "nvidia-nccl-cu13", True),
)


def locate(soname: str) -> str | None:
    """Where `soname` would come from, as a path or a short phrase; None when it is nowhere."""
    for source in (_loaded, _in_wheels, _on_library_path, _in_toolkit, _in_linker_cache):
        found = source(soname)
        if found:
            return found
    return None


def _loaded(soname: str) -> str | None:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return None
    for line in maps.read_text().splitlines():
        if f"/{soname}" in line:
            return line[line.index("/") :] + " (loaded)"
    return None


def _first_file(folders: list[Path], soname: str) -> str | None:
    return next((str(folder / soname) for folder in folders if (folder / soname).is_file()), None)


def _in_wheels(soname: str) -> str | None:
    roots = [Path(entry) for entry in (*site.getsitepackages(), site.getusersitepackages(), *sys.path) if entry]
    return _first_file([lib for root in roots for lib in sorted(root.glob("nvidia/*/lib"))], soname)


def _on_library_path(soname: str) -> str | None:
    return _first_file([Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p], soname)


def _in_toolkit(soname: str) -> str | None:
    homes = [Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")), Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]
    folders = [home / part for home in homes for part in ("lib64", "lib", "extras/CUPTI/lib64")]
    return _first_file(folders, soname)


def _in_linker_cache(soname: str) -> str | None:
    found = ctypes.util.find_library(soname.removeprefix("lib").split(".so")[0])
    return f"{found} (system linker)" if found == soname else None
