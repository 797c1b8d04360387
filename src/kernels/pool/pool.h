// Max, average and Lp pooling over windows of up to three spatial dimensions, channels first or last.
//
// 16-bit floats are compared and summed in fp32. A NaN inside a window makes its maximum NaN.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kMaxPoolTypes = kFloatTypes | kInt8Types;
inline constexpr DataTypeSet kAveragePoolTypes = kFloatTypes;

// Spatial dimensions outermost first, leading ones of size 1 where there are fewer than three. The positions of an
// input plane, the elements of an output plane, and every position in the padded input fit 31 bits.
struct PoolShape {
  DataType type = DataType::kFloat;
  int64_t planes = 0;    // batch times channels, or the batch where channels come last
  int32_t channels = 1;  // at each position: 1 where they come first
  int32_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int32_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int32_t pad_begin[3] = {}, pad_end[3] = {};
};

// `indices` (may be null) gets the position of each maximum in the whole input, counted with the last dimension
// fastest, or with `column_major` the first spatial one; it has its channels first, and counts so, wherever they lie. A
// window that meets no input gives the type's lowest value.
Status LaunchMaxPool(const PoolShape& shape, bool column_major, const void* x, void* y, int64_t* indices,
                     device::Stream stream);

// The mean over the elements a window meets, with `count_padding` over the padding it meets as well; 0 where there are
// none.
Status LaunchAveragePool(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream);

// The p-norm of the elements a window meets, 0 where there are none; p > 0. Channels first only.
Status LaunchLpPool(const PoolShape& shape, double p, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
