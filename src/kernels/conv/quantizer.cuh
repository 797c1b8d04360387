// How numbers of convolutions become codes.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/conv/coding.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels::quantized {

// Codes are whole numbers of a range and the zero point. Where y has no codes, its numbers stay as they are.
struct Quantizer {
  WholeRange range = {.scaled_factor = 1};
  float zero = 0;

  // The numbers' bounds are kept when they are rounded: what is rounded grows with the number.
  static Quantizer Of(const Coding& coding, const Bounds& bounds) {
    const auto lowest = static_cast<float>(coding.lowest - coding.zero), highest = lowest + 255;
    // What is no number bounds nothing.
    const float least = std::fmin(std::fmax(std::nearbyint(bounds.low / coding.scale), lowest), highest);
    const float most = std::fmax(std::fmin(std::nearbyint(bounds.high / coding.scale), highest), lowest);
    return {.range = WholeRange::Of(least, most, 1 / coding.scale), .zero = static_cast<float>(coding.zero)};
  }

  // What CodeOf takes instead of a factor and a term of numbers.
  __device__ __forceinline__ float FactorOf(float factor) const { return factor * range.scaled_factor; }
  __device__ __forceinline__ float StartOf(float term) const {
    return fmaf(term, range.scaled_factor, range.scaled_start);
  }
  // The code of x * factor + term in the lowest byte, behind other bits.
  __device__ __forceinline__ uint32_t CodeOf(float x, float factor, float start) const {
    return std::bit_cast<uint32_t>(range.Bits(x, factor, start) + zero);
  }
};

}  // namespace cudaep::kernels::quantized
