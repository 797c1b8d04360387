"""The wheel's tag; everything else is in pyproject.toml. `tools/make_wheel.py` makes the wheels that are shipped."""

import platform
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

# tools/checks/symbols.py holds the libraries to it.
OLDEST_PLATFORM = "manylinux_2_34"


def _libraries() -> list[Path]:
    return sorted((Path(__file__).parent / "python" / "ort_cuda_ep").glob("*.so"))


class _Distribution(Distribution):
    def has_ext_modules(self) -> bool:
        """Whether files for one kind of processor are in it, which belong below `platlib`."""
        return bool(_libraries())


class _Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3; with a library in it one kind of processor and the oldest C library."""
        if not _libraries():
            return ("py3", "none", "any")
        return ("py3", "none", f"{OLDEST_PLATFORM}_{platform.machine()}")


setup(distclass=_Distribution, cmdclass={"bdist_wheel": _Wheel})
