#!/usr/bin/env bash
# On a GPU machine, beside the parts of a bundle (tools/bundle_gpu.py): unpacks them and runs everything, offline.
#
#   gpu_check.sh [STEP...]      steps: cpp session gpu ocr bench sanitize; default: all but the last
#
# OUT names the folder for reports (default: results beside this script), UPSTREAM one with onnxruntime-gpu for the
# benches. Exit code 1 when any step fails.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-$here/unpacked}
out=${OUT:-$here/results}
python=${PYTHON:-python3}
mkdir -p "$out"

if [ ! -f "$work/.complete" ]; then
  mkdir -p "$work"
  cat "$here"/bundle.tar.gz.?? | tar -xz -C "$work" || { echo "gpu_check: a part of the bundle is missing" >&2; exit 2; }
  touch "$work/.complete"
fi
cd "$work" || exit 2

# The host is always ours; of the rest only what this machine lacks, so that its own NumPy and friends stay in charge.
if [ ! -f site/.complete ]; then
  "$python" - wheels >wheels/needed <<'PY' || exit 2
import importlib.metadata, pathlib, sys
for wheel in sorted(pathlib.Path(sys.argv[1]).glob("*.whl")):
    name = wheel.name.split("-")[0]
    try:
        importlib.metadata.version(name)
        present = name != "onnxruntime"
    except importlib.metadata.PackageNotFoundError:
        present = False
    if not present:
        print(wheel)
PY
  "$python" -m pip install --quiet --no-index --no-deps --target site --requirement wheels/needed || exit 2
  touch site/.complete
fi
for wheel in wheels/oldest_host/*.whl; do
  version=$(basename "$wheel" | cut -d- -f2)
  [ -f "hosts/$version/.complete" ] && continue
  "$python" -m pip install --quiet --no-index --no-deps --target "hosts/$version" "$wheel" || exit 2
  touch "hosts/$version/.complete"
done
export ORT_CUDA_EP_HOSTS=$work/hosts
# An order of the teardown tests makes a CUDA context: a part of them will do here, the simulated device does all.
export CUDAEP_TEARDOWN_STRIDE=${CUDAEP_TEARDOWN_STRIDE:-12}
export PYTHONPATH=$work/python:$work/site${PYTHONPATH:+:$PYTHONPATH}
export CUDAEP_TEST_LIB_DIR=$work/build/cuda/lib CUDAEP_REQUIRE_SESSION=1
export ORT_CUDA_EP_LIBRARY=$CUDAEP_TEST_LIB_DIR/libort_cuda_ep.so

failed=()
step() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@" || failed+=("$name")
  echo "== $name: $((SECONDS - start)) s"
}

# The loader's tests open libraries of the build tree, which are not in the bundle.
cpp_tests() {
  local status=0 program
  for program in build/cuda/bin/*test*; do
    [ -x "$program" ] || { echo "no C++ tests in the bundle"; return 1; }
    "$program" --gtest_brief=1 --gtest_filter=-LoaderTest.* --gtest_output="xml:$out/$(basename "$program").xml" || status=1
  done
  return $status
}

# Exit code 5, no tests found, is a failure like any other.
session_tests() {
  local cases=() sessions=() status=0
  if "$python" -c "import xdist" 2>/dev/null; then
    cases=(-n "$(nproc)" --dist worksteal) sessions=(-n "$(nproc)" --dist loadfile)
  fi
  "$python" -m pytest -q "${cases[@]}" -p no:cacheprovider --junitxml="$out/cases.xml" tests/op || status=1
  # By file: the tests of one share child processes.
  "$python" -m pytest -q "${sessions[@]}" -p no:cacheprovider --junitxml="$out/pytest.xml" tests/session || status=1
  return $status
}

# What looks at the memory of the whole device: alone on it.
gpu_tests() {
  "$python" -m pytest -q -rA -p no:cacheprovider --junitxml="$out/gpu.xml" tests/gpu
}

# One case for each operator and class of types under memcheck and racecheck, in parts beside each other.
sanitize() {
  local tool part parts=$(($(nproc) / 2)) status=0
  command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin
  for tool in memcheck racecheck; do
    local running=()
    for part in $(seq "$parts"); do
      timeout "${SANITIZE_SECONDS:-280}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --log-file "$out/$tool.$part.txt" "$python" -m tests.op.harness.sweep --part "$part/$parts" \
        >"$out/$tool.$part.log" 2>&1 &
      running+=($!)
    done
    for part in "${running[@]}"; do wait "$part" || status=1; done
    tail -qn 1 "$out/$tool".*.log "$out/$tool".*.txt
  done
  return $status
}

ocr() {
  "$python" -m ort_cuda_ep.demo.ocr --device cuda --json | tee "$out/ocr.json"
}

benches() {
  local status=0 program
  for program in build/cuda/bin/*bench*; do
    [ -x "$program" ] || continue
    "$program" --json "$out/$(basename "$program").json" || status=1
  done
  "$python" -m bench run ${UPSTREAM:+--upstream "$UPSTREAM"} --json "$out/bench.json" || status=1
  return $status
}

"$python" -m ort_cuda_ep doctor || true
for name in "${@:-all}"; do
  case $name in
    all) step "C++ tests" cpp_tests; step "session tests" session_tests; step "GPU tests" gpu_tests; step "OCR" ocr; step "benches" benches ;;
    cpp) step "C++ tests" cpp_tests ;;
    session) step "session tests" session_tests ;;
    gpu) step "GPU tests" gpu_tests ;;
    ocr) step "OCR" ocr ;;
    bench) step "benches" benches ;;
    sanitize) step "compute-sanitizer" sanitize ;;
    *) echo "gpu_check: no step is called $name" >&2; exit 2 ;;
  esac
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "gpu_check: failed: ${failed[*]}"
  exit 1
fi
echo "gpu_check: all steps passed"
