// Two 16-bit floats of type T in a word, as one instruction takes them. 8.0 and later; MaxOfPairs, where NaN loses, is
// beside the reductions that want it (intrinsics.h).
#pragma once

#include <cmath>

#include "device/launch.h"

namespace cudaep::device {

// Both rounded once.
template <class T>
__device__ __forceinline__ uint32_t PairOf(float low, float high) {
  return Store<T>(low).bits | static_cast<uint32_t>(Store<T>(high).bits) << 16;
}

// The larger and the smaller numbers of two pairs; NaN wins.
template <class T>
__device__ __forceinline__ uint32_t MaxOrNanOfPairs(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  const auto larger = [](uint32_t x, uint32_t y) {
    const float first = ToFloat(T{static_cast<uint16_t>(x)}), second = ToFloat(T{static_cast<uint16_t>(y)});
    const bool take_first = first != first || first > second;
    return take_first ? x & 0xffffu : y & 0xffffu;
  };
  return larger(a, b) | larger(a >> 16, b >> 16) << 16;
#endif
}
template <class T>
__device__ __forceinline__ uint32_t MinOrNanOfPairs(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  constexpr uint32_t kSigns = 0x80008000u;
  return MaxOrNanOfPairs<T>(a ^ kSigns, b ^ kSigns) ^ kSigns;
#endif
}

// a * b + c of two pairs, each rounded once; elsewhere than on a GPU rounded to fp32 in between.
template <class T>
__device__ __forceinline__ uint32_t FmaOfPairs(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
#else
  const auto fma = [](uint32_t x, uint32_t y, uint32_t z) {
    const float sum = std::fma(ToFloat(T{static_cast<uint16_t>(x)}), ToFloat(T{static_cast<uint16_t>(y)}),
                               ToFloat(T{static_cast<uint16_t>(z)}));
    return static_cast<uint32_t>(Store<T>(sum).bits);
  };
  return fma(a, b, c) | fma(a >> 16, b >> 16, c >> 16) << 16;
#endif
}

}  // namespace cudaep::device
