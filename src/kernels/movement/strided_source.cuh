// The source of a strided copy: where each unit of the contiguous output comes from.
#pragma once

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/strided_copy.h"

namespace cudaep::kernels {

// Sizes and strides of a view in units, with the offset of output unit i.
template <class Index>
struct StridedView {
  int rank = 1;
  IndexDivider<Index> size[kMaxStridedRank];
  int64_t stride[kMaxStridedRank] = {};

  // `row_left`: units from i to the end of its innermost row.
  __device__ __forceinline__ int64_t Offset(Index i, Index* row_left) const {
    Index coordinate = i;
    Index rest = 0;
    if (rank > 1) rest = size[0].DivideWithRemainder(i, &coordinate);
    *row_left = static_cast<Index>(size[0].divisor) - coordinate;
    int64_t offset = static_cast<int64_t>(coordinate) * stride[0];
#pragma unroll 1
    for (int d = 1; d < rank; ++d) {
      coordinate = rest;
      if (d + 1 < rank) rest = size[d].DivideWithRemainder(rest, &coordinate);
      offset += static_cast<int64_t>(coordinate) * stride[d];
    }
    return offset;
  }
};

// `factor`: units of the copy in one of the view's.
template <class Index>
StridedView<Index> MakeStridedView(const StridedCopy& copy, int64_t factor) {
  StridedView<Index> view;
  view.rank = copy.rank;
  for (int d = 0; d < copy.rank; ++d) {
    view.size[d] = IndexDivider<Index>(d == 0 ? copy.size[0] / factor : copy.size[d]);
    view.stride[d] = d == 0 ? copy.stride[0] : copy.stride[d] / factor;
  }
  return view;
}

template <class Unit, class Index>
struct StridedSource {
  static constexpr bool kLocatesAhead = true;

  const Unit* in;
  StridedView<Index> view;

  struct Cursor {
    const Unit* pointer;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return *pointer; }
    __device__ __forceinline__ void Step(const StridedSource& source) { pointer += source.view.stride[0]; }
    __device__ __forceinline__ void Next(const StridedSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Cursor cursor;
    cursor.index = i;
    cursor.pointer = in + view.Offset(i, &cursor.row_left);
    return cursor;
  }
};

}  // namespace cudaep::kernels
