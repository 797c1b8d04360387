#!/bin/sh
# Runs run.py in an environment of its own, build/frameworks, which takes some gigabytes (PyTorch) and is made once.
# FRAMEWORKS_PYTHON names an interpreter that has the packages already.
set -eu
cd "$(dirname "$0")/../.."

python=${FRAMEWORKS_PYTHON:-build/frameworks/bin/python}
if [ -z "${FRAMEWORKS_PYTHON:-}" ] && [ ! -f build/frameworks/.complete ]; then
  .venv/bin/python -m venv --clear build/frameworks
  grep -v '^setuptools' requirements.txt >build/frameworks/constraints.txt  # PyTorch wants an older one
  "$python" -m pip install --quiet --requirement tests/frameworks/requirements.txt \
    --constraint build/frameworks/constraints.txt
  touch build/frameworks/.complete
fi
PYTHONPATH=python exec "$python" -W ignore tests/frameworks/run.py
