// Products of complex numbers whose real and imaginary parts are the last dimension of real tensors.
#pragma once

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kComplexMulTypes{DataType::kFloat, DataType::kDouble, DataType::kFloat16};

// The broadcast is one of pairs. `conjugate`: of b.
Status LaunchComplexMul(DataType type, bool conjugate, const void* a, const void* b, const Broadcast<2>& pairs, void* y,
                        device::Stream stream);

}  // namespace cudaep::kernels
