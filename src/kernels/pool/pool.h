// Max, average and Lp pooling over windows of up to three spatial dimensions, channels first.
//
// 16-bit floats are compared and summed in fp32. A NaN inside a window makes its maximum NaN.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kMaxPoolTypes = kFloatTypes | DataTypeSet{DataType::kInt8, DataType::kUint8};
inline constexpr DataTypeSet kAveragePoolTypes = kFloatTypes;

// Spatial dimensions outermost first, leading ones of size 1 where there are fewer than three. The elements of an input
// plane, of an output plane, and every position in the padded input fit 31 bits.
struct PoolShape {
  DataType type = DataType::kFloat;
  int64_t planes = 0;  // batch times channels
  int32_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int32_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int32_t pad_begin[3] = {}, pad_end[3] = {};
};

// `indices` (may be null) gets the position of each maximum in the whole input, counted with the last dimension
// fastest, or with `column_major` the first spatial one. A window that meets no input gives the type's lowest value.
Status LaunchMaxPool(const PoolShape& shape, bool column_major, const void* x, void* y, int64_t* indices,
                     device::Stream stream);

// The mean over the elements a window meets, with `count_padding` over the padding it meets as well; 0 where there are
// none.
Status LaunchAveragePool(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream);

// The p-norm of the elements a window meets, 0 where there are none; p > 0.
Status LaunchLpPool(const PoolShape& shape, double p, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
