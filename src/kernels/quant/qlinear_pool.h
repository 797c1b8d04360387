// Means of codes over windows.
#pragma once

#include "kernels/pool/pool.h"
#include "kernels/quant/qlinear_mean.h"

namespace cudaep::kernels {

// Of codes of the shape's type, int8 or uint8.
Status LaunchQLinearPool(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                         device::Stream stream);

}  // namespace cudaep::kernels
