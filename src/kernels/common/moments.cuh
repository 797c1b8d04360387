// Mean and sum of squared deviations, never as a difference of squares: of values in registers, of growing sets, and of
// the sets of several threads merged into one.
//
// Source of the merging: T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
// Sample Variances", 1979.
#pragma once

#include "device/launch.h"

namespace cudaep::kernels {

// Pairs, pairs of pairs and so on: exact where 2^n elements are equal.
template <int kCount, class C>
__device__ __forceinline__ C PairwiseSum(const C* value) {
  static_assert((kCount & (kCount - 1)) == 0);
  if constexpr (kCount == 1) {
    return value[0];
  } else {
    return PairwiseSum<kCount / 2>(value) + PairwiseSum<kCount / 2>(value + kCount / 2);
  }
}

// a / b for normal b up to 2^126; a bit off the rounded quotient in fp32.
template <class C>
__device__ __forceinline__ C RoughQuotient(C a, C b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(C) == 4) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    return a * inverse;
  }
#endif
  return a / b;
}

// Of a set that grows by batches and by other sets.
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;

  // Those of 2^n elements. `centred`: around 0 instead of the mean.
  template <int kElems>
  static __device__ __forceinline__ Moments Of(const C* value, bool centred) {
    const C mean = centred ? C(0) : PairwiseSum<kElems>(value) * (C(1) / kElems);
    constexpr int kSums = kElems < 4 ? kElems : 4;
    C squares[kSums] = {};
#pragma unroll
    for (int k = 0; k < kElems; ++k) squares[k % kSums] += (value[k] - mean) * (value[k] - mean);
    return {static_cast<C>(kElems), mean, PairwiseSum<kSums>(squares)};
  }
  template <int kElems>
  __device__ __forceinline__ void Add(const C* value, bool centred) {
    Merge(Of<kElems>(value, centred));
  }
  __device__ __forceinline__ void Merge(const Moments& other) {
    const C total = count + other.count;
    if (total != C(0)) Merge(other, total, RoughQuotient(other.count, total));
  }
  // The same, given the elements of both and the other's share of them.
  __device__ __forceinline__ void Merge(const Moments& other, C total, C share) {
    const C delta = other.mean - mean, step = delta * share;
    // `count` first: where it is 0, the square of delta may be no number.
    squares += other.squares + count * step * delta;
    mean += step;
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
