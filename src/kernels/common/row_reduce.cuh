// Reductions over the threads that share a row: blockDim.x of them, a power of two up to 32 or a multiple of 32.
//
// The block is blockDim.x by blockDim.y threads, whole warps, and all of them take part. Rows of up to 32 threads lie
// inside a warp; wider ones have the block for themselves and meet in shared memory.
#pragma once

#include <limits>

#include "device/launch.h"

namespace cudaep::kernels {

inline constexpr int kMaxRowWarps = 32;

template <class T>
CUDAEP_HOST_DEVICE constexpr T NegativeInfinity() {
  return -std::numeric_limits<T>::infinity();
}

struct AddOp {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOp {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return device::Max(a, b);
  }
};

// Every thread of the row gets the result. `scratch`: kMaxRowWarps shared elements that no earlier reduction of the
// same kernel used without a barrier since.
template <class T, class Op>
__device__ __forceinline__ T RowReduce(T value, Op op, T* scratch) {
  const unsigned width = blockDim.x;
  for (unsigned offset = device::Min(width, 32u) / 2; offset > 0; offset /= 2) {
    value = op(value, __shfl_xor_sync(device::kFullWarp, value, static_cast<int>(offset)));
  }
  if (width <= 32) return value;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (unsigned warp = 1; warp < width / 32; ++warp) value = op(value, scratch[warp]);
  return value;
}

}  // namespace cudaep::kernels
