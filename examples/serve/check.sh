#!/bin/sh
# Runs check.py in an environment of its own, build/serve, which is made once. SERVE_PYTHON names an interpreter that has
# the packages already.
set -eu
cd "$(dirname "$0")/../.."

python=${SERVE_PYTHON:-build/serve/bin/python}
requirements=examples/serve/requirements.txt
if [ -z "${SERVE_PYTHON:-}" ] && ! cmp -s "$requirements" build/serve/.complete; then
  .venv/bin/python -m venv --clear build/serve
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement "$requirements"
  cp "$requirements" build/serve/.complete
fi
PYTHONPATH=$PWD/python exec "$python" examples/serve/check.py "$@"
