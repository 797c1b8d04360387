// The row that a tuple of indices names.
#pragma once

#include "device/launch.h"
#include "kernels/movement/index_tuples.h"

namespace cudaep::kernels {

__device__ __forceinline__ int64_t ReadIndex(const GatherIndices& indices, int64_t number) {
  return indices.wide ? static_cast<const int64_t*>(indices.pointer)[number]
                      : static_cast<const int32_t*>(indices.pointer)[number];
}
// All loads before anything waits for one.
template <int kCount>
__device__ __forceinline__ void ReadIndices(const GatherIndices& indices, const int64_t (&number)[kCount],
                                            int64_t (&index)[kCount]) {
  if (indices.wide) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) index[j] = static_cast<const int64_t*>(indices.pointer)[number[j]];
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) index[j] = static_cast<const int32_t*>(indices.pointer)[number[j]];
  }
}

// The position on an axis that an index names; -1 when it lies outside.
__device__ __forceinline__ int64_t WithinAxis(int64_t index, int64_t axis) {
  if (index < 0) index += axis;
  return index >= 0 && index < axis ? index : -1;
}

// -1 where one of the indices lies outside.
__device__ __forceinline__ int64_t RowOfTuple(const IndexTuples& tuples, int64_t number) {
  int64_t row = 0;
  bool inside = true;
  for (int k = 0; k < tuples.length; ++k) {
    const int64_t position = WithinAxis(ReadIndex(tuples.indices, number * tuples.length + k), tuples.size[k]);
    inside = inside && position >= 0;
    row += inside ? position * tuples.stride[k] : 0;
  }
  return inside ? row : -1;
}
// Of several at once.
template <int kCount>
__device__ __forceinline__ void RowsOfTuples(const IndexTuples& tuples, const int64_t (&number)[kCount],
                                             int64_t (&row)[kCount]) {
  if (tuples.length == 1) {
    int64_t index[kCount];
    ReadIndices(tuples.indices, number, index);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int64_t position = WithinAxis(index[j], tuples.size[0]);
      row[j] = position < 0 ? position : position * tuples.stride[0];
    }
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) row[j] = RowOfTuple(tuples, number[j]);
  }
}

}  // namespace cudaep::kernels
