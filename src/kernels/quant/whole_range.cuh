// Numbers as whole ones within bounds, ties to even. What a sum leaves below 0 a multiprocessor cuts off at no cost,
// while it makes half as many minima and maxima as sums: so there is one of them for two bounds.
//
// The sum that is cut off counts 256 as 1 from the lower bound on: a number that is no sum of few powers of two is off
// by 2^-17 at most before it is rounded.
#pragma once

#include "device/rounded.h"
#include "kernels/quant/code_rounding.cuh"

namespace cudaep::kernels {

inline constexpr float kWholeRange = 256, kByWholeRange = 1 / kWholeRange;

// The bounds are whole and less than 256 apart.
struct WholeRange {
  float start = 0;  // what is added to numbers by 256, so that 0 is the lower bound
  float lowest = kWholeNumbers, highest = kWholeNumbers;  // the bounds, and kWholeNumbers

  static __host__ __device__ constexpr WholeRange Of(float least, float most) {
    return {-least * kByWholeRange, kWholeNumbers + least, kWholeNumbers + most};
  }
};

// kWholeNumbers and the whole number: the nearest to x * factor + added, where `by_range` is the factor by 256, and
// `start` the range's and what is added by 256. NaN becomes the lower bound.
__device__ __forceinline__ float WholeBits(const WholeRange& range, float x, float by_range, float start) {
  return fminf(fmaf(device::FmaWithinOne(x, by_range, start), kWholeRange, range.lowest), range.highest);
}

}  // namespace cudaep::kernels
