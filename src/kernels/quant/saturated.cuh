// The 8-bit code of a rounded real.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/launch.h"

namespace cudaep::kernels {

template <class T>
__device__ __forceinline__ T Saturated(float rounded, int32_t zero) {
  constexpr float kLowest = std::is_signed_v<T> ? -128.0f : 0.0f, kHighest = kLowest + 255.0f;
  return static_cast<T>(static_cast<int32_t>(fminf(fmaxf(rounded + static_cast<float>(zero), kLowest), kHighest)));
}

}  // namespace cudaep::kernels
