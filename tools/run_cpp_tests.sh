#!/bin/sh
# Runs the C++ tests of the named test executables of one preset: run_cpp_tests.sh PRESET EXECUTABLE...
#
# ctest knows single tests and would call those of executables that were not built missing, so the executables run
# themselves, several at a time. One that finds no test, or that is not there, is a failure.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
run_one() {
  log=build/$1/$2.log
  if "build/$1/bin/$2" --gtest_brief=1 >"$log" 2>&1 && grep -q '^\[  PASSED  \] [1-9]' "$log"; then
    echo "$1: $2: $(grep -o '[0-9]* tests\{0,1\} from.*' "$log" | tail -1)"
  else
    cat "$log"
    echo "$1: $2: FAILED"
    return 1
  fi
}
if [ "${RUN_ONE:-}" = yes ]; then
  run_one "$preset" "$1"
  exit
fi
printf '%s\n' "$@" | RUN_ONE=yes xargs -P "$(nproc)" -n 1 "$0" "$preset"
