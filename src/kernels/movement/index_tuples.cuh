// The row that a tuple of indices names.
#pragma once

#include "device/launch.h"
#include "kernels/movement/index_tuples.h"

namespace cudaep::kernels {

// -1 where one of the indices lies outside.
__device__ __forceinline__ int64_t RowOfTuple(const IndexTuples& tuples, int64_t number) {
  int64_t row = 0;
  bool inside = true;
  for (int k = 0; k < tuples.length; ++k) {
    const int64_t at = number * tuples.length + k;
    int64_t index = tuples.indices.wide ? static_cast<const int64_t*>(tuples.indices.pointer)[at]
                                        : static_cast<const int32_t*>(tuples.indices.pointer)[at];
    if (index < 0) index += tuples.size[k];
    inside = inside && index >= 0 && index < tuples.size[k];
    row += inside ? index * tuples.stride[k] : 0;
  }
  return inside ? row : -1;
}

}  // namespace cudaep::kernels
