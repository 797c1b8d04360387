// How numbers of convolutions become codes.
#pragma once

#include <cmath>

#include "kernels/conv/coding.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels::quantized {

// Codes are whole numbers of a range and the zero point. Where y has no codes, its numbers stay as they are.
struct Quantizer {
  WholeRange range = {.scaled_factor = 1};
  WholeBytes bytes = {};

  // The numbers' bounds are kept when they are rounded: what is rounded grows with the number.
  static Quantizer Of(const Coding& coding, const Bounds& bounds) {
    const auto lowest = static_cast<float>(coding.lowest - coding.zero), highest = lowest + 255;
    // What is no number bounds nothing.
    const float least = std::fmin(std::fmax(std::nearbyint(bounds.low / coding.scale), lowest), highest);
    const float most = std::fmax(std::fmin(std::nearbyint(bounds.high / coding.scale), highest), lowest);
    const auto range = WholeRange::Of(least, most, 1 / coding.scale);
    return {.range = range, .bytes = WholeBytes::Of(range, coding.zero)};
  }

  // What RaisedOf takes instead of a factor and a term of numbers.
  __device__ __forceinline__ float FactorOf(float factor) const { return factor * range.scaled_factor; }
  __device__ __forceinline__ float StartOf(float term) const {
    return fmaf(term, range.scaled_factor, range.scaled_start);
  }
  // Of x * factor + term, for bytes.Join().
  __device__ __forceinline__ int32_t RaisedOf(float x, float factor, float start) const {
    return bytes.Raised(range.Unbounded(x, factor, start));
  }
};

}  // namespace cudaep::kernels::quantized
