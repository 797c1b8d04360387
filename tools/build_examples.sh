#!/bin/sh
# Installs the library of a build and builds examples/cpp against it, as a user would: build_examples.sh PRESET
#
# build/PRESET/install has the installation, build/PRESET/examples the programs and libonnxruntime.so.1, that of .venv.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/build/$1
ort=$(.venv/bin/python -c 'import onnxruntime, pathlib; print(pathlib.Path(onnxruntime.__file__).parent / "capi")')
headers=$(sed -n 's/^CUDAEP_ORT_HEADERS:INTERNAL=//p' "$build/CMakeCache.txt")

cmake --install "$build" --prefix "$build/install" >/dev/null
mkdir -p "$build/examples"
ln -sf "$(find "$ort" -name 'libonnxruntime.so.*')" "$build/examples/libonnxruntime.so.1"
cmake -G Ninja -S examples/cpp -B "$build/examples" -DCMAKE_PREFIX_PATH="$build/install" \
  -DONNXRUNTIME_INCLUDE_DIR="$headers" -DONNXRUNTIME_LIBRARY="$build/examples/libonnxruntime.so.1" >/dev/null
cmake --build "$build/examples"
