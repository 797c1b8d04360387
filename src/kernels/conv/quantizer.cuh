// The bounds within which numbers of convolutions become codes.
#pragma once

#include <cmath>

#include "device/launch.h"
#include "kernels/conv/coding.h"

namespace cudaep::kernels::quantized {

// Bounds of what becomes a code, or of y where it does not, counted from the zero point, and that.
struct Quantizer {
  float least, most, zero;
};

// The numbers' bounds are kept when they are rounded: what is rounded grows with the number.
inline Quantizer QuantizerOf(const Coding& coding, const Bounds& bounds, bool to_codes) {
  if (!to_codes) return {.least = bounds.low, .most = bounds.high, .zero = 0};
  const auto least = static_cast<float>(coding.lowest - coding.zero), most = least + 255;
  // What is no number bounds nothing.
  return {.least = std::fmin(std::fmax(std::nearbyint(bounds.low / coding.scale), least), most),
          .most = std::fmax(std::fmin(std::nearbyint(bounds.high / coding.scale), most), least),
          .zero = static_cast<float>(coding.zero)};
}

__device__ __forceinline__ float Bound(float x, const Quantizer& by) { return fminf(fmaxf(x, by.least), by.most); }

}  // namespace cudaep::kernels::quantized
