#!/bin/sh
# Makes the local virtual environment .venv with the pinned requirements and this project's Python package in it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/python_version.sh"

python=$(find_python) || { echo "setup: Python 3.11 or 3.12 is needed" >&2; exit 1; }
if ! "$root/.venv/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "setup: making .venv with $("$python" --version)"
  rm -rf "$root/.venv"
  "$python" -m venv "$root/.venv"
fi
echo "setup: installing the pinned Python packages"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$root/.venv/bin/python" -m pip install --quiet --no-deps --requirement "$root/requirements.txt"
"$root/.venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable "$root"
