// What planning a scan knows of its kernels.
#pragma once

#include "kernels/pack.h"
#include "kernels/scan/scan.h"

namespace cudaep::kernels {

inline constexpr int kScanBlock = 256;           // threads
inline constexpr int64_t kLongestWarpRow = 512;  // elements; longer rows have a block each

}  // namespace cudaep::kernels
