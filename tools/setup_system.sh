#!/bin/sh
# Makes sure that the compilers and libraries of a build are there.
#
# On Debian and Ubuntu missing packages are installed where that is allowed (as root, or sudo without a password);
# otherwise the one line to run is printed. Elsewhere it says what is missing.
set -eu
. "$(dirname "$0")/python_version.sh"

packages="cmake ninja-build g++ ccache libboost-context-dev libeigen3-dev libgtest-dev clang-format"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  missing=""
  for tool in cmake ninja g++ ccache clang-format; do
    command -v $tool >/dev/null || missing="$missing $tool"
  done
  find_python >/dev/null || missing="$missing Python-3.11-or-3.12"
  for header in boost/context/fiber.hpp eigen3/Eigen/Core gtest/gtest.h; do
    [ -e "/usr/include/$header" ] || [ -e "/usr/local/include/$header" ] || missing="$missing $header"
  done
  [ -z "$missing" ] && exit 0
  echo "setup: this is neither Debian nor Ubuntu; please install:$missing" >&2
  exit 1
fi

if ! python=$(find_python); then
  packages="$packages python3 python3-venv"
elif ! "$python" -c 'import ensurepip' 2>/dev/null; then
  packages="$packages python3-venv"
fi
missing=""
for package in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then
    as_root=""
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
  else
    echo "setup: packages are missing and this user may not install them. Run this line once, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  echo "setup: installing$missing"
  $as_root apt-get -q update
  # shellcheck disable=SC2086  # a list of words
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
fi
find_python >/dev/null || {
  echo "setup: Python 3.11 or 3.12 is needed (python3 is $(python3 --version 2>&1)); or set PYTHON to one" >&2
  exit 1
}
