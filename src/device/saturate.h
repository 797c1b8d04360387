// Sums kept within [0, 1]: a modifier of the instruction.
#pragma once

#include <cmath>

#include "device/launch.h"

namespace cudaep::device {

// a * b + c within [0, 1]; 0 of NaN.
__device__ __forceinline__ float FmaWithinOne(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __saturatef(fmaf(a, b, c));
#else
  return std::fmin(std::fmax(std::fmaf(a, b, c), 0.0f), 1.0f);
#endif
}

}  // namespace cudaep::device
