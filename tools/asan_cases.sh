#!/bin/sh
# The operators' case tables on the simulated device under the address and undefined-behaviour sanitizers, by
# preloading their run-time libraries into Python. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
export LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
# The interpreter keeps its memory to the end, and is itself not built with the sanitizer.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export CUDAEP_TEST_LIB_DIR=build/asan/lib
exec .venv/bin/python -m pytest -q -p no:cacheprovider tests/op -k "not session" "$@"
