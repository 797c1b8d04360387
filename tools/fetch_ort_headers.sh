#!/bin/sh
# Puts ONNX Runtime's C headers into a folder: fetch_ort_headers.sh [FOLDER]
#
# Source: Debian's libonnxruntime-dev, downloaded with a private source list and private package lists from the mirror
# this machine already uses, verified by apt's keyring, unpacked and never installed. Needs no root.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
dest=${1:-$root/build/deps/onnxruntime-headers}
suite=${CUDAEP_DEBIAN_SUITE:-experimental}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
  echo "fetch_ort_headers: $1" >&2
  echo "Instead: unpack an official ONNX Runtime release (1.27 or newer) and set ORT_INCLUDE_DIR to its include folder." >&2
  exit 1
}

if [ -e "$dest/onnxruntime_ep_c_api.h" ]; then exit 0; fi
for tool in apt-get dpkg; do
  command -v $tool >/dev/null || fail "this machine has no $tool, so Debian's package cannot be used"
done
[ -r $keyring ] || fail "no Debian keyring at $keyring"
sites=$(apt-get indextargets --format '$(SITE)' 'Identifier: Packages' | grep -v security || true)
mirror=${CUDAEP_DEBIAN_MIRROR:-$(echo "$sites" | grep debian | head -n 1 || true)}
mirror=${mirror:-$(echo "$sites" | head -n 1)}
[ -n "$mirror" ] || fail "no Debian mirror in this machine's apt configuration (or set CUDAEP_DEBIAN_MIRROR)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/parts" "$work/unpacked"
echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
private_apt() {
  apt-get -q -oDir::State::Lists="$work/lists" -oDir::Etc::sourcelist="$work/sources.list" \
    -oDir::Etc::sourceparts="$work/parts" -oDir::Cache="$work/cache" -oAPT::Get::List-Cleanup=0 \
    -oAPT::Sandbox::User=root -oDebug::NoLocking=1 "$@"
}
echo "Fetching ONNX Runtime's C headers (Debian $suite)"
cd "$work"
private_apt update >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the package lists could not be read"; }
private_apt download libonnxruntime-dev >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the download failed"; }
dpkg -x libonnxruntime-dev_*.deb "$work/unpacked"

# Whole or not at all: an interrupted copy must not look like a finished one.
rm -rf "$dest" "$dest.partial"
mkdir -p "$(dirname "$dest")"
cp -r "$work/unpacked/usr/include/onnxruntime" "$dest.partial"
[ -e "$dest.partial/onnxruntime_ep_c_api.h" ] || fail "the package holds no plug-in headers"
mv "$dest.partial" "$dest"
