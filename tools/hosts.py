"""Other versions of ONNX Runtime, each in a folder of its own: `hosts.py VERSION...` installs them and prints where.

A test runs a child process with PYTHONPATH on that folder; the rest of its environment stays as it is. A folder that
is there already is used as it is, so nothing is downloaded twice and no network is needed then.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "1.24.4"


def host_path(version: str) -> Path:
    """The folder for `version`; $ORT_CUDA_EP_HOSTS names another parent folder than build/hosts."""
    parent = os.environ.get("ORT_CUDA_EP_HOSTS")
    return (Path(parent) if parent else ROOT / "build" / "hosts") / version


def is_installed(version: str) -> bool:
    """Whether a whole installation of `version` is there."""
    return (host_path(version) / ".complete").is_file()


def install(version: str) -> Path:
    """Installs onnxruntime `version` without its dependencies, unless it is there, and returns its folder."""
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


def main() -> None:
    """Installs the versions of the command line, by default the oldest supported one."""
    for version in sys.argv[1:] or [OLDEST]:
        print(install(version))


if __name__ == "__main__":
    main()
