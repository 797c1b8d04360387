// The rank of a thread among those of its block that have something.
#pragma once

#include "device/launch.h"

namespace cudaep::kernels {

// How many threads of lower number in the block, one-dimensional and of kThreads, have `selected`; `total` becomes the
// number in all. `warps`: kThreads / 32 ints of shared memory, which may be used again at once: ends behind a barrier.
// All threads call.
template <int kThreads>
__device__ __forceinline__ int RankInBlock(bool selected, int* warps, int* total) {
  static_assert(kThreads % 32 == 0);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const unsigned ballot = __ballot_sync(device::kFullWarp, selected);
  if (lane == 0) warps[warp] = __popc(ballot);
  __syncthreads();
  int before = __popc(ballot & ((1u << lane) - 1u)), sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) {
    if (i < warp) before += warps[i];
    sum += warps[i];
  }
  *total = sum;
  __syncthreads();
  return before;
}

}  // namespace cudaep::kernels
