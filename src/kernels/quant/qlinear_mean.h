// Means of 8-bit integers that stand for reals. Sums are exact: of windows int32, which may wrap, of whole images
// int64.
//
// y = saturate(round(ratio * sum of (x - x_zero) / count) + y_zero)
#pragma once

#include <cstdint>

namespace cudaep::kernels {

struct QLinearMean {
  float ratio = 1;
  int32_t x_zero = 0, y_zero = 0;
};

}  // namespace cudaep::kernels
