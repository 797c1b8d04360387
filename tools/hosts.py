"""The supported versions of ONNX Runtime, each in a folder of its own: `hosts.py VERSION...` installs and prints them.

A test runs a child process with PYTHONPATH on such a folder; the rest of its environment stays as it is. A folder that
is there already is used as it is, so nothing is downloaded twice and no network is needed then. The version that this
Python has installed needs no folder.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# One release of each minor version, oldest first; the last is that of requirements.txt.
SUPPORTED = ("1.24.4", "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1", "1.32.0")
OLDEST, NEWEST = SUPPORTED[0], SUPPORTED[-1]
# Of these every test run makes use: no feature of newer hosts, those of the compiled API version, all of them.
CI = (OLDEST, "1.27.0", NEWEST)


# For child processes that must stumble over memory which was freed: it is overwritten, and used again only late.
STRICT_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"}


def host_path(version: str) -> Path:
    """The folder for `version`; $ORT_CUDA_EP_HOSTS names another parent folder than build/hosts."""
    parent = os.environ.get("ORT_CUDA_EP_HOSTS")
    return (Path(parent) if parent else ROOT / "build" / "hosts") / version


def is_own(version: str) -> bool:
    """Whether `version` is what this Python imports without any folder."""
    return version == importlib.metadata.version("onnxruntime")


def is_installed(version: str) -> bool:
    """Whether a whole installation of `version` is in its folder."""
    return (host_path(version) / ".complete").is_file()


def install(version: str) -> Path:
    """Installs onnxruntime `version` without its dependencies, unless it is there, and returns its folder.

    Raises subprocess.CalledProcessError when it cannot be downloaded.
    """
    target = host_path(version)
    if is_installed(version):
        return target
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(target), f"onnxruntime=={version}"], check=True)
    (target / ".complete").touch()
    return target


def environment(version: str) -> dict[str, str]:
    """This process's environment, with `version` as the onnxruntime that a child imports."""
    rest = os.environ.get("PYTHONPATH")
    path = str(host_path(version))
    return {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{rest}" if rest else path}


def ready_environment(version: str) -> dict[str, str]:
    """`environment`, with `version` installed before; as it is for the version this Python has. Raises as `install`."""
    if is_own(version):
        return dict(os.environ)
    install(version)
    return environment(version)


def main() -> None:
    """Installs the versions of the command line, by default those that every test run uses."""
    for version in sys.argv[1:] or [version for version in CI if not is_own(version)]:
        print(install(version))


if __name__ == "__main__":
    main()
