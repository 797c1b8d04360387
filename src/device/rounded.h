// Products that are rounded before anything is added to them, and a sum kept within [0, 1].
//
// nvcc joins a product and a sum into one instruction that rounds once; where the result decides something (which pixel
// is nearest, how many samples there are) it has to be what a host computes step by step.
#pragma once

#include <cmath>

#include "device/launch.h"

namespace cudaep::device {

__device__ __forceinline__ float RoundedProduct(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
__device__ __forceinline__ double RoundedProduct(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

// a * b + c within [0, 1], which costs nothing beside the sum; 0 of NaN.
__device__ __forceinline__ float FmaWithinOne(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __saturatef(fmaf(a, b, c));
#else
  return std::fmin(std::fmax(std::fmaf(a, b, c), 0.0f), 1.0f);
#endif
}

}  // namespace cudaep::device
