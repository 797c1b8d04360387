// Copies any strided view of a tensor into a contiguous one: slices, broadcasts, repeats, transposes of whole rows.
//
// A view is a size and a stride for each dimension and an offset; strides may be 0 (repeated) or negative (reversed).
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxStridedRank = 16;

// A coalesced view. Dimensions are stored innermost first, those of size 1 dropped, neighbours merged where one stride
// continues the other. Elements of 16 bytes are pairs of 8, so that a buffer need not be aligned to 16.
struct StridedCopy {
  int rank = 0;  // at least 1 when there is something to copy
  int64_t units = 0;
  int unit_bytes = 1;    // 1, 2, 4 or 8
  int widest_bytes = 1;  // what sizes and strides allow; addresses may allow less
  int64_t offset = 0;    // in units, as the strides
  int64_t size[kMaxStridedRank] = {};
  int64_t stride[kMaxStridedRank] = {};

  // Whether the view is one run of memory.
  bool contiguous() const { return rank == 1 && stride[0] == 1; }
};

// `sizes` and `strides` (in elements) are outermost first. kNotSupported when more than kMaxStridedRank dimensions
// remain; the view must lie inside the tensor.
Result<StridedCopy> MakeStridedCopy(Dims sizes, Dims strides, int64_t offset, size_t elem_bytes);

// Buffers must not overlap. An empty view launches nothing.
Status LaunchStridedCopy(const StridedCopy& copy, const void* in, void* out, device::Stream stream);

}  // namespace cudaep::kernels
