// Numbers as whole ones within bounds, ties to even. What a sum leaves below 0 a multiprocessor cuts off at no cost,
// while it makes half as many minima and maxima as sums: so there is one of them for two bounds.
//
// The sum that is cut off counts 256 as 1 from the lower bound on, in fp32: before a number is rounded it is off by
// 2^-17, and by what what is added to it is off, unless it is a sum of few powers of two. One so near to a tie may
// become the whole number beside it.
#pragma once

#include "device/saturate.h"
#include "kernels/quant/code_rounding.cuh"

namespace cudaep::kernels {

inline constexpr float kWholeRange = 256, kInverseWholeRange = 1 / kWholeRange;

struct WholeRange {
  float scaled_factor = kInverseWholeRange;  // of numbers, divided by 256
  float scaled_start = 0;                    // what is added to them, so that 0 is the lower bound, divided by 256
  float lowest = kWholeNumbers, highest = kWholeNumbers;  // the bounds, and kWholeNumbers

  // Of number * factor. The bounds are whole, less than 2^22 and less than 256 apart.
  static __host__ __device__ constexpr WholeRange Of(float least, float most, float factor = 1) {
    return {factor * kInverseWholeRange, -least * kInverseWholeRange, kWholeNumbers + least, kWholeNumbers + most};
  }

  // kWholeNumbers and the nearest whole number to 256 * (x * scaled_factor + scaled_start) + the lower bound. NaN
  // becomes the lower bound.
  __device__ __forceinline__ float Bits(float x, float factor, float start) const {
    return fminf(fmaf(device::FmaWithinOne(x, factor, start), kWholeRange, lowest), highest);
  }
  __device__ __forceinline__ float Bits(float x) const { return Bits(x, scaled_factor, scaled_start); }
  // The whole number.
  __device__ __forceinline__ float Whole(float x, float factor, float start) const {
    return Bits(x, factor, start) - kWholeNumbers;
  }
  __device__ __forceinline__ float Whole(float x) const { return Whole(x, scaled_factor, scaled_start); }
};

}  // namespace cudaep::kernels
