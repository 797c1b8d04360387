#!/bin/sh
# Configures (first time only) and builds one preset: build.sh PRESET [TARGET...]
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
case $preset in
  cuda*)
    PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin
    command -v nvcc >/dev/null || {
      echo "build: nvcc was not found. Install the CUDA toolkit 13 and set CUDA_PATH to its folder." >&2
      exit 1
    }
    ;;
esac
if [ ! -f "build/$preset/build.ninja" ]; then
  cmake --preset "$preset"
fi
exec cmake --build --preset "$preset" ${1:+--target "$@"}
