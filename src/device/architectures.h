// Which GPUs the device code of a build runs on, by CUDA's rules of compatibility.
//
// Machine code for X.Y runs on X.Z with Z >= Y; code with the suffix a on X.Y alone, with f on its family X.Z, Z >= Y.
// PTX for X.Y is compiled by the driver for any later capability, with a or f for the same ones as machine code. PTX
// for less than 9.0 counts for GPUs below 9.0 only: from there on the host launches with overlap and clusters, which
// kernels compiled for less do not know.
#pragma once

#include <string_view>

#include "core/status.h"

namespace cudaep::device {

struct DeviceInfo;

// `architectures` as CMake writes them, but with commas: "75-real,90a-real,120", without a suffix for both machine code
// and PTX. A word that is no number ("native", "all") claims nothing: true.
bool RunsOn(std::string_view architectures, int major, int minor);

// OK where this build holds code that the GPU can run, by RunsOn; kNotSupported naming both where it does not. Compares
// what was compiled with what the GPU is: asking the runtime would make a context on every GPU of the machine.
Status CheckCode(const DeviceInfo& info);

}  // namespace cudaep::device
