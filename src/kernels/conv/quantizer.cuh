// How numbers of convolutions become codes.
#pragma once

#include <cmath>

#include "kernels/conv/coding.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels::quantized {

// Codes are whole numbers of a range and the zero point. Of y that is no code: numbers as they are.
struct Quantizer {
  WholeRange range;
  float by_range = 1;  // what a number is multiplied by to become a code by 256
  float zero = 0;

  // The numbers' bounds are kept when they are rounded: what is rounded grows with the number.
  static Quantizer Of(const Coding& coding, const Bounds& bounds) {
    const auto lowest = static_cast<float>(coding.lowest - coding.zero), highest = lowest + 255;
    // What is no number bounds nothing.
    const float least = std::fmin(std::fmax(std::nearbyint(bounds.low / coding.scale), lowest), highest);
    const float most = std::fmax(std::fmin(std::nearbyint(bounds.high / coding.scale), highest), lowest);
    return {.range = WholeRange::Of(least, most),
            .by_range = 1 / coding.scale * kByWholeRange,
            .zero = static_cast<float>(coding.zero)};
  }

  // The code of x * factor + bias in the lowest byte, behind other bits, where both are multiplied by `by_range` and
  // the bias has the range's start.
  __device__ __forceinline__ uint32_t CodeOf(float x, float factor, float bias) const {
    return std::bit_cast<uint32_t>(WholeBits(range, x, factor, bias) + zero);
  }
};

}  // namespace cudaep::kernels::quantized
