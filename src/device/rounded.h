// Products that are rounded before anything is added to them. nvcc joins a product and a sum into one instruction that
// rounds once; where the result decides something (which pixel is nearest, how many samples there are) it has to be
// what a host computes step by step.
#pragma once

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

}  // namespace cudaep::device
