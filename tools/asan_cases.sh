#!/bin/sh
# The operators' case tables on the simulated device under the address and undefined-behaviour sanitizers, by
# preloading their run-time libraries into Python: one case of each operator and kind of type, or with ALL=1 every case.
# Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
# The interpreter keeps its memory to the end, and is itself not built with the sanitizer.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export CUDAEP_TEST_LIB_DIR=build/asan/lib PYTHONPATH=tools
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
if [ "${ALL:-}" = 1 ]; then
  set -- --modes=-session "$@"
else
  set -- -p one_case_each --modes shifted "$@"
fi
exec env LD_PRELOAD="$LD_PRELOAD" .venv/bin/python -m pytest -q -p no:cacheprovider tests/op/test_cases.py::test_cases "$@"
