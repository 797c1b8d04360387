// Numbers as whole ones within bounds, ties to even. What a sum leaves below 0 a multiprocessor cuts off at no cost,
// while it makes half as many minima and maxima as sums: so there is one of them for two bounds, and none where bytes
// are packed, which cuts off as well.
//
// The sum that is cut off counts 256 as 1 from the lower bound on, in fp32: before a number is rounded it is off by
// 2^-17, and by what what is added to it is off, unless it is a sum of few powers of two. One so near to a tie may
// become the whole number beside it.
#pragma once

#include <bit>

#include "device/saturate.h"
#include "device/words.h"
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
  // becomes the lower bound. Unbounded: up to 256 above it.
  __device__ __forceinline__ float Unbounded(float x, float factor, float start) const {
    return fmaf(device::FmaWithinOne(x, factor, start), kWholeRange, lowest);
  }
  __device__ __forceinline__ float Bits(float x, float factor, float start) const {
    return fminf(Unbounded(x, factor, start), highest);
  }
  __device__ __forceinline__ float Unbounded(float x) const { return Unbounded(x, scaled_factor, scaled_start); }
  // The whole number.
  __device__ __forceinline__ float Whole(float x, float factor, float start) const {
    return Bits(x, factor, start) - kWholeNumbers;
  }
  __device__ __forceinline__ float Whole(float x) const { return Whole(x, scaled_factor, scaled_start); }
};

// Whole numbers of a range as codes of 8 bits: the sum with a zero point.
struct WholeBytes {
  int32_t raise;   // to the bits of unbounded numbers: so the upper bound becomes 255, where bytes are cut off
  uint32_t lower;  // from each byte: how far all have been raised above their codes
  uint32_t flip;   // where the lowest code is negative: codes are unsigned ones before

  // No code lies below -128 or more than 255 above the lowest one of its type.
  static __host__ __device__ constexpr WholeBytes Of(const WholeRange& range, int32_t zero) {
    const auto least = static_cast<int32_t>(range.lowest - kWholeNumbers) + zero;
    const auto above = 255 - static_cast<int32_t>(range.highest - range.lowest);
    const int32_t unsigned_least = least < 0 ? least + 128 : least;
    return {above - std::bit_cast<int32_t>(range.lowest), static_cast<uint32_t>(above - unsigned_least) * 0x01010101u,
            least < 0 ? 0x80808080u : 0u};
  }

  __device__ __forceinline__ int32_t Raised(float unbounded) const { return std::bit_cast<int32_t>(unbounded) + raise; }
  // The codes, the first one lowest, of what Raised() made.
  template <class... Numbers>
  __device__ __forceinline__ uint32_t Join(Numbers... raised) const {
    return (device::JoinWithinBytes(raised...) - lower) ^ flip;
  }
};

}  // namespace cudaep::kernels
