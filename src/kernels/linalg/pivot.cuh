// The largest element of a column, for elimination by a block.
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace cudaep::kernels {

inline constexpr int kMostPivotThreads = 256;

// Where the larger element of a column is; NaN is larger than any number.
struct Pivot {
  double size;
  int64_t row;
};
__device__ __forceinline__ Pivot Larger(Pivot a, Pivot b) { return b.size > a.size || b.size != b.size ? b : a; }

// Of all threads of the block: whole warps, kMostPivotThreads at most. A barrier lies between two calls.
__device__ __forceinline__ Pivot LargestOfBlock(Pivot pivot) {
  __shared__ Pivot of_warp[kMostPivotThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    pivot = Larger(pivot, {__shfl_xor_sync(device::kFullWarp, pivot.size, offset),
                           __shfl_xor_sync(device::kFullWarp, pivot.row, offset)});
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = pivot;
  __syncthreads();
  pivot = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) pivot = Larger(pivot, of_warp[warp]);
  return pivot;
}

// Threads for matrices of so many rows.
inline unsigned PivotThreads(int64_t rows) { return rows <= 8 ? 32 : rows <= 24 ? 64 : kMostPivotThreads; }

}  // namespace cudaep::kernels
