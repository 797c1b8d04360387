// Picks slices (Gather) or elements (GatherElements) of a tensor along one axis by indices in device memory.
//
// A negative index counts from the end. An index outside [-axis, axis) is never followed: zeros are written in its
// place. Nobody on the host sees the values, and waiting to look at them would stall every launch.
#pragma once

#include "device/device.h"
#include "kernels/movement/strided_copy.h"

namespace cudaep::kernels {

struct GatherIndices {
  const void* pointer = nullptr;
  bool wide = true;        // int64, otherwise int32
  uint8_t unused[7] = {};  // whole words: padding might hold what looks like an old pointer to the simulated device
};

// data is [outer, axis, row], the output [outer, count, row].
struct GatherShape {
  int64_t outer = 0;
  int64_t axis = 0;
  int64_t count = 0;
  int64_t row_bytes = 0;
};
Status LaunchGather(const GatherShape& shape, const void* data, GatherIndices indices, void* out,
                    device::Stream stream);

// out[i] = data[base(i) + index[i] * axis_stride]; `base` is a strided view of data with the shape of the indices and
// a stride of 0 along the axis.
struct GatherElementsShape {
  StridedCopy base;
  int64_t axis = 0;
  int64_t axis_stride = 0;  // in elements
  int elem_bytes = 1;
};
// `base` is made for elements of one byte: an index belongs to one element, so units are never widened.
Status LaunchGatherElements(const GatherElementsShape& shape, const void* data, GatherIndices indices, void* out,
                            device::Stream stream);

}  // namespace cudaep::kernels
