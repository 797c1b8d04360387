// Sums and products that a gate goes into: com.microsoft's BiasSplitGelu and GatedAdd, and the regions' Gated.
#pragma once

#include "core/data_type.h"
#include "core/epilogue.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kBiasSplitGeluTypes{DataType::kFloat, DataType::kFloat16};
inline constexpr DataTypeSet kGatedTypes = kFloatTypesNoDouble;
inline constexpr DataTypeSet kGatedAddTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

// y[r, i] = (x[r, i] + bias[i]) * gelu(x[r, half + i] + bias[half + i]), gelu being the exact one. fp32 arithmetic.
Status LaunchBiasSplitGelu(DataType type, const void* x, const void* bias, int64_t rows, int64_t half, void* y,
                           device::Stream stream);

// y[r, i] = activation(x[r, gate + i]) * x[r, other + i] of rows of 2 * half elements; one row may have its parts
// anywhere. fp32 arithmetic.
Status LaunchGated(DataType type, Activation activation, const void* x, int64_t rows, int64_t half, int64_t gate,
                   int64_t other, void* y, device::Stream stream);

// out = x + y * gate, the product rounded to the type first.
Status LaunchGatedAdd(DataType type, const void* x, const void* y, const void* gate, const Broadcast<3>& broadcast,
                      void* out, device::Stream stream);

}  // namespace cudaep::kernels
