// Means of 8-bit integers that stand for reals, over windows and over whole planes. Sums are exact int32, which may
// wrap.
//
// y = saturate(round(ratio * sum of (x - x_zero) / count) + y_zero)
#pragma once

#include "kernels/pool/pool.h"

namespace cudaep::kernels {

struct QLinearMean {
  DataType type = DataType::kUint8;  // or int8
  float ratio = 1;
  int32_t x_zero = 0, y_zero = 0;
};

Status LaunchQLinearPool(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                         device::Stream stream);

// Sums of x[outer, elems, inner] over elems; the division by their number is in the ratio, and `count` 1.
Status LaunchQLinearGlobalMean(const QLinearMean& mean, int64_t outer, int64_t elems, int64_t inner, const void* x,
                               void* y, device::Stream stream);

}  // namespace cudaep::kernels
