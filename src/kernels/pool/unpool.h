// The inverse of max pooling: elements go back to where they came from, all others are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxUnpoolRank = 5;  // batch, channels and three spatial dimensions

struct UnpoolShape {
  int64_t elems = 0;  // of x
  // What positions are counted in, with the last dimension fastest, and what the output has: as much or more.
  int64_t counted[kMaxUnpoolRank] = {1, 1, 1, 1, 1}, out[kMaxUnpoolRank] = {1, 1, 1, 1, 1};
};

// `elem_bytes`: 2, 4 or 8. Positions outside are left out. Which of several elements for one position stays there is
// open; those of a max pooling are equal.
Status LaunchUnpool(const UnpoolShape& shape, size_t elem_bytes, const void* x, const int64_t* positions, void* y,
                    device::Stream stream);

}  // namespace cudaep::kernels
