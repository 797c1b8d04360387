// Mean and sum of squared deviations, never as a difference of squares: of values in registers, of growing sets, and of
// the sets of several threads merged into one.
//
// Source of the merging: T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
// Sample Variances", 1979.
#pragma once

#include "device/launch.h"

namespace cudaep::kernels {

// Of a set that grows by batches and by other sets.
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;

  // `centred`: around 0 instead of the mean.
  template <int kElems>
  __device__ __forceinline__ void Add(const C* value, bool centred) {
    C batch_mean = 0, batch_squares = 0;
    if (!centred) {
      // Around an element, so that the mean of equal ones is exact.
#pragma unroll
      for (int k = 1; k < kElems; ++k) batch_mean += value[k] - value[0];
      batch_mean = value[0] + batch_mean / kElems;
    }
#pragma unroll
    for (int k = 0; k < kElems; ++k) batch_squares += (value[k] - batch_mean) * (value[k] - batch_mean);
    Merge({static_cast<C>(kElems), batch_mean, batch_squares});
  }
  __device__ __forceinline__ void Merge(const Moments& other) {
    const C total = count + other.count;
    if (total == C(0)) return;
    const C delta = other.mean - mean, share = other.count / total;
    squares += other.squares + delta * delta * count * share;
    mean += delta * share;
    count = total;
  }
};

// The sum over aligned groups of `lanes` lanes, a power of two.
template <class C>
__device__ __forceinline__ C SumOfLanes(C value, unsigned lanes) {
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(device::kFullWarp, value, static_cast<int>(offset));
  }
  return value;
}

// Mean and squares of the union of disjoint sets, of which each lane of a group has kSets. `inverse_total`: one over
// their elements together. Where all means are 0 (`centred`) it stays so.
template <int kSets, class C>
__device__ __forceinline__ void MergeMoments(const C (&count)[kSets], const C (&mean)[kSets], const C (&squares)[kSets],
                                             C inverse_total, unsigned lanes, bool centred, C& all_mean,
                                             C& all_squares) {
  all_mean = 0;
  if (!centred) {
    // So that the mean of equal means is exact.
    const C base = __shfl_sync(device::kFullWarp, mean[0], 0, static_cast<int>(lanes));
#pragma unroll
    for (int i = 0; i < kSets; ++i) all_mean += count[i] * (mean[i] - base);
    all_mean = base + SumOfLanes(all_mean, lanes) * inverse_total;
  }
  all_squares = 0;
#pragma unroll
  for (int i = 0; i < kSets; ++i) {
    const C delta = mean[i] - all_mean;
    all_squares += squares[i] + count[i] * delta * delta;
  }
  all_squares = SumOfLanes(all_squares, lanes);
}

}  // namespace cudaep::kernels
